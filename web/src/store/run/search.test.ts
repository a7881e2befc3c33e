import { describe, expect, test } from "vitest";
import { NodeColumns } from "@/store/run/columns";
import { type RunGraph, update } from "@/store/run/run_model";
import { graphOrder, matcherOf, parseQuery, problemsOf, type Searched } from "@/store/run/search";
import { buildTree } from "@/store/run/tree";
import { decodeExecutions } from "@/wire/decode";
import { columns, node, produced, snapshot, tensor } from "@/wire/fixtures";
import type { Node } from "@/wire/types.gen";

const MS = 1e6;

function graphOf(nodes: readonly Node[], specs: Parameters<typeof tensor>[] = []): RunGraph {
  const values = nodes.map(({ id, name }, i) => {
    const { value, producer } = produced(id, name);
    return { value: { ...value, spec: tensor(...(specs[i] ?? [[2, 3]])) }, producer };
  });
  const model = update(undefined, snapshot({ nodes, values }));
  if (model === undefined) throw new Error("a snapshot gives a model");
  return model.graph;
}

const NODES = [
  node(1, "x", { role: "input" }),
  node(2, "net/a/matmul", { native: "aten::mm" }),
  node(3, "net/a/tanh"),
  node(4, "net/b/matmul", { phase: "backward" }),
  node(5, "loss/mean"),
];
const GRAPH = graphOf(NODES, [
  [[64, 3, 8, 8], "uint8"],
  [[64, 10], "float16"],
  [[64, 10], "bfloat16"],
  [[null, 10], "float32"],
  [[], "int8"],
]);
const STATES = new NodeColumns();
STATES.reserve(9);
STATES.apply(
  decodeExecutions(
    columns([
      { seq: 1, node: 2, flags: 1, duration: 6 * MS },
      { seq: 2, node: 3, flags: 2, duration: 3 * MS },
      { seq: 3, node: 4, duration: MS },
      { seq: 4, node: 1, duration: 90 * MS },
    ]),
  ),
);
const ALL: Searched = { graph: GRAPH, columns: STATES, step: 1 };

function idsOf(text: string, all: Searched = ALL): readonly number[] | undefined {
  const query = parseQuery(text);
  return query && all.graph.nodes.flatMap((node) => node?.id ?? []).filter(matcherOf(query, all));
}

function problems(text: string): readonly string[] {
  const query = parseQuery(text);
  return query === undefined ? [] : problemsOf(query, idsOf(text)?.length === 0);
}

test.each([
  ["matmul", [2, 4]],
  ["op:matmul scope:net/b", [4]],
  ["op:aten::mm", [2]],
  ["nan:true", [2, 3]],
  ["nan:", [2, 3]],
  ["inf:true", [3]],
  ["nan:false op:matmul", [4]],
  ["net/*/tanh", [3]],
  ["NET a", [2, 3, 4]],
  ["[", []],
  ["family:element", [1, 2, 3, 4, 5]],
  ["phase:backward", [4]],
  ["-phase:forward", [4]],
  ["net -op:tanh", [2, 4]],
  ["net -", [2, 3, 4]],
  ["net/a*", [2, 3]],
])("%s finds %j", (text, ids) => expect(idsOf(text)).toEqual(ids));

test.each([
  ["shape:64x*", [2, 3]],
  ["shape:(64, 10)", [2, 3]],
  ["shape:(64,10)", [2, 3]],
  ["shape:64×10", [2, 3]],
  ["shape:64x**", [1, 2, 3]],
  ["shape:64x", [1, 2, 3]],
  ["shape:**x8", [1]],
  ["shape:*x*", [2, 3, 4]],
  ["shape:?x10", [4]],
  ["shape:64", []],
  ["shape:scalar", [5]],
  ["shape:()", [5]],
  ["shape:", [1, 2, 3, 4, 5]],
  ["dtype:f16", [2]],
  ["dtype:float16", [2]],
  ["dtype:float", [2, 3, 4]],
  ["dtype:int8", [5]],
  ["dtype:f*", [4, 2].sort()],
])("%s finds %j", (text, ids) => expect(idsOf(text)).toEqual(ids));

test.each([
  ["slow:1", [2]],
  ["slow:2", [2, 3]],
  ["slow:", [2, 3, 4]],
  ["slow:99", [2, 3, 4]],
  // Shares are of the 10 ms of all operations; an input computes nothing.
  ["slow:30%", [2, 3]],
  ["slow:3ms", [2, 3]],
  ["slow:2.5e", undefined],
  ["slow:1500us", [2, 3]],
  ["slow:1s", []],
  ["slow:0", []],
])("%s finds %j", (text, ids) => {
  if (ids === undefined) expect(problems(text)).not.toEqual([]);
  else expect(idsOf(text)).toEqual(ids);
});

describe("an invalid term", () => {
  test.each([
    ["shape:64xa", "shape: takes sizes, as in 64x*x3 (* is one size, ** any number), not a."],
    ["nan:perhaps", "nan: is true or false, not perhaps."],
    ["slow:soon", "slow: takes a count (10), a share (5%) or a time (1ms), not soon."],
    ["phase:sideways", /^phase: is forward, .* or other, not sideways\.$/],
    ["-nan:perhaps", "nan: is true or false, not perhaps."],
    ["colour:red", /^colour: is none of op:, .* and slow:, and in no name\.$/],
  ])("%s is reported", (text, words) => {
    expect(problems(text)).toEqual([
      words instanceof RegExp ? expect.stringMatching(words) : words,
    ]);
  });

  test.each(["nan:f", "nan:tr", "slow:1u", "shape:sca", "op:", "-"])("%s is unfinished", (text) =>
    expect(problems(text)).toEqual([]),
  );

  test("is left out, and the other terms apply", () => {
    expect(idsOf("matmul nan:perhaps")).toEqual([2, 4]);
    expect(idsOf("nan:perhaps")).toEqual([]);
  });

  test("is not a name with a colon, which is plain text", () => {
    const all = { ...ALL, graph: graphOf([node(1, "dense/bias:0")]) };
    expect(idsOf("bias:0", all)).toEqual([1]);
  });
});

test("an empty search is no search", () => expect(parseQuery("  ")).toBeUndefined());

test("a node that last ran in an earlier step has no NaN in this one", () => {
  expect(idsOf("nan:true", { ...ALL, step: 2 })).toEqual([]);
});

test("the order is the outline's, with the nodes of a scope together", () => {
  const names = ["b/one", "a/one", "b/two"];
  const graph = graphOf(names.map((name, i) => node(i + 1, name, { outputs: [] })));
  expect(graphOrder(buildTree(graph))).toEqual([1, 3, 2]);
});
