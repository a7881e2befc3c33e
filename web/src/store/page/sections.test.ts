import { createRoot } from "solid-js";
import { expect, it } from "vitest";
import { isSection } from "@/base/sections";
import { type Requests, Store } from "@/store/page/store";
import { node, produced, RUN, records, runInfo, snapshot } from "@/wire/fixtures";

/** A program without scopes that repeats ten different operations. */
const NODES = Array.from({ length: 300 }, (_, at) =>
  node(at + 1, `op${at % 10}_${at}`, { op: `op${at % 10}`, inputs: at > 0 ? [at] : [] }),
);
const VALUES = NODES.map(({ id, name }) => produced(id, name));

function opened(): Store {
  const store = createRoot(() => new Store());
  store.attach({ request: (() => Promise.resolve({ type: "done" })) as Requests["request"] });
  store.runsChanged([runInfo()]);
  store.receive([snapshot({ seq: 1, nodes: NODES, values: VALUES })]);
  return store;
}

const scopesIn = (store: Store): (string | undefined)[] =>
  NODES.map(({ id }) => store.tree()?.scopeOf(id));

it("nodes of a long program without scopes are divided into sections, consistently in all structures", () => {
  const tree = opened().tree();
  const scopes = NODES.map(({ id }) => tree?.scopeOf(id) ?? "");
  // The first node is the program's input.
  expect(scopes.map(isSection)).toEqual(NODES.map(({ id }) => id > 1));
  expect(NODES.map(({ id }) => tree?.sections?.[id])).toEqual(scopes);
  expect(scopes.every((scope) => tree?.scopes.get(scope)?.kind === "scope")).toBe(true);
  // They repeat, so that they are a stack.
  expect(tree?.repeats.stackOf.get(scopes[150] ?? "")?.members.length).toBeGreaterThan(20);
});

it("disclosing a node opens its section", () => {
  const store = opened();
  store.setOpen(new Set());
  store.disclose({ kind: "node", id: 151 });
  expect([...store.folds().open]).toEqual([store.tree()?.scopeOf(151)]);
});

it("sections can be turned off, stay off as the graph grows, and be turned on again", () => {
  const store = opened();
  const before = scopesIn(store);
  store.resection();
  expect(store.tree()?.sections).toBeUndefined();
  expect(new Set(scopesIn(store))).toEqual(new Set([""]));
  store.resection();
  expect(scopesIn(store)).toEqual(before);
  store.resection();
  const more = node(301, "op0_300", { op: "op0", inputs: [300] });
  store.receive([records({ run: RUN, seq: 2, nodes: [more], node_seqs: [2] })]);
  expect(store.tree()?.sections).toBeUndefined();
  expect(new Set(scopesIn(store))).toEqual(new Set([""]));
});
