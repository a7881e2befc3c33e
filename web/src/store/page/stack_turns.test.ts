import { beforeEach, describe, expect, it } from "vitest";
import type { Stack } from "@/base/repeats";
import type { FoldState } from "@/store/debugger/stop_follow";
import {
  attended,
  type StackedPage,
  spreadStack,
  stackAt,
  turnStack,
} from "@/store/page/stack_turns";
import type { Item } from "@/store/page/url";
import { NodeColumns } from "@/store/run/columns";
import { update } from "@/store/run/run_model";
import { buildTree } from "@/store/run/tree";
import { node, produced, snapshot, stopAt } from "@/wire/fixtures";
import { HAS_NAN, type Stop } from "@/wire/types.gen";

/** Four blocks of two operations, one after the other, and one operation before them. */
const NAMES = ["x", ...[0, 1, 2, 3].flatMap((k) => [`b_${k}/in/mul`, `b_${k}/out/add`])];
const MODEL = update(
  undefined,
  snapshot({
    nodes: NAMES.map((name, i) => node(i + 1, name, { inputs: i === 0 ? [] : [i] })),
    values: NAMES.map((name, i) => produced(i + 1, name)),
  }),
);
if (MODEL === undefined) throw new Error("a snapshot gives a model");
const TREE = buildTree(MODEL.graph);
const BLOCKS = TREE.repeats.stacks[0] as Stack;
const idOf = (name: string): number => MODEL.graph.byName.get(name) ?? 0;

let folds: FoldState;
let selection: Item | undefined;
let stop: Stop | undefined;
let shown: NodeColumns;
const PAGE: StackedPage = {
  tree: () => TREE,
  model: () => MODEL,
  folds: () => folds,
  selection: () => selection,
  stop: () => stop,
  shown: () => shown,
  refold: (change) => {
    folds = change(folds);
  },
  select: (item) => {
    selection = item;
  },
};

beforeEach(() => {
  folds = { open: new Set(), shut: new Set() };
  selection = undefined;
  stop = undefined;
  shown = new NodeColumns();
  shown.reserve(NAMES.length + 1);
});

describe("the scope that a stack shows first", () => {
  it("is the first; rather one with an alarm, the selected one, or the one with the stop", () => {
    expect(attended(PAGE, BLOCKS)).toBe("b_0");
    shown.flags[idOf("b_3/out/add")] = HAS_NAN;
    expect(attended(PAGE, BLOCKS)).toBe("b_3");
    selection = { kind: "scope", path: "b_2/in" };
    expect(attended(PAGE, BLOCKS)).toBe("b_2");
    stop = stopAt(idOf("b_1/in/mul"), "b_1/in/mul");
    expect(attended(PAGE, BLOCKS)).toBe("b_1");
    // In another scope, neither applies.
    selection = { kind: "node", id: idOf("x") };
    stop = stopAt(idOf("x"), "x");
    expect(attended(PAGE, BLOCKS)).toBe("b_3");
  });
});

describe("turning a stack", () => {
  it("opens the scope shown first, and keeps the selection", () => {
    selection = { kind: "node", id: idOf("b_2/out/add") };
    turnStack(PAGE, BLOCKS, "next");
    expect([...folds.open]).toEqual(["b_2"]);
    expect(selection).toEqual({ kind: "node", id: idOf("b_2/out/add") });
  });

  it("shows the same place in the next scope, moves the selection, and wraps around", () => {
    folds = { open: new Set(["b_3", "b_3/out"]), shut: new Set() };
    selection = { kind: "node", id: idOf("b_3/out/add") };
    turnStack(PAGE, BLOCKS, "next");
    expect([...folds.open]).toEqual(["b_0", "b_0/out"]);
    expect(selection).toEqual({ kind: "node", id: idOf("b_0/out/add") });
    selection = { kind: "scope", path: "b_0/out" };
    turnStack(PAGE, BLOCKS, "previous");
    expect([...folds.open]).toEqual(["b_3", "b_3/out"]);
    expect(selection).toEqual({ kind: "scope", path: "b_3/out" });
  });

  it("keeps a selection elsewhere", () => {
    folds = { open: new Set(["b_1"]), shut: new Set() };
    selection = { kind: "node", id: idOf("x") };
    turnStack(PAGE, BLOCKS, "next");
    expect(selection).toEqual({ kind: "node", id: idOf("x") });
    selection = { kind: "scope", path: "b_0" };
    turnStack(PAGE, BLOCKS, "next");
    expect([[...folds.open], selection]).toEqual([["b_3"], { kind: "scope", path: "b_0" }]);
  });

  it("keeps scopes that the user folded", () => {
    folds = { open: new Set(["b_1"]), shut: new Set(["b_1/in"]) };
    turnStack(PAGE, BLOCKS, "next");
    expect([...folds.shut]).toEqual(["b_1/in"]);
  });
});

it("all scopes of a stack can be shown, and then again the one shown before", () => {
  folds = { open: new Set(["b_2"]), shut: new Set() };
  spreadStack(PAGE, BLOCKS);
  expect([...folds.open]).toEqual(["b_2", BLOCKS.path]);
  spreadStack(PAGE, BLOCKS);
  expect([...folds.open]).toEqual(["b_2"]);
});

it("a stack is found by its own path, by its scopes and by any path inside", () => {
  for (const path of [BLOCKS.path, "b_1", "b_3/out", "b_3/out/add"]) {
    expect(stackAt(PAGE, path)).toBe(BLOCKS);
  }
  for (const path of ["x", "", undefined]) expect(stackAt(PAGE, path)).toBeUndefined();
});
