import { createRoot } from "solid-js";
import { beforeEach, expect, test } from "vitest";
import {
  type Branches,
  branchRows,
  coneOf,
  createBranches,
  differing,
  numbersOf,
  outcome,
} from "@/store/debugger/what_if";
import { type Requests, Store } from "@/store/page/store";
import { createUi, type Ui } from "@/store/page/ui";
import { node, RUN, records, runInfo, session, snapshot, stopAt, tensor } from "@/wire/fixtures";
import { RequestError } from "@/wire/socket";
import type {
  BranchAnswer,
  BranchInfo,
  ChangedValue,
  RequestBody,
  SetValue,
  TensorSummary,
} from "@/wire/types.gen";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const EDIT: SetValue = { type: "set_value", value: 2 };

function info(id: number, parent = 0): BranchInfo {
  return {
    id,
    name: `branch ${id}`,
    parent,
    step: 1,
    last_step: 1,
    seq: 9,
    edit: "n2 set to 0",
    node: 2,
    changed: 1,
    same: 0,
    blocked: 0,
    nbytes: 8,
  };
}

function summary(change: Partial<TensorSummary> = {}): TensorSummary {
  return {
    spec: tensor([4], "float64"),
    nbytes: 32,
    min: 0,
    max: 1,
    mean: 0.5,
    std: 0.1,
    norm: 2,
    nan_count: 0,
    inf_count: 0,
    zero_count: 0,
    histogram: [],
    preview: [1, 2],
    blob: true,
    ...change,
  };
}

function changed(id: number, change: Partial<ChangedValue> = {}): ChangedValue {
  return {
    name: `n${id}`,
    node: id,
    value: id,
    seq: id,
    step: 1,
    phase: "forward",
    old: summary(),
    new: summary({ norm: 3 }),
    differ: 4,
    size: 4,
    largest: 1,
    at: [0],
    before: "1",
    after: "2",
    edited: false,
    ...change,
  };
}

const detail = (id: number): BranchAnswer => ({
  type: "branch",
  info: info(id),
  changes: [changed(2, { edited: true }), changed(3)],
  unlisted: 0,
  blocked: [{ name: "n4", node: 4, seq: 4, reason: "not recorded" }],
  redone: "",
  changed_values: [
    [2, 2],
    [3, 3],
  ],
  blocked_nodes: [4],
});

let requests: RequestBody[];
let stored: BranchInfo[];
let ui: Ui;
let branches: Branches;
let store: Store;

beforeEach(async () => {
  requests = [];
  stored = [];
  createRoot(() => {
    store = new Store();
    ui = createUi(undefined);
    branches = createBranches(store, ui);
  });
  store.attach({
    request: ((body: RequestBody) => {
      requests.push(body);
      if (body.type === "what_if") {
        if (body.edit.index === "9") return Promise.reject(new RequestError("points outside"));
        stored.push(info(stored.length + 1, body.parent ?? 0));
        return Promise.resolve(detail(stored.length));
      }
      if (body.type === "drop_branch")
        stored = stored.filter((branch) => branch.id !== body.branch);
      if (body.type === "get_branch") return Promise.resolve(detail(body.branch));
      return Promise.resolve({ type: "branches", branches: stored, notes: [] });
    }) as Requests["request"],
  });
  store.linkChanged({ kind: "open", server: "test" });
  store.runsChanged([runInfo()]);
  store.receive([snapshot({ seq: 9, nodes: [node(2, "n2")], node_seqs: [1] })]);
  await settled();
});

test("a branch is listed, chosen and shown", async () => {
  expect(await branches.whatIf(EDIT, 0, 0)).toBe("");
  expect(requests.at(-2)).toEqual({
    type: "what_if",
    run: RUN,
    seq: null,
    edit: EDIT,
    name: "",
    parent: 0,
    steps: 0,
  });
  expect(ui.dockTab()).toBe("branches");
  expect(branches.chosen()).toBe(1);
  expect(branches.detail()?.info.id).toBe(1);
  expect([...(branches.cone()?.nodes ?? [])]).toEqual([
    [2, "≠"],
    [3, "≠"],
    [4, "?"],
  ]);
  expect(branches.shown()?.id).toBe(1);
  expect(branches.valuesOf()).toBe(1);
  branches.turn();
  expect([branches.valuesOf(), branches.asRecorded()]).toEqual([0, true]);
  ui.setDockTab("console");
  expect(branches.cone()).toBeUndefined();
  expect(branches.shown()).toBeUndefined();
});

test("a branch at a stop starts from the values edited there", async () => {
  const stop = stopAt(2, "n2", { seq: 9, edits: ["n2 set to 1"] });
  store.receive([
    { type: "session", run: RUN, info: session({ phase: "stopped", stop }) },
    records({ seq: 10 }),
  ]);
  await branches.whatIf(EDIT, 0, 0);
  expect(requests.at(-2)).toMatchObject({ type: "what_if", seq: 10 });
});

test("a refused what-if says why, and changes nothing", async () => {
  expect(await branches.whatIf({ ...EDIT, index: "9" }, 0, 0)).toBe("points outside");
  expect(branches.rows()).toEqual([]);
  expect(ui.dockTab()).toBe("timeline");
});

test("branches stay visible while the link is down, and are requested again afterwards", async () => {
  await branches.whatIf(EDIT, 0, 0);
  await branches.whatIf(EDIT, 1, 0);
  branches.choose(1);
  await settled();
  store.linkChanged({ kind: "lost", since: 0, attempt: 1 });
  expect(branches.rows().map((row) => row.info.id)).toEqual([1, 2]);
  expect(branches.detail()?.info.id).toBe(1);
  stored.push(info(3));
  store.linkChanged({ kind: "open", server: "test" });
  await settled();
  expect(requests.at(-1)?.type).toBe("get_branches");
  expect(branches.rows().map((row) => row.info.id)).toEqual([1, 2, 3]);
  expect(branches.chosen()).toBe(1);
});

test("branches of another run are not shown", async () => {
  await branches.whatIf(EDIT, 0, 0);
  stored = [];
  const other = "f".repeat(16);
  store.runsChanged([runInfo(), runInfo({ id: other })]);
  store.openRun(other);
  expect(branches.rows()).toEqual([]);
  expect(branches.chosen()).toBeUndefined();
  await settled();
  expect(requests).toContainEqual({ type: "get_branches", run: other });
});

test("choosing a branch fetches it, and dropping one shows a remaining branch", async () => {
  await branches.whatIf(EDIT, 0, 0);
  await branches.whatIf(EDIT, 1, 0);
  branches.choose(1);
  await settled();
  expect(requests.at(-1)).toEqual({ type: "get_branch", run: RUN, branch: 1 });
  expect(branches.detail()?.info.id).toBe(1);
  branches.drop(1);
  await settled();
  expect(branches.chosen()).toBe(2);
  const before = requests.length;
  branches.rename(2, "branch 2");
  branches.rename(2, " ");
  expect(requests).toHaveLength(before);
});

test("the tree is listed from the top, with branches of branches below their parents", () => {
  const rows = branchRows([info(1), info(2), info(3, 1), info(4, 3), info(5)]);
  expect(rows.map((row) => [row.info.id, row.depth])).toEqual([
    [1, 0],
    [3, 1],
    [4, 2],
    [2, 0],
    [5, 0],
  ]);
});

test("changed values are marked even if they are not listed", () => {
  const many: BranchAnswer = {
    ...detail(1),
    unlisted: 1,
    changed_values: [...detail(1).changed_values, [5, 5]],
    blocked_nodes: [4, 5, 6],
  };
  expect([...coneOf(many, []).nodes]).toEqual([
    [2, "≠"],
    [3, "≠"],
    [5, "≠"],
    [4, "?"],
    [6, "?"],
  ]);
});

test("the cone connects changed values with their readers", () => {
  const nodes = [undefined, undefined, node(2, "n2"), node(3, "n3", { inputs: [2, 7] })];
  expect(coneOf(detail(1), nodes).edges).toEqual([[2, 3]]);
});

test("the outcome of an edit is one sentence", () => {
  const after = (differ: number, counts: Partial<BranchInfo>) =>
    outcome({
      info: { ...info(1), changed: 0, same: 0, blocked: 0, ...counts },
      changes: [changed(1, { edited: true, differ })],
    });
  expect(after(0, { same: 1 })).toBe("Nothing changes: all values are bit-identical.");
  expect(after(0, {})).toBe("Nothing changes: all values are bit-identical.");
  expect(after(4, { same: 2 })).toBe(
    "Nothing else changes: what depends on it stays bit-identical.",
  );
  expect(after(4, {})).toBe("");
  expect(after(4, { changed: 503, same: 1 })).toBe(
    "503 values changed with it, 1 stayed bit-identical.",
  );
  expect(after(4, { changed: 1, blocked: 2 })).toBe(
    "1 value changed with it, 2 could not be re-run.",
  );
});

test("the count of differing elements is short", () => {
  const difference = (differ: number, size: number) => differing(changed(1, { differ, size }));
  expect(difference(4, 4)).toBe("all");
  expect(difference(16, 192)).toBe("16 of 192");
  expect(difference(1_000, 40_000)).toBe("2.50\u202f%");
});

test("a change shows its most informative numbers", () => {
  const scalar = { spec: tensor([], "float64") };
  const difference = (old: Partial<TensorSummary>, now: Partial<TensorSummary>) =>
    numbersOf(changed(1, { old: summary(old), new: summary(now) }));
  expect(difference({}, { norm: 3 })).toEqual({ what: "norm", old: "2", new: "3" });
  expect(difference({ nan_count: 2 }, {})).toEqual({ what: "NaN", old: "2", new: "0" });
  expect(difference({}, { inf_count: 1 })).toEqual({ what: "Inf", old: "0", new: "1" });
  expect(difference({ ...scalar, nan_count: 1, preview: [] }, { ...scalar, preview: [7] })).toEqual(
    {
      what: "value",
      old: "NaN",
      new: "7",
    },
  );
});
