/** The canvas alone, driven by the address: graph, theme, fold state, marks. */

import { createGraphView } from "@/render/view/graph_view";
import type { GraphItem, NodeStates } from "@/render/scene/types";
import { digitsMlp, transformer } from "./graphs";

const query = new URLSearchParams(location.search);
document.documentElement.dataset.theme = query.get("theme") ?? "dark";
const model = query.get("graph") === "transformer"
  ? transformer(Number(query.get("blocks") ?? 6)) : digitsMlp();
const scopes = new Set<string>();
for (const node of model.nodes) {
  for (let path = node.scope; path !== ""; path = path.includes("/")
    ? path.slice(0, path.lastIndexOf("/")) : "") scopes.add(path);
}
const listed = query.get("open") ?? "";
let open = listed === "all" ? scopes : new Set(listed.split(",").filter((scope) => scope !== ""));
const breakpoints = new Map<number, "enabled" | "disabled" | "unverified">();
const log: unknown[] = [];
const view = createGraphView(document.querySelector<HTMLElement>("#canvas")!, {
  select: (item) => { log.push(["select", item]); view.setSelection(item); },
  toggleScope: (path) => {
    log.push(["toggle", path]);
    open = new Set(open);
    if (!open.delete(path)) open.add(path);
    view.setExpanded(open);
  },
  toggleBreakpoint: (node) => {
    log.push(["breakpoint", node]);
    if (!breakpoints.delete(node)) breakpoints.set(node, "enabled");
    view.setBreakpoints(new Map(breakpoints));
  },
  hover: () => undefined,
  camera: () => undefined,
  layout: (busy, ms) => { if (!busy) log.push(["layout", ms]); },
});
document.querySelector("#overview")!.append(view.overview);
view.overview.style.cssText = "width:76px;height:100%;display:block";
const find = (name: string | null): number | undefined =>
  model.nodes.find((node) => node.name === name)?.id;
const current = find(query.get("current"));
const bad = find(query.get("nan"));
const size = model.nodes.length + 1;
const states: NodeStates = {
  times: new Uint32Array(size), step: new Uint32Array(size),
  durationNs: new Float64Array(size), flags: new Uint8Array(size),
};
for (const node of model.nodes) {
  states.times[node.id] = 1;
  states.step[node.id] = current === undefined || node.id <= current ? 7 : 6;
  const bytes = model.values.get(node.outputs[0]!)?.bytes ?? 0;
  states.durationNs[node.id] = node.family === "leaf" ? 0 : 900 + (bytes ** 0.9) * (1 + node.id % 5);
}
if (bad !== undefined) states.flags[bad] = 1;
view.setExpanded(open);
view.setGraph(model);
view.setStates(states, 7);
for (const name of (query.get("break") ?? "").split(",")) {
  const id = find(name);
  if (id !== undefined) breakpoints.set(id, "enabled");
}
view.setBreakpoints(breakpoints);
if (current !== undefined) {
  view.setCurrent({ node: current, when: "after", live: true }, true);
  view.setBadge({
    node: current, histogram: [30, 15, 13, 12, 12, 11, 10, 9, 8, 7, 5, 4, 3, 2, 2, 1, 1, 1],
    nanCount: bad === undefined ? 0 : 11, infCount: 0, text: "",
  });
}
const chosen = query.get("select");
if (chosen !== null) {
  const id = find(chosen);
  view.setSelection(id === undefined ? { kind: "scope", path: chosen } : { kind: "node", id });
}
Object.assign(globalThis, { view, model, log, find, open: () => open, item: (i: GraphItem) => i });
