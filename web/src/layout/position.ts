/**
 * Coordinates: x by exact isotonic regression per layer (pool adjacent violators), y by layer.
 *
 * Invariant: neighbours in a layer keep their gap; each layer's x minimises the weighted squared
 * distance to the neighbours' mean under that constraint, in linear time.
 */

import type { Layered, Order } from "@/layout/order";

/** Fits `wanted` by a non-decreasing sequence, weighted least squares. Returns the fit. */
export function isotonic(wanted: Float64Array, weight: Float64Array): Float64Array {
  const count = wanted.length;
  const mean = new Float64Array(count);
  const mass = new Float64Array(count);
  const begin = new Int32Array(count);
  let blocks = 0;
  for (let at = 0; at < count; at++) {
    let value = wanted[at]!;
    let total = weight[at]!;
    let from = at;
    while (blocks > 0 && mean[blocks - 1]! > value) {
      blocks--;
      value = (mean[blocks]! * mass[blocks]! + value * total) / (mass[blocks]! + total);
      total += mass[blocks]!;
      from = begin[blocks]!;
    }
    mean[blocks] = value;
    mass[blocks] = total;
    begin[blocks++] = from;
  }
  const fit = new Float64Array(count);
  for (let block = 0; block < blocks; block++) {
    fit.fill(mean[block]!, begin[block]!, block + 1 < blocks ? begin[block + 1]! : count);
  }
  return fit;
}

export interface PositionInput {
  readonly count: number;
  readonly layered: Layered;
  readonly order: Order;
  readonly topological: Int32Array;
  readonly width: Float64Array;
  /** By edge: where it leaves and enters, from the centre of its node. */
  readonly sourceOffset: Float32Array;
  readonly targetOffset: Float32Array;
  /** By node: where its trunk leaves. */
  readonly trunkOffset: Float32Array;
  readonly nodeGap: number;
}

const ROUNDS = 14;
const DUMMY_WIDTH = 2;
// Weights that suit neural networks: a leaf read once follows its reader and does not pull it;
// the spine (one in, one out) and trunks pull hard, and each run is drawn to its own mean.
const LEAF_PULL = 0.08;
const SPINE_PULL = 6;
const TRUNK_PULL = 8;
const TRUNK_END_PULL = 1.5;
const RUN_PULL = 10;
const TRUNK_RUN_PULL = 24;

/** Centres of nodes and dummies, in px from an arbitrary origin. */
export function placeInLayers(input: PositionInput): Float64Array {
  const { count, layered, order } = input;
  const { total, layers, from, to, edgeOf, down, up } = layered;
  const { sequence, start } = order;
  const width = new Float64Array(total).fill(DUMMY_WIDTH);
  width.set(input.width);
  const gap = (left: number, right: number): number =>
    (width[left]! + width[right]!) / 2
    + (left >= count && right >= count ? input.nodeGap / 2 : input.nodeGap);
  const x = new Float64Array(total);
  for (let layer = 0; layer < layers; layer++) {
    let at = 0;
    for (let k = start[layer]!; k < start[layer + 1]!; k++) {
      if (k > start[layer]!) at += gap(sequence[k - 1]!, sequence[k]!);
      x[sequence[k]!] = at;
    }
    for (let k = start[layer]!; k < start[layer + 1]!; k++) x[sequence[k]!]! -= at / 2;
  }
  const segments = from.length;
  const pull = segmentWeights(layered, count);
  // A segment wants x[to] + enter = x[from] + leave.
  const shift = new Float64Array(segments);
  for (let segment = 0; segment < segments; segment++) {
    const edge = edgeOf[segment]!;
    if (edge >= 0) shift[segment] = -input.targetOffset[edge]!;
    const owner = from[segment]!;
    if (owner < count) {
      shift[segment]! += edge >= 0 ? input.sourceOffset[edge]! : input.trunkOffset[owner]!;
    }
  }
  const run = straightRuns(input, pull.spine);
  const runSize = new Int32Array(total);
  for (let v = 0; v < total; v++) runSize[run[v]!]! += 1;
  const runMean = new Float64Array(total);

  const place = (layer: number, useAbove: boolean, useBelow: boolean): void => {
    const begin = start[layer]!;
    const size = start[layer + 1]! - begin;
    const wanted = new Float64Array(size);
    const weight = new Float64Array(size);
    const offset = new Float64Array(size);
    for (let k = 0; k < size; k++) {
      const v = sequence[begin + k]!;
      if (k > 0) offset[k] = offset[k - 1]! + gap(sequence[begin + k - 1]!, v);
      let mass = 0;
      let sum = 0;
      if (useAbove) {
        for (let at = up.offset[v]!; at < up.offset[v + 1]!; at++) {
          const segment = up.edges[at]!;
          const w = pull.above[segment]!;
          mass += w;
          sum += w * (x[from[segment]!]! + shift[segment]!);
        }
      }
      if (useBelow) {
        for (let at = down.offset[v]!; at < down.offset[v + 1]!; at++) {
          const segment = down.edges[at]!;
          const w = pull.below[segment]!;
          mass += w;
          sum += w * (x[to[segment]!]! - shift[segment]!);
        }
      }
      if (runSize[run[v]!]! > 1) {
        const w = v >= count ? TRUNK_RUN_PULL : RUN_PULL;
        mass += w;
        sum += w * runMean[run[v]!]!;
      }
      if (mass === 0) {
        mass = 0.05;
        sum = mass * x[v]!;
      }
      wanted[k] = sum / mass - offset[k]!;
      weight[k] = mass;
    }
    const fit = isotonic(wanted, weight);
    for (let k = 0; k < size; k++) x[sequence[begin + k]!] = fit[k]! + offset[k]!;
  };

  for (let round = 0; round < ROUNDS; round++) {
    runMean.fill(0);
    for (let v = 0; v < total; v++) runMean[run[v]!]! += x[v]!;
    for (let v = 0; v < total; v++) if (runSize[v]! > 0) runMean[v]! /= runSize[v]!;
    const both = round >= ROUNDS / 2;
    if (round % 2 === 0) {
      for (let layer = 0; layer < layers; layer++) place(layer, true, both);
    } else {
      for (let layer = layers - 1; layer >= 0; layer--) place(layer, both, true);
    }
  }
  return x;
}

interface Weights {
  readonly above: Float32Array;
  readonly below: Float32Array;
  readonly spine: { readonly into: Int32Array; readonly outOf: Int32Array };
}

function segmentWeights(layered: Layered, count: number): Weights {
  const { total, from, to, up, down } = layered;
  const leaf = new Uint8Array(total);
  for (let v = 0; v < count; v++) {
    const feeds = down.offset[v + 1]! - down.offset[v]!;
    if (up.offset[v] === up.offset[v + 1] && feeds === 1) leaf[v] = 1;
  }
  const into = new Int32Array(total);
  const outOf = new Int32Array(total);
  for (let segment = 0; segment < from.length; segment++) {
    if (leaf[from[segment]!] === 1) continue;
    into[to[segment]!]! += 1;
    outOf[from[segment]!]! += 1;
  }
  const above = new Float32Array(from.length);
  const below = new Float32Array(from.length);
  for (let segment = 0; segment < from.length; segment++) {
    const a = from[segment]!;
    const b = to[segment]!;
    const weight = a >= count && b >= count ? TRUNK_PULL
      : a >= count || b >= count ? TRUNK_END_PULL
      : outOf[a] === 1 && into[b] === 1 ? SPINE_PULL : 1;
    below[segment] = weight;
    above[segment] = leaf[a] === 1 ? LEAF_PULL : weight;
  }
  return { above, below, spine: { into, outOf } };
}

/** The run of each node: a trunk, or a path of nodes with one real input and output each. */
function straightRuns(input: PositionInput, spine: Weights["spine"]): Int32Array {
  const { layered, count, topological } = input;
  const { total, trunk, trunkLength, down, to } = layered;
  const run = new Int32Array(total);
  for (let v = 0; v < total; v++) run[v] = v;
  for (let v = 0; v < count; v++) {
    for (let k = 0; k < trunkLength[v]!; k++) run[trunk[v]! + k] = trunk[v]!;
  }
  for (const v of topological) {
    if (spine.outOf[v] !== 1) continue;
    for (let at = down.offset[v]!; at < down.offset[v + 1]!; at++) {
      const child = to[down.edges[at]!]!;
      // Ports shift the ends of an edge, so that centres of a run need not line up.
      const edge = layered.edgeOf[down.edges[at]!]!;
      const shifted = edge >= 0
        && (input.sourceOffset[edge] !== 0 || input.targetOffset[edge] !== 0);
      if (child < count && spine.into[child] === 1 && !shifted) run[child] = run[v]!;
    }
  }
  return run;
}

/**
 * Tops of layers. With `wanted` (centres, NaN = no wish) layers move apart to stand level with
 * what they mirror, never closer than the gaps.
 */
export function placeLayers(
  heights: Float64Array, gaps: Float64Array, wanted: Float64Array | undefined,
): Float64Array {
  const layers = heights.length;
  const top = new Float64Array(layers);
  let at = 0;
  for (let layer = 0; layer < layers; layer++) {
    if (layer > 0) at += heights[layer - 1]! + gaps[layer - 1]!;
    top[layer] = at;
  }
  if (wanted === undefined || wanted.every(Number.isNaN)) return top;
  const target = new Float64Array(layers);
  const weight = new Float64Array(layers);
  let last = Number.NaN;
  for (let layer = 0; layer < layers; layer++) {
    const wish = wanted[layer]!;
    if (!Number.isNaN(wish)) last = wish - heights[layer]! / 2 - top[layer]!;
    target[layer] = last;
    weight[layer] = Number.isNaN(wish) ? 0.01 : 1;
  }
  let first = 0;
  while (Number.isNaN(target[first]!)) first++;
  target.fill(target[first]!, 0, first);
  const fit = isotonic(target, weight);
  for (let layer = 0; layer < layers; layer++) top[layer]! += fit[layer]!;
  return top;
}
