import { describe, expect, test } from "vitest";
import { countedByName } from "@/store/overlays/flop_counts";
import { flopsOfNode, formatFlops } from "@/store/overlays/flops";
import { type Moment, NO_ROWS } from "@/store/overlays/overlay";
import { rooflineOverlay } from "@/store/overlays/roofline";
import { selfTimes } from "@/store/overlays/self_time";
import { NodeColumns } from "@/store/run/columns";

const SHAPES: Record<number, readonly number[]> = {
  1: [8, 3, 4],
  2: [4, 5],
  3: [8, 3, 5],
  4: [2, 3, 10, 10],
  5: [6, 3, 3, 3],
  6: [2, 6, 10, 10],
  7: [5],
};

function flops(op: string, family: string, inputs: number[], output: number): number | undefined {
  return counted(op, family, inputs, [output]);
}

function counted(
  op: string,
  family: string,
  inputs: number[],
  outputs: number[],
  attrs: Record<string, unknown> = {},
): number | undefined {
  return flopsOfNode({ op, family, inputs, outputs, attrs }, (value) => SHAPES[value]);
}

describe("floating-point operations", () => {
  test("of matrix products are two for each pair of factors", () => {
    const product = 2 * 8 * 3 * 5 * 4;
    expect(flops("matmul", "matmul", [1, 2], 3)).toBe(product);
    expect(flops("aten::bmm.default", "matmul", [1, 2], 3)).toBe(product);
    expect(flops("aten::addmm.default", "matmul", [7, 1, 2], 3)).toBe(product);
  });

  test("of convolutions are two for each element and kernel entry", () => {
    expect(flops("conv2d", "matmul", [4, 5], 6)).toBe(2 * 2 * 6 * 100 * 27);
    expect(flops("Conv", "matmul", [4, 5], 6)).toBe(2 * 2 * 6 * 100 * 27);
    expect(flops("conv_transpose2d", "matmul", [6, 5], 4)).toBe(2 * 2 * 6 * 100 * 27);
  });

  test("of elementwise functions and reductions are one per element", () => {
    expect(flops("add", "elementwise", [1, 1], 1)).toBe(96);
    expect(flops("tanh", "activation", [1], 1)).toBe(96);
    expect(flops("sum", "reduction", [1], 7)).toBe(96);
  });

  test("of einsum are two for each combination of indices", () => {
    const einsum = (subscripts: string, inputs: number[], output: number) =>
      counted("einsum", "matmul", inputs, [output], { subscripts });
    expect(einsum("bij,jk->bik", [1, 2], 3)).toBe(2 * 8 * 3 * 4 * 5);
    expect(einsum("...j,jk->...k", [1, 2], 3)).toBe(2 * 8 * 3 * 4 * 5);
    expect(einsum("i,i->", [7, 7], 7)).toBe(2 * 5);
    expect(einsum("bij->b", [1], 7)).toBe(96);
    expect(einsum("bij->jib", [1], 1)).toBe(0);
    // The order in which other libraries multiply three factors is not known.
    const equation = "bij,jk,k->bi";
    expect(counted("einsum", "matmul", [1, 2, 7], [99], { equation })).toBeUndefined();
    expect(einsum("ij,jk->ik", [1, 2], 3)).toBeUndefined();
    expect(counted("Einsum", "matmul", [1, 2], [3], { equation: "bij,jk->bik" })).toBe(960);
  });

  // As `passes/cost.py` counts them.
  test.each([
    [
      "ij,jk,kl->il",
      [
        [2, 50],
        [50, 3],
        [3, 40],
      ],
      2 * 2 * 50 * 3 + 2 * 2 * 3 * 40,
    ],
    [
      "ij,ij,ij->j",
      [
        [1, 5],
        [4, 5],
        [4, 5],
      ],
      3 * 4 * 5,
    ],
    ["c,bcd,,ecd,eba->aedcb", [[3], [2, 3, 3], [], [5, 3, 3], [5, 2, 5]], 2250],
    [",ade,c,,abc->", [[], [3, 2, 5], [20], [], [3, 20, 20]], 2464],
    ["a,c,,dec->edca", [[20], [3], [], [5, 7, 3]], 8400],
  ])("of einsum with more factors are summed by step: %s", (subscripts, inputs, count) => {
    const outputs = [[]];
    expect(countedByName({ op: "einsum", attrs: { subscripts }, inputs, outputs })).toBe(count);
  });

  test("of a kernel are those that the program reports", () => {
    expect(counted("fused", "kernel", [1], [1], { flops: 288 })).toBe(288);
    expect(counted("fused", "kernel", [1], [1])).toBeUndefined();
  });

  test("of normalisations and losses are a fixed number per element", () => {
    expect(flops("layer_norm", "norm", [1, 7], 1)).toBe(8 * 96);
    expect(flops("rms_norm", "norm", [1, 7], 1)).toBe(5 * 96);
    expect(flops("LayerNormalization", "norm", [1, 7], 1)).toBe(8 * 96);
    // PyTorch counts it among the activations.
    expect(flops("softmax", "activation", [1], 1)).toBe(5 * 96);
    expect(flops("mse_loss", "loss", [1, 1], 7)).toBe(3 * 96);
    expect(flops("cross_entropy", "loss", [2, 7], 7)).toBe(5 * 20);
    expect(flops("a_loss_of_ones_own", "loss", [1], 7)).toBeUndefined();
  });

  test("of fused updates are the sum over their parameters", () => {
    const update = (op: string, attrs: Record<string, unknown>) =>
      counted(op, "update", [2, 7, 2, 7], [2, 7, 2, 7, 2, 7, 2, 7], { self: 2, ...attrs });
    expect(update("fused_adam", { weight_decay: 0 })).toBe(13 * 25);
    expect(update("fused_adamw", { weight_decay: 0.01, amsgrad: true })).toBe(15 * 25);
    expect(update("fused_sgd", { momentum_buffer_list: 2, nesterov: true })).toBe(7 * 25);
    expect(counted("foreach_add", "update", [2, 7], [2, 7], { self: 2 })).toBe(25);
    expect(counted("foreach_lerp", "update", [2, 7], [2, 7], { self: 2 })).toBe(75);
    expect(counted("fused_adam", "update", [2], [99], { self: 1 })).toBeUndefined();
  });

  test("are unknown if a shape or the operation is", () => {
    expect(flops("matmul", "matmul", [9, 2], 3)).toBeUndefined();
    expect(flops("einsum", "matmul", [1, 2], 3)).toBeUndefined();
    expect(flops("reshape", "layout", [1], 1)).toBeUndefined();
    expect(flops("add", "elementwise", [1], 99)).toBeUndefined();
  });

  test("are written with three digits", () => {
    expect([0, 999, 12_345, 2e9].map(formatFlops)).toEqual([
      "0\u202fFLOP",
      "999\u202fFLOP",
      "12.3\u202fkFLOP",
      "2\u202fGFLOP",
    ]);
  });
});

/** Rows of node, thread, start and duration. */
function columns(...rows: readonly (readonly [number, number, number, number])[]): NodeColumns {
  const made = new NodeColumns();
  made.reserve(16);
  for (const [node, thread, start, ns] of rows) {
    made.times[node] = 1;
    made.thread[node] = thread;
    made.startNs[node] = start;
    made.durationNs[node] = ns;
  }
  return made;
}

test("self time excludes executions nested on the same thread", () => {
  const times = selfTimes(
    columns(
      [1, 1, 0, 100],
      [2, 1, 10, 30],
      [3, 1, 15, 5],
      [4, 1, 50, 20],
      [5, 2, 10, 60],
      [6, 1, 100, 7],
    ),
  );
  expect([...times].sort((a, b) => a[0] - b[0])).toEqual([
    [1, 50],
    [2, 25],
    [3, 5],
    [4, 20],
    [5, 60],
    [6, 7],
  ]);
});

test("the share of the roofline is relative to the best rates of the run's nodes", () => {
  const value = (id: number, shape: number[]) =>
    [id, { value: { spec: { kind: "tensor", shape, dtype: "float64" } } }] as const;
  const node = (id: number, family: string, op: string, inputs: number[]) => ({
    id,
    op,
    family,
    inputs,
    outputs: [10 + id],
    attrs: {},
  });
  const graph = {
    nodes: [
      undefined,
      node(1, "matmul", "matmul", [8, 8]),
      node(2, "elementwise", "add", [8, 8]),
      node(3, "elementwise", "add", [8, 8]),
    ],
    values: new Map([8, 11, 12, 13].map((id) => value(id, [100, 100]))),
  };
  const overlay = rooflineOverlay({
    model: { graph },
    columns: columns([1, 1, 0, 1000], [2, 1, 2000, 100], [3, 1, 3000, 400]),
    seq: undefined,
    rows: NO_ROWS,
    note: "",
  } as unknown as Moment);
  // The product has the most arithmetic per second, the first sum the most traffic.
  expect(overlay.numbers.values.get(1)).toBeCloseTo(1);
  expect(overlay.numbers.values.get(2)).toBeCloseTo(1);
  expect(overlay.numbers.values.get(3)).toBeCloseTo(0.25);
  expect(overlay.words?.(3)).toContain("bound by memory");
  expect(overlay.words?.(1)).toContain("bound by arithmetic");
  expect(overlay.note).toBe("Roofs: 2\u202fTFLOP/s, 2.18\u202fTiB/s, the most of any node");
});
