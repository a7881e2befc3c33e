import { describe, expect, it } from "vitest";
import { findRepeats, type Stack } from "@/base/repeats";
import {
  foldingStack,
  opening,
  shownMember,
  spreading,
  stackState,
  toggledPath,
  turned,
  turning,
} from "@/store/debugger/stacks";
import { followStop, toggledScope, unfolded } from "@/store/debugger/stop_follow";
import { update } from "@/store/run/run_model";
import { buildTree } from "@/store/run/tree";
import { node, produced, snapshot, stopAt } from "@/wire/fixtures";

/** Four blocks with three heads each, one after the other. */
const NAMES = [0, 1, 2, 3].flatMap((block) => [
  ...(block === 0 ? ["x"] : []),
  ...["head_0/mul", "head_1/mul", "head_2/mul", "out/add"].map((name) => `b_${block}/${name}`),
]);
const MODEL = update(
  undefined,
  snapshot({
    nodes: NAMES.map((name, i) => node(i + 1, name, { inputs: i === 0 ? [] : [i] })),
    values: NAMES.map((name, i) => produced(i + 1, name)),
  }),
);
if (MODEL === undefined) throw new Error("a snapshot gives a model");
const GRAPH = MODEL.graph;
const TREE = buildTree(GRAPH);
const { repeats } = TREE;
const NONE: Stack = { path: "", name: "", first: "", members: [] };
const BLOCKS = repeats.stacks.find(({ first }) => first === "b_0") ?? NONE;
const FOLDED = { open: new Set<string>(), shut: new Set<string>() };

describe("a stack", () => {
  it("is folded, shows one of its scopes, or shows all", () => {
    const state = (...open: string[]) => stackState(new Set(open), BLOCKS);
    expect(BLOCKS.members).toEqual(["b_0", "b_1", "b_2", "b_3"]);
    expect(state("b_1/out")).toBe("folded");
    expect(state("b_1")).toBe("one");
    expect(state("b_1", "b_3")).toBe("all");
    expect(state("b_0…")).toBe("all");
    expect(shownMember(new Set(["b_2"]), BLOCKS)).toBe("b_2");
    expect(shownMember(new Set(["b_2", "b_0…"]), BLOCKS)).toBeUndefined();
  });

  it("shows another scope instead when that is opened, or keeps all if all are shown", () => {
    const one = new Set(["b_1", "b_1/out"]);
    expect([...opening(one, ["b_3", "b_3/out"], repeats)]).toEqual(["b_3", "b_3/out"]);
    expect([...opening(one, ["b_1"], repeats)]).toEqual([...one]);
    const all = new Set(["b_1", "b_0…"]);
    expect([...opening(all, ["b_3"], repeats)]).toEqual(["b_1", "b_0…", "b_3"]);
  });

  it("shows the same place in the next scope, and wraps around", () => {
    const open = new Set(["b_0", "b_0/out", "b_0/head_1"]);
    expect([...turning(open, BLOCKS, "b_2", repeats)]).toEqual(["b_2", "b_2/out", "b_2/head_1"]);
    const all = new Set(["b_3", "b_3/head_0…"]);
    expect([...turned(all, BLOCKS, "next", repeats)]).toEqual(["b_0", "b_0/head_0…"]);
    expect([...turned(new Set(["b_0"]), BLOCKS, "previous", repeats)]).toEqual(["b_3"]);
  });

  it("shows all scopes, one again, or none", () => {
    const one = new Set(["b_1"]);
    const all = spreading(one, BLOCKS);
    expect([...all]).toEqual(["b_1", "b_0…"]);
    expect([...spreading(all, BLOCKS)]).toEqual(["b_1"]);
    expect([...foldingStack(all, BLOCKS)]).toEqual([]);
    expect([...toggledPath(all, "b_0…", BLOCKS)]).toEqual([]);
    expect([...toggledPath(new Set(), "b_0…", BLOCKS)]).toEqual(["b_0"]);
    expect([...toggledPath(one, "b_1", undefined)]).toEqual([]);
  });
});

describe("folding and opening by the user", () => {
  const first = () => "b_2";

  it("opens the given scope of a stack, and folds the stack as a whole", () => {
    const opened = toggledScope(FOLDED, "b_0…", repeats, first);
    expect([...opened.open]).toEqual(["b_2"]);
    const folded = toggledScope(opened, "b_0…", repeats, first);
    expect([...folded.open]).toEqual([]);
    expect([...folded.shut]).toEqual(["b_0…"]);
  });
});

describe("a stop in a scope that is not shown", () => {
  const stop = stopAt(NAMES.indexOf("b_3/out/add") + 1, "b_3/out/add");

  it("shows that scope instead of the other", () => {
    const folds = { open: new Set(["b_0", "b_0/out"]), shut: new Set<string>() };
    const { folds: after } = followStop(folds, stop, GRAPH, TREE);
    expect([...after.open]).toEqual(["b_3", "b_3/out"]);
    expect(followStop(after, stop, GRAPH, TREE).folds).toBe(after);
  });

  it("leaves a stack folded that the user folded, until it is opened", () => {
    const shut = { open: new Set<string>(), shut: new Set(["b_0…"]) };
    expect([...followStop(shut, stop, GRAPH, TREE).folds.open]).toEqual([]);
    expect([...unfolded(shut, "b_1", repeats).shut]).toEqual([]);
  });
});

it("finds no stacks without repeated scopes", () => {
  expect(findRepeats([], () => undefined).stacks).toEqual([]);
});
