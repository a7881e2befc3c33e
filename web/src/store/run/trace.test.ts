import { describe, expect, test } from "vitest";
import { type RunGraph, update } from "@/store/run/run_model";
import { flowOf, pathsBetween, traced } from "@/store/run/trace";
import { node, produced, snapshot } from "@/wire/fixtures";
import type { Node, ProducedValue } from "@/wire/types.gen";

/** Args: readers: by node, the nodes whose outputs it reads. */
function graphOf(readers: Readonly<Record<number, readonly number[]>>): RunGraph {
  const ids = Object.keys(readers).map(Number);
  const nodes = ids.map((id): Node => node(id, `n${id}`, { inputs: readers[id] ?? [] }));
  const values = ids.map((id) => produced(id, `n${id}`));
  return graphFrom(nodes, values);
}

function graphFrom(nodes: readonly Node[], values: readonly ProducedValue[]): RunGraph {
  const model = update(undefined, snapshot({ nodes, values }));
  if (model === undefined) throw new Error("a snapshot gives a model");
  return model.graph;
}

// 1 -> 2 -> 4 -> 5 -> 7,  1 -> 3 -> 4,  6 -> 5,  3 -> 8
const GRAPH = graphOf({ 1: [], 2: [1], 3: [1], 4: [2, 3], 5: [4, 6], 6: [], 7: [5], 8: [3] });
const FLOW = flowOf(GRAPH);

const steps = (distance: ReadonlyMap<number, number>) => [...distance].map(([id, at]) => [id, at]);

describe("inputs and outputs", () => {
  test("have their distance in steps", () => {
    const { distance, more } = traced(FLOW, [5], "inputs", 2);
    expect(steps(distance)).toEqual([
      [4, 1],
      [6, 1],
      [2, 2],
      [3, 2],
    ]);
    expect(more).toBe(true);
  });

  test("reach to the end of the graph", () => {
    const all = traced(FLOW, [5], "inputs", Number.POSITIVE_INFINITY);
    expect([...all.distance.keys()].sort()).toEqual([1, 2, 3, 4, 6]);
    expect(all.more).toBe(false);
    expect(traced(FLOW, [3], "readers", 3)).toMatchObject({ more: false });
    expect(traced(FLOW, [3], "readers", 2)).toMatchObject({ more: true });
  });

  test("include the edges among them and to the start of the trace", () => {
    expect(traced(FLOW, [4], "inputs", 1).edges).toEqual([
      [2, 4],
      [3, 4],
    ]);
  });

  test("of a scope start outside of it", () => {
    const { distance, edges } = traced(FLOW, [2, 4], "inputs", 1);
    expect(steps(distance)).toEqual([
      [1, 1],
      [3, 1],
    ]);
    expect(edges).toEqual([
      [1, 2],
      [1, 3],
      [3, 4],
    ]);
  });

  test("are empty for a node without any", () => {
    expect(traced(FLOW, [1], "inputs", 9).distance.size).toBe(0);
  });
});

describe("paths", () => {
  test("include all nodes reachable from one end that reach the other", () => {
    const { distance, edges } = pathsBetween(FLOW, [1], [5]);
    expect(steps(distance)).toEqual([
      [1, 0],
      [2, 1],
      [3, 1],
      [4, 2],
      [5, 3],
    ]);
    expect(edges).toEqual([
      [1, 2],
      [1, 3],
      [2, 4],
      [3, 4],
      [4, 5],
    ]);
  });

  test("do not lead backwards", () => {
    expect(pathsBetween(FLOW, [5], [1]).distance.size).toBe(0);
    expect(pathsBetween(FLOW, [6], [8]).edges).toEqual([]);
  });

  test("take linear time in a ladder with 2^5000 paths", () => {
    const ladder: Record<number, number[]> = { 1: [] };
    for (let rung = 0; rung < 5000; rung++) {
      const at = 3 * rung + 1;
      ladder[at + 1] = [at];
      ladder[at + 2] = [at];
      ladder[at + 3] = [at + 1, at + 2];
    }
    const { distance, edges } = pathsBetween(flowOf(graphOf(ladder)), [1], [15_001]);
    expect(distance.size).toBe(15_001);
    expect(edges.length).toBe(20_000);
  });
});

test("control inputs count as inputs, and a node is never its own input", () => {
  const nodes = [
    node(1, "a"),
    node(2, "b", { control_inputs: [1], inputs: [2] }),
    node(3, "c", { inputs: [99] }),
  ];
  const flow = flowOf(graphFrom(nodes, [produced(2, "b")]));
  expect(flow.inputs[2]).toEqual([1]);
  expect(flow.readers[1]).toEqual([2]);
  expect(flow.inputs[3]).toEqual([]);
});
