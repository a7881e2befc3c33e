/**
 * The FLOPs overlay: the floating-point operations of a node, where the shapes of its values
 * determine them.
 *
 * Invariant: a number is never a guess: nodes with unknown shapes, and operations that are not
 * counted here, have none. Any elementwise function counts as one operation per element.
 */

import { elementCount } from "@/base/dtypes";
import { countedByName, type Shape } from "@/store/overlays/flop_counts";
import type { Moment, NumberOverlay } from "@/store/overlays/overlay";
import type { RunGraph } from "@/store/run/run_model";
import { shapeOf } from "@/wire/spec";
import type { Node } from "@/wire/types.gen";

export function flopsOverlay({ model }: Moment): NumberOverlay {
  const values = flopsOf(model.graph);
  let most = 0;
  for (const flops of values.values()) most = Math.max(most, flops);
  return {
    title: "Floating-point operations",
    numbers: { values, join: "sum", least: undefined, most },
    folded: "the total of all in it",
    note: values.size === 0 ? "No shapes are known." : "",
    format: formatFlops,
  };
}

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** `12.3 MFLOP`. */
export function formatFlops(flops: number): string {
  const step = Math.min(Math.floor(Math.log10(Math.max(flops, 1)) / 3), PREFIXES.length - 1);
  const scaled = flops / 1000 ** step;
  const digits = Number(scaled.toPrecision(3));
  return `${digits}\u202f${PREFIXES[step]}FLOP`;
}

/** The floating-point operations by node id. */
export function flopsOf(graph: RunGraph): ReadonlyMap<number, number> {
  const flops = new Map<number, number>();
  for (const node of graph.nodes) {
    if (node === undefined) continue;
    const count = flopsOfNode(node, (value) => known(shapeOf(graph.values.get(value)?.value.spec)));
    if (count !== undefined) flops.set(node.id, count);
  }
  return flops;
}

function known(shape: readonly (number | null)[] | undefined): Shape | undefined {
  return shape?.every((size) => size !== null) === true ? (shape as Shape) : undefined;
}

/** The input port of the left factor, by the name of a matrix product. */
const PRODUCTS: ReadonlyMap<string, number> = new Map([
  ...["matmul", "dot", "inner", "vdot", "mm", "bmm", "mv", "linear", "gemm"].map(
    (op) => [op, 0] as const,
  ),
  ...["addmm", "baddbmm", "addmv", "addbmm"].map((op) => [op, 1] as const),
]);
const CONVOLUTION = /^(conv|convolution|conv[123]d|depthwiseconv2dnative)$/;
const TRANSPOSED = /^conv_?transpose([123]d)?$/;
const ELEMENTWISE: ReadonlySet<string> = new Set(["elementwise", "activation"]);

/** `aten::addmm.default` and `AddMM` are `addmm`. */
function bare(op: string): string {
  return op
    .replace(/^\w+::_?/, "")
    .replace(/\.\w+$/, "")
    .toLowerCase();
}

/** The floating-point operations of a node; undefined if they are not known. */
export function flopsOfNode(
  node: Pick<Node, "op" | "family" | "inputs" | "outputs" | "attrs">,
  shape: (value: number) => Shape | undefined,
): number | undefined {
  const output = node.outputs[0] === undefined ? undefined : shape(node.outputs[0]);
  if (output === undefined) return undefined;
  const op = bare(node.op);
  const shapes = (ids: readonly number[]) => ids.map(shape);
  const { attrs } = node;
  const named = countedByName({
    op,
    attrs,
    inputs: shapes(node.inputs),
    outputs: shapes(node.outputs),
  });
  if (named !== undefined) return named;
  const input = (port: number): Shape | undefined =>
    node.inputs[port] === undefined ? undefined : shape(node.inputs[port]);
  const left = PRODUCTS.get(op);
  if (left !== undefined) {
    const inner = input(left)?.at(-1);
    return inner === undefined ? undefined : 2 * elementCount(output) * inner;
  }
  if (CONVOLUTION.test(op)) return perKernel(output, input(1));
  if (TRANSPOSED.test(op)) return perKernel(input(0), input(1));
  if (ELEMENTWISE.has(node.family)) return elementCount(output);
  if (node.family === "reduction") {
    const read = input(0);
    return read && elementCount(read);
  }
  return undefined;
}

/** A product and a sum for each element and each entry of one kernel. */
function perKernel(elements: Shape | undefined, weight: Shape | undefined): number | undefined {
  if (elements === undefined || weight === undefined || weight.length < 3) return undefined;
  return 2 * elementCount(elements) * elementCount(weight.slice(1));
}
