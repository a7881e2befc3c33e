import { createRoot } from "solid-js";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createSearching, type Searching } from "@/store/page/searching";
import { Store } from "@/store/page/store";
import { createUi, type Ui } from "@/store/page/ui";
import { columns, node, RUN, records, runInfo, snapshot } from "@/wire/fixtures";
import { HAS_NAN } from "@/wire/types.gen";

const NAMES = ["b/log", "a/log", "b/log_1", "c/exp"];
let store: Store;
let ui: Ui;
let searching: Searching;

afterEach(() => void vi.restoreAllMocks());

beforeEach(() =>
  createRoot(() => {
    store = new Store();
    ui = createUi(undefined);
    searching = createSearching(store, ui);
    store.runsChanged([runInfo()]);
    const nodes = NAMES.map((name, i) => node(i + 1, name, { outputs: [] }));
    store.receive([snapshot({ run: runInfo({ id: RUN }), nodes })]);
  }),
);

function go(direction: 1 | -1 = 1): number | undefined {
  const id = searching.next(direction);
  if (id !== undefined) store.select({ kind: "node", id });
  return id;
}

test("goes from match to match in the graph's order, wrapping around", () => {
  ui.setSearch("log");
  expect([go(), go(), go(), go()]).toEqual([1, 3, 2, 1]);
  expect(searching.place()).toBe(1);
  expect([go(-1), go(-1)]).toEqual([2, 3]);
  expect(searching.place()).toBe(2);
});

test("starts at the node with exactly that name, whatever is selected", () => {
  store.select({ kind: "node", id: 3 });
  ui.setSearch(" b/log ");
  expect(go()).toBe(1);
  expect(go()).toBe(3);
});

test("continues from the selected node", () => {
  store.select({ kind: "node", id: 3 });
  ui.setSearch("log");
  expect(go()).toBe(2);
});

test("selects nothing by itself, and reports no match if there is none", () => {
  ui.setSearch("log");
  expect(store.selection()).toBeUndefined();
  ui.setSearch("tanh");
  expect(searching.result()?.ids).toEqual([]);
  expect(go()).toBeUndefined();
  ui.setSearch("");
  expect(searching.result()).toBeUndefined();
});

test("finds a NaN in an execution that arrives later", async () => {
  ui.setSearch("nan:");
  expect([...(searching.result()?.ids ?? [])]).toEqual([]);
  const executions = columns([{ seq: 9, node: 4, step: 0, flags: HAS_NAN }]);
  store.receive([records({ seq: 9, executions })]);
  await expect.poll(() => [...(searching.result()?.ids ?? [])]).toEqual([4]);
});

test("searches a large graph in parts, and drops outdated searches", async () => {
  const many = 10_000;
  const nodes = Array.from({ length: many }, (_, i) =>
    node(i + 1, i % 2 === 0 ? `even/x${i}` : `odd/x${i}`, { outputs: [] }),
  );
  store.receive([snapshot({ run: runInfo({ id: RUN }), nodes })]);
  let now = 0;
  // A slow machine: at each check of the clock, a slice is over.
  vi.spyOn(performance, "now").mockImplementation(() => (now += 1_000));
  const counts: number[] = [];
  ui.setSearch("odd");
  counts.push(searching.result()?.ids.length ?? 0);
  expect(counts[0]).toBeLessThan(many / 2);
  expect(searching.ids()).toBeUndefined();
  ui.setSearch("even");
  expect(searching.result()?.whole).toBe(false);
  await expect.poll(() => searching.result()?.whole).toBe(true);
  expect(searching.result()?.ids.length).toBe(many / 2);
  expect([...(searching.ids() ?? [])].every((id) => id % 2 === 1)).toBe(true);
  const rows = searching.result()?.rows.filter(({ entry }) => entry.kind === "node");
  expect(rows?.length).toBe(many / 2);
  ui.setSearch("x");
  // Going to a match finishes the search at once.
  expect(go(-1)).toBe(many);
  expect(searching.result()?.whole).toBe(true);
});
