import { createRoot } from "solid-js";
import { beforeEach, describe, expect, test } from "vitest";
import { pageCommands } from "@/app/commands";
import type { PageCommand } from "@/app/page_command";
import { commandFitness } from "@/base/synonyms";
import type { Watches } from "@/store/debugger/watches";
import { createMoments, type Moments } from "@/store/history/value_diff";
import { createWhy } from "@/store/history/why";
import { createOverlays } from "@/store/page/overlays";
import type { Preferences } from "@/store/page/preferences";
import { createSearching } from "@/store/page/searching";
import { type Requests, Store } from "@/store/page/store";
import { createTracing } from "@/store/page/tracing";
import { createUi, type Ui } from "@/store/page/ui";
import { createViews } from "@/store/page/views";
import {
  columns,
  node,
  produced,
  RUN,
  records,
  runInfo,
  session,
  snapshot,
  stopAt,
} from "@/wire/fixtures";
import { HAS_NAN, type RequestBody, type ResponseBody } from "@/wire/types.gen";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

// x -> rate/matmul -> log (a NaN) -> assign; the program is stopped after log.
const NODES = [node(1, "x"), node(2, "rate/matmul"), node(3, "log"), node(4, "assign")];
const ROWS = [
  { seq: 10, node: 1 },
  { seq: 11, node: 2 },
  { seq: 12, node: 3, flags: HAS_NAN },
];

let asked: RequestBody[];
let moved: { seq: number; node: number };
let broken: string[];
let store: Store;
let ui: Ui;
let moments: Moments;
let commands: readonly PageCommand[];

const answer = (body: RequestBody): ResponseBody => {
  if (body.type === "move") return { type: "moved", text: "Back", step: 1, ...moved };
  if (body.type === "get_state") {
    const executions = columns(ROWS.filter((row) => row.seq <= body.seq));
    return {
      type: "state_at",
      since: null,
      gone: [],
      steps: [],
      values: [],
      seq: body.seq,
      step: 1,
      time_ns: 5,
      executions,
    };
  }
  if (body.type === "ask_why") {
    return {
      type: "why",
      value: body.value,
      seq: 12,
      elements: 0,
      followed: 0,
      groups: [],
      branch: 0,
    };
  }
  return { type: "done" };
};

beforeEach(() => {
  asked = [];
  broken = [];
  createRoot(() => {
    store = new Store();
    ui = createUi(undefined);
    moments = createMoments(store, ui);
    const why = createWhy(store, ui);
    commands = pageCommands({
      store,
      ui,
      moments,
      searching: createSearching(store, ui),
      tracing: createTracing(store),
      overlays: createOverlays(store, ui),
      views: createViews(store, ui, () => undefined, undefined),
      why,
      watches: {} as Watches,
      preferences: {} as Preferences,
      view: () => undefined,
      changes: () => undefined,
      go: (item) => store.select(item),
      toggleBreakpoint: (node) => broken.push(`node ${node}`),
      toggleScopeBreakpoint: (path) => broken.push(`scope ${path}`),
      exportSvg: () => Promise.resolve(),
      showRuns: () => undefined,
      stopOpening: () => undefined,
      focusSearch: () => undefined,
      showBreakpoints: () => undefined,
      focusBreakpoints: () => undefined,
    });
  });
  store.attach({
    request: ((body: RequestBody) => {
      asked.push(body);
      return Promise.resolve(answer(body));
    }) as Requests["request"],
  });
  store.linkChanged({ kind: "open", server: "1" });
  store.runsChanged([runInfo({ recording: "r.nscope" })]);
  const at = stopAt(3, "log", { seq: 12 });
  store.receive([
    snapshot({
      run: runInfo({ recording: "r.nscope" }),
      seq: 12,
      nodes: NODES,
      values: NODES.map((node) => produced(node.id, node.name)),
      executions: columns(ROWS),
    }),
    { type: "session", run: RUN, info: session({ phase: "stopped", version: 2, stop: at }) },
  ]);
});

async function press(keys: string): Promise<void> {
  const command = commands.find((item) => item.keys === keys);
  if (command === undefined || !command.enabled()) throw new Error(`${keys} does nothing here`);
  command.run();
  await settled();
}

const chosen = (): number | undefined => {
  const item = store.selection();
  return item?.kind === "node" ? item.id : undefined;
};
const shown = (): number | undefined => {
  const item = store.subject();
  return item?.kind === "node" ? item.id : undefined;
};
const asksWhy = (): number | undefined => {
  const last = asked.filter((body) => body.type === "ask_why").at(-1);
  return last?.type === "ask_why" ? last.value : undefined;
};

type Start = "the stop's node" | "chosen by hand" | "pinned, another chosen";

/** The selected node, and the one in the inspector, after a command. */
const TABLE: readonly (readonly [string, Start, number, number])[] = [
  ["N", "the stop's node", 3, 3],
  ["N", "chosen by hand", 3, 3],
  ["N", "pinned, another chosen", 3, 2],
  ["M", "the stop's node", 3, 3],
  ["M", "chosen by hand", 2, 2],
  ["M", "pinned, another chosen", 1, 2],
  ["D", "the stop's node", 3, 3],
  ["D", "chosen by hand", 2, 2],
  ["D", "pinned, another chosen", 1, 2],
  ["W", "the stop's node", 3, 3],
  ["W", "chosen by hand", 2, 2],
  ["W", "pinned, another chosen", 1, 2],
  ["⇧F8", "the stop's node", 4, 4],
  ["⇧F8", "chosen by hand", 2, 2],
  ["⇧F8", "pinned, another chosen", 1, 2],
  ["B", "the stop's node", 4, 4],
  ["B", "chosen by hand", 4, 4],
  ["B", "pinned, another chosen", 4, 2],
  ["⇧F8 L", "the stop's node", 3, 3],
  ["⇧F8 L", "chosen by hand", 2, 2],
  ["⇧F8 L", "pinned, another chosen", 1, 2],
  ["B L", "the stop's node", 3, 3],
  ["B L", "chosen by hand", 2, 2],
  ["B L", "pinned, another chosen", 1, 2],
];

test("F9 sets breakpoints on nodes and on scopes", async () => {
  store.receive([
    { type: "session", run: RUN, info: session({ phase: "running", attended: true, version: 3 }) },
  ]);
  store.select({ kind: "node", id: 2 });
  await press("F9");
  store.select({ kind: "scope", path: "rate" });
  await press("F9");
  expect(broken).toEqual(["node 2", "scope rate"]);
});

describe("selection and inspector after a command", () => {
  test.each(TABLE)("%s with %s", async (keys, start, selected, inspected) => {
    moved = { seq: 5, node: 4 };
    if (start !== "the stop's node") store.select({ kind: "node", id: 2 });
    if (start === "pinned, another chosen") {
      store.setPinned(true);
      store.select({ kind: "node", id: 1 });
    }
    for (const key of keys.split(" ")) await press(key);
    expect([chosen(), shown()]).toEqual([selected, inspected]);
    if (keys === "W") expect(asksWhy()).toBe(inspected);
  });

  test("while Why is open and a node is pinned, the next NaN changes neither head nor body", async () => {
    store.select({ kind: "node", id: 2 });
    await press("W");
    store.setPinned(true);
    await press("N");
    expect(chosen()).toBe(3);
    expect(shown()).toBe(2);
    expect(asksWhy()).toBe(2);
  });

  test("Why is asked about the moment that the page is moving to", async () => {
    store.select({ kind: "node", id: 2 });
    void store.seek(11);
    await press("W");
    const question = asked.find((body) => body.type === "ask_why");
    expect(question).toMatchObject({ value: expect.any(Number), seq: 11 });
  });

  test("Why without a selection asks the user to select a node", async () => {
    store.receive([
      { type: "session", run: RUN, info: session({ phase: "running", version: 3, stop: null }) },
    ]);
    store.select(undefined);
    await press("W");
    expect(asksWhy()).toBeUndefined();
    expect(store.notices().map((notice) => notice.text)).toEqual([
      "Select a node to have its value explained.",
    ]);
  });

  test("a held moment is compared at the selected node, three steps back", async () => {
    store.select({ kind: "node", id: 2 });
    await press("M");
    for (const seq of [9, 6, 3]) {
      moved = { seq, node: 4 };
      await press("⇧F8");
    }
    await press("D");
    expect(shown()).toBe(2);
    expect([moments.held()?.seq, store.seq()]).toEqual([12, 3]);
    await press("L");
    expect(shown()).toBe(2);
  });

  test("a node selected in the past stays selected back at live", async () => {
    moved = { seq: 5, node: 4 };
    await press("B");
    store.select({ kind: "node", id: 1 });
    await press("L");
    expect(chosen()).toBe(1);
  });

  test("a later stop selects its node, and keeps the pinned one", () => {
    store.select({ kind: "node", id: 2 });
    store.setPinned(true);
    const at = stopAt(4, "assign", { seq: 20 });
    store.receive([
      records({ seq: 20 }),
      { type: "session", run: RUN, info: session({ phase: "stopped", version: 4, stop: at }) },
    ]);
    expect([chosen(), shown()]).toEqual([4, 2]);
    store.setPinned(false);
    expect(shown()).toBe(4);
  });
});

test("from a backward node to its forward node, the page goes back and the program stays stopped", async () => {
  const back = node(5, "backward/log", { phase: "backward", forward: 3 });
  const at = stopAt(5, back.name, { seq: 20 });
  store.receive([
    { ...snapshot({ run: runInfo({ recording: "r.nscope" }), seq: 20, nodes: [...NODES, back] }) },
    { type: "session", run: RUN, info: session({ phase: "stopped", version: 4, stop: at }) },
  ]);
  moved = { seq: 12, node: 3 };
  await press("⇧F10");
  expect(asked.filter((body) => body.type === "control")).toEqual([]);
  expect(asked.find((body) => body.type === "move")).toMatchObject({
    back: true,
    live: true,
    command: { type: "step_twin" },
  });
  expect([chosen(), store.seq()]).toEqual([3, 12]);
});

describe("the palette finds a command by what people call it", () => {
  const best = (typed: string): readonly string[] =>
    commands
      .map(({ title }) => ({ title, fits: commandFitness(title, typed) }))
      .filter((command) => command.fits !== undefined)
      .sort((a, b) => (a.fits ?? 0) - (b.fits ?? 0))
      .map(({ title }) => title);

  test.each([
    ["close", "Fold all scopes"],
    ["collapse", "Fold all scopes"],
    ["collapse all", "Fold all scopes"],
    ["fold", "Fold all scopes"],
    ["expand", "Open all scopes"],
    ["unfold all", "Open all scopes"],
    ["play", "Continue"],
    ["resume", "Continue"],
    ["continue", "Continue"],
    ["halt", "Pause"],
    ["stop", "Pause"],
    ["quit", "Detach"],
    ["exit", "Detach"],
    ["stop", "Detach"],
    ["rewind", "Back to the previous node"],
    ["diff", "Compare this moment with A, or with the previous execution"],
    ["monitor", "Show the watches"],
    ["zoom", "Fit the graph"],
    ["save", "Export as PNG"],
    ["dark mode", "Light or dark theme"],
    ["dark", "Light or dark theme"],
    ["hotkeys", "Show the keyboard shortcuts"],
    ["cause", "Why: explain the selected value"],
    ["change value", "Edit the selected value: continue with it, or try a what-if"],
    ["flame", "Show the timeline"],
    ["stdout", "Show the console: program output"],
    ["recordings", "All runs and recordings"],
    ["latest", "Back to live"],
    ["parent", "Out to the enclosing scope"],
    ["colour by time", "Colour by time"],
    ["flop", "Colour by FLOP"],
  ])("%s: %s", (typed, title) => {
    expect(best(typed).slice(0, 6)).toContain(title);
  });

  test("by its own words before synonyms", () => {
    expect(best("show")[0]).toMatch(/^Show/);
    expect(best("open")[0]).toBe("Open all scopes");
    expect(best("continue")[0]).toBe("Continue");
    expect(best("xylophone")).toEqual([]);
  });
});

test("a graph that was not run has neither dock nor keys for it", async () => {
  const dock = ["K", "Y"].map((keys) => commands.find((item) => item.keys === keys));
  expect(dock.map((command) => command?.enabled())).toEqual([true, true]);
  const run = runInfo({ id: "f".repeat(16), level: "graph", state: "recorded" });
  store.runsChanged([run]);
  store.openRun(run.id);
  store.receive([snapshot({ run, seq: 0, nodes: NODES, values: [] })]);
  await settled();
  expect(dock.map((command) => command?.enabled())).toEqual([false, false]);
});
