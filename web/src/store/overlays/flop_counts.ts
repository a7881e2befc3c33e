/**
 * Floating-point operations of einsum, normalisations, losses and fused updates.
 *
 * Invariant: counts the operations of the mathematical definition, one for each sum, product,
 * quotient, root, exponential or comparison of elements; undefined where the definition leaves the
 * count open, such as the order in which other libraries multiply three factors.
 */

import { elementCount } from "@/base/dtypes";
import { operationsOf } from "@/store/overlays/einsum_order";

export type Shape = readonly number[];

/** A node with the shapes of its inputs and outputs. */
export interface Shapes {
  readonly op: string;
  readonly attrs: Readonly<Record<string, unknown>>;
  readonly inputs: readonly (Shape | undefined)[];
  readonly outputs: readonly (Shape | undefined)[];
}

/** Operations per element of the first output. */
const NORMALISED: ReadonlyMap<string, number> = new Map([
  // Maximum, difference, exponential, sum, quotient (or logarithm and difference).
  ...["softmax", "log_softmax", "logsoftmax"].map((op) => [op, 5] as const),
  // Sum, difference, square, sum, root and quotient, scale, shift.
  ...[
    "layer_norm",
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layernormalization",
    "batchnormalization",
    "groupnormalization",
    "instancenormalization",
    "fusedbatchnormv3",
  ].map((op) => [op, 8] as const),
  // Square, sum, root and quotient, scale.
  ...["rms_norm", "rmsnormalization", "simplifiedlayernormalization"].map((op) => [op, 5] as const),
  // The statistics are given: difference, quotient, scale, shift.
  ["batch_norm_eval", 4],
]);

/** Operations per element of the first input, the scores or the predictions. */
const LOSSES: ReadonlyMap<string, number> = new Map([
  // Difference, square or magnitude, sum.
  ...["mse", "mse_loss", "l1_loss"].map((op) => [op, 3] as const),
  // Difference, product, difference.
  ["mse_loss_backward", 3],
  // A logarithmic softmax; one score in each row is added up.
  ["cross_entropy", 5],
  ["softmaxcrossentropyloss", 5],
]);

/** Operations per element of the tensors in a list, for ops that update whole lists. */
const ON_LISTS: ReadonlyMap<string, number> = new Map([
  ...["add", "sub", "mul", "div", "sqrt", "neg", "reciprocal", "maximum", "minimum", "pow"].map(
    (op) => [op, 1] as const,
  ),
  ...["lerp", "addcmul", "addcdiv"].map((op) => [op, 3] as const),
]);

/** The operations of a node; undefined if its op is not listed here, or too little is known. */
export function countedByName(node: Shapes): number | undefined {
  const { op, attrs, inputs, outputs } = node;
  // A kernel of a compiled run: the program gives the sum over the operations in the kernel.
  if (op === "fused" && typeof attrs.flops === "number") return attrs.flops;
  if (op === "einsum") return ofEinsum(node);
  const normalised = NORMALISED.get(op);
  if (normalised !== undefined) return times(normalised, outputs[0]);
  const loss = LOSSES.get(op);
  if (loss !== undefined) return times(loss, inputs[0]);
  if (op.startsWith("foreach_")) {
    const flops = ON_LISTS.get(op.slice("foreach_".length));
    return flops === undefined ? undefined : total(flops, outputs);
  }
  if (/^fused_(adamw?|sgd)$/.test(op)) return ofUpdate(node);
  return undefined;
}

function times(flops: number, shape: Shape | undefined): number | undefined {
  return shape && flops * elementCount(shape);
}

function total(flops: number, shapes: readonly (Shape | undefined)[]): number | undefined {
  let sum = 0;
  for (const shape of shapes) {
    if (shape === undefined) return undefined;
    sum += flops * elementCount(shape);
  }
  return sum;
}

/**
 * Two factors: a product and a sum for each combination of indices. One factor: a sum for each
 * combination, if an index is summed over. More factors: counted in the order of nodescope's own
 * engine, the only one whose nodes have `subscripts`.
 */
function ofEinsum({ attrs, inputs }: Shapes): number | undefined {
  const written = attrs.subscripts ?? attrs.equation;
  const more = inputs.length > 2;
  if (typeof written !== "string" || (more && attrs.subscripts === undefined)) return undefined;
  const [terms = "", target] = written.replaceAll(/\s/g, "").split("->");
  const sizes = new Map<string, number>();
  for (const [place, term] of terms.split(",").entries()) {
    const shape = inputs[place];
    const labels = shape && labelled(term, shape.length);
    if (shape === undefined || labels === undefined) return undefined;
    for (const [at, label] of labels.entries()) {
      sizes.set(label, Math.max(sizes.get(label) ?? 1, shape[at] ?? 1));
    }
  }
  let all = 1;
  for (const size of sizes.values()) all *= size;
  if (inputs.length === 2) return 2 * all;
  if (more) return ofSeveral(terms.split(","), target, sizes, inputs as readonly Shape[]);
  const kept = target === undefined ? undefined : new Set(target.replace("...", ""));
  const summed = [...sizes.keys()].some((label) => label.length === 1 && !kept?.has(label));
  return kept === undefined ? undefined : summed ? all : 0;
}

function ofSeveral(
  terms: readonly string[],
  target: string | undefined,
  sizes: ReadonlyMap<string, number>,
  shapes: readonly Shape[],
): number | undefined {
  // The engine writes its subscripts in full; other forms are not counted.
  if (target === undefined || terms.some((term) => term.includes("."))) return undefined;
  const broadcast = terms.some((term, place) =>
    [...term].some((label, at) => sizes.get(label) !== shapes[place]?.[at]),
  );
  const all = [...sizes.values()].reduce((product, size) => product * size, 1);
  return broadcast || all === 0 ? terms.length * all : operationsOf(terms, target, sizes);
}

/** The labels of a term's dimensions; those of `...` are numbered from the right. */
function labelled(term: string, dimensions: number): readonly string[] | undefined {
  const [before = "", after] = term.split("...");
  if (after === undefined) return before.length === dimensions ? [...before] : undefined;
  const between = dimensions - before.length - after.length;
  if (between < 0) return undefined;
  return [...before, ...Array.from({ length: between }, (_, at) => `.${between - at}`), ...after];
}

/** The updated parameters come first among the outputs; `self` is their number. */
function ofUpdate({ op, attrs, outputs }: Shapes): number | undefined {
  const { self } = attrs;
  if (typeof self !== "number") return undefined;
  const decays = attrs.weight_decay !== undefined && attrs.weight_decay !== 0;
  const option = (name: string, count: number): number => (attrs[name] === true ? count : 0);
  let flops: number;
  if (op === "fused_sgd") {
    const momentum = typeof attrs.momentum_buffer_list === "number" && attrs.is_first_step !== true;
    flops = 2 + (decays ? 2 : 0) + (momentum ? 3 : 0) + option("nesterov", 2);
  } else {
    // Two averages (3 and 4), the root and its correction (3), the step (3).
    flops = 13 + (decays ? (op === "fused_adamw" ? 1 : 2) : 0) + option("amsgrad", 1);
  }
  return total(flops + option("maximize", 1), outputs.slice(0, self));
}
