import { createRoot } from "solid-js";
import { beforeEach, expect, test } from "vitest";
import { createNewRun, type NewRun, offerWords } from "@/store/page/new_run";
import { type Requests, Store } from "@/store/page/store";
import { node, RUN, runInfo, snapshot } from "@/wire/fixtures";

const NEXT = "fedcba9876543210";
const over = runInfo({ state: "finished", status: 0 });
const next = runInfo({ id: NEXT, started_unix_ns: 2 });

let store: Store;
let newRun: NewRun;

beforeEach(() => {
  createRoot(() => {
    store = new Store();
    newRun = createNewRun(store);
  });
  store.attach({ request: (() => Promise.resolve({ type: "done" })) as Requests["request"] });
  store.linkChanged({ kind: "open", server: "test" });
  store.runsChanged([runInfo()]);
  store.receive([snapshot({ seq: 9, nodes: [node(2, "n2")], node_seqs: [1] })]);
});

test("a new run of the same program is shown at once, and announced", () => {
  store.runsChanged([over]);
  store.runsChanged([over, next]);
  expect(store.runId()).toBe(NEXT);
  expect(store.notices().map((notice) => notice.text)).toEqual([
    "A new run of train.py began and is shown now.",
  ]);
  expect(newRun.offered()).toBeUndefined();
});

test("a new run that is over when the page first hears of it is shown as well", () => {
  store.runsChanged([over]);
  store.runsChanged([over, { ...next, state: "finished", status: 0 }]);
  expect(store.runId()).toBe(NEXT);
});

test("a run with a selection stays, and the new run is offered", () => {
  store.select({ kind: "node", id: 2 });
  store.runsChanged([over, next]);
  expect(store.runId()).toBe(RUN);
  expect(newRun.offered()?.id).toBe(NEXT);
  newRun.show();
  expect(store.runId()).toBe(NEXT);
  expect(newRun.offered()).toBeUndefined();
});

test("a running program stays shown, and another program's run does not replace a run", () => {
  store.runsChanged([runInfo(), next]);
  expect(store.runId()).toBe(RUN);
  expect(newRun.offered()?.id).toBe(NEXT);
  newRun.dismiss();
  expect(newRun.offered()).toBeUndefined();

  const other = runInfo({ id: "a".repeat(16), name: "other.py", started_unix_ns: 3 });
  store.runsChanged([over, next, other]);
  expect(store.runId()).toBe(RUN);
  expect(newRun.offered()?.id).toBe(other.id);
});

test("recordings, and runs that were listed before, are not offered", () => {
  store.runsChanged([over, runInfo({ id: NEXT, state: "recorded" })]);
  store.runsChanged([over, runInfo({ id: NEXT, state: "recorded", trouble: "disk full" })]);
  expect(store.runId()).toBe(RUN);
  expect(newRun.offered()).toBeUndefined();
  store.runsChanged([]); // the server was restarted
  store.runsChanged([runInfo()]);
  expect(newRun.offered()).toBeUndefined();
});

test("the offer names the program and the time", () => {
  const at = new Date(2026, 0, 2, 9, 5).getTime();
  expect(offerWords(runInfo({ started_unix_ns: at * 1e6 }))).toMatch(
    /^A new run of train.py began at 0?9:05/,
  );
});
