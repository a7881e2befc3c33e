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

const ROUNDS = 18;
const FINAL_ROUNDS = 4;
const FINAL_PULL = 2000;
const NEARLY = 60;
const MOST_ASIDE = 160;
const TRUNK_SLACK = 14;
const DUMMY_WIDTH = 2;
// Weights suited to neural networks: a leaf read once follows its reader without pulling it; the
// spine (one in, one out) and trunks pull hard, and each run is pulled to its own mean.
const LEAF_PULL = 0.08;
const SPINE_PULL = 6;
const TRUNK_PULL = 8;
const TRUNK_END_PULL = 1.5;
const RUN_PULL = 10;
const MOST_MADE = 2;
const TRUNK_RUN_PULL = 24;

/** Centres of nodes and dummies, in px from an arbitrary origin. */
export function placeInLayers(input: PositionInput): Float64Array {
  const { count, layered, order } = input;
  const { total, layers, from, to, edgeOf, down, up } = layered;
  const { sequence, start } = order;
  const width = new Float64Array(total).fill(DUMMY_WIDTH);
  width.set(input.width);
  // Trunks keep extra distance at first, which leaves room to align nodes at the end.
  let slack = TRUNK_SLACK;
  const gap = (left: number, right: number): number =>
    (width[left]! + width[right]!) / 2 +
    (left >= count && right >= count
      ? input.nodeGap / 2
      : left >= count || right >= count
        ? input.nodeGap + slack
        : input.nodeGap);
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
  const pull = segmentWeights(layered, input.topological);
  // A segment aims at x[to] + enter = x[from] + leave.
  const shift = new Float64Array(segments);
  for (let segment = 0; segment < segments; segment++) {
    const edge = edgeOf[segment]!;
    if (edge >= 0) shift[segment] = -input.targetOffset[edge]!;
    const owner = from[segment]!;
    if (owner < count) {
      shift[segment]! += edge >= 0 ? input.sourceOffset[edge]! : input.trunkOffset[owner]!;
    }
  }
  const { run, offset: runOffset } = straightRuns(input, pull, shift);
  const runSize = new Int32Array(total);
  for (let v = 0; v < total; v++) runSize[run[v]!]! += 1;
  const runMean = new Float64Array(total);
  const averageRuns = (): void => {
    runMean.fill(0);
    for (let v = 0; v < total; v++) runMean[run[v]!]! += x[v]! - runOffset[v]!;
    for (let v = 0; v < total; v++) if (runSize[v]! > 0) runMean[v]! /= runSize[v]!;
  };

  const place = (layer: number, useAbove: boolean, useBelow: boolean, straighten: number): void => {
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
        const w = v >= count ? TRUNK_RUN_PULL : straighten * RUN_PULL;
        mass += w;
        sum += w * (runMean[run[v]!]! + runOffset[v]!);
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
    averageRuns();
    const both = round >= ROUNDS / 2;
    const straighten = round >= ROUNDS - FINAL_ROUNDS ? FINAL_PULL : 1;
    if (round % 2 === 0) {
      for (let layer = 0; layer < layers; layer++) place(layer, true, both, straighten);
    } else {
      for (let layer = layers - 1; layer >= 0; layer--) place(layer, both, true, straighten);
    }
  }
  averageRuns();
  slack = 0;
  // A node nearly in line with its run moves exactly into line if its neighbours leave room.
  for (let layer = 0; layer < layers; layer++) {
    for (let k = start[layer]!; k < start[layer + 1]!; k++) {
      const v = sequence[k]!;
      const goal = runMean[run[v]!]! + runOffset[v]!;
      const left = k > start[layer]! ? sequence[k - 1]! : -1;
      const right = k + 1 < start[layer + 1]! ? sequence[k + 1]! : -1;
      const clear =
        (left < 0 || goal - x[left]! >= gap(left, v) - 0.01) &&
        (right < 0 || x[right]! - goal >= gap(v, right) - 0.01);
      const inLine = v < count && runSize[run[v]!]! > 1;
      if (inLine && clear && Math.abs(goal - x[v]!) < NEARLY) x[v] = goal;
    }
  }
  straightenTrunks(input, x, gap);
  return x;
}

/** Moves each trunk to a single x, as near its mean as the boxes beside it allow. */
function straightenTrunks(
  input: PositionInput,
  x: Float64Array,
  gap: (left: number, right: number) => number,
): void {
  const {
    count,
    layered: { total, layerOf, trunk, trunkLength },
    order,
  } = input;
  const place = new Int32Array(total);
  order.sequence.forEach((v, at) => {
    place[v] = at;
  });
  for (let v = 0; v < count; v++) {
    const length = trunkLength[v]!;
    if (length < 2) continue;
    let low = Number.NEGATIVE_INFINITY;
    let high = Number.POSITIVE_INFINITY;
    let sum = 0;
    for (let dummy = trunk[v]!; dummy < trunk[v]! + length; dummy++) {
      const at = place[dummy]!;
      const layer = layerOf[dummy]!;
      sum += x[dummy]!;
      if (at > order.start[layer]!) {
        const left = order.sequence[at - 1]!;
        low = Math.max(low, x[left]! + gap(left, dummy));
      }
      if (at + 1 < order.start[layer + 1]!) {
        const right = order.sequence[at + 1]!;
        high = Math.min(high, x[right]! - gap(dummy, right));
      }
    }
    if (low > high) continue;
    x.fill(Math.min(high, Math.max(low, sum / length)), trunk[v]!, trunk[v]! + length);
  }
}

interface Weights {
  readonly above: Float32Array;
  readonly below: Float32Array;
  readonly leaf: Uint8Array;
}

function segmentWeights(layered: Layered, topological: Int32Array): Weights {
  const { total, from, to, up, down } = layered;
  const count = topological.length;
  const leaf = new Uint8Array(total);
  // A node computed from a leaf alone, such as a transposed weight, is treated like the leaf.
  const made = new Uint8Array(total);
  for (const v of topological) {
    const feeds = down.offset[v + 1]! - down.offset[v]!;
    const reads = up.offset[v + 1]! - up.offset[v]!;
    const source = reads === 1 ? from[up.edges[up.offset[v]!]!]! : -1;
    if (feeds !== 1 || reads > 1) continue;
    if (source >= 0 && (leaf[source] === 0 || made[source]! >= MOST_MADE)) continue;
    leaf[v] = 1;
    made[v] = source < 0 ? 0 : made[source]! + 1;
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
    const weight =
      a >= count && b >= count
        ? TRUNK_PULL
        : a >= count || b >= count
          ? TRUNK_END_PULL
          : outOf[a] === 1 && into[b] === 1
            ? SPINE_PULL
            : 1;
    below[segment] = weight;
    above[segment] = leaf[a] === 1 ? LEAF_PULL : weight;
  }
  return { above, below, leaf };
}

interface Runs {
  /** First member of each node's run. */
  readonly run: Int32Array;
  /** x of each node relative to its run: the ports of open scopes shift the ends of edges. */
  readonly offset: Float64Array;
}

/**
 * Sequences to draw in a straight line: trunks, and paths in which each node is the best reader of
 * the previous node, which is in turn its best source.
 */
function straightRuns(input: PositionInput, pull: Weights, shift: Float64Array): Runs {
  const { layered, count, topological } = input;
  const { total, trunk, trunkLength, down, up, from, to } = layered;
  const run = Int32Array.from({ length: total }, (_, v) => v);
  const offset = new Float64Array(total);
  const position = new Int32Array(total);
  input.order.sequence.forEach((v, at) => {
    position[v] = at;
  });
  for (let v = 0; v < count; v++) {
    for (let k = 0; k < trunkLength[v]!; k++) run[trunk[v]! + k] = trunk[v]!;
  }
  /** The middle segment to a real neighbour; -1 for an even number, so that no side is favoured. */
  const best = (adjacency: Layered["down"], v: number, end: Int32Array): number => {
    const segments: number[] = [];
    for (let at = adjacency.offset[v]!; at < adjacency.offset[v + 1]!; at++) {
      const segment = adjacency.edges[at]!;
      if (end[segment]! < count && pull.leaf[from[segment]!] !== 1) segments.push(segment);
    }
    if (segments.length % 2 === 0 || segments.length > 5) return -1;
    segments.sort((a, b) => position[end[a]!]! - position[end[b]!]!);
    return segments[segments.length >> 1]!;
  };
  for (const v of topological) {
    const segment = best(down, v, to);
    if (segment < 0) continue;
    const child = to[segment]!;
    if (best(up, child, from) !== segment) continue;
    const along = offset[v]! + shift[segment]!;
    // A run that ports keep shifting to one side is broken and restarted.
    if (Math.abs(along) > MOST_ASIDE) continue;
    run[child] = run[v]!;
    offset[child] = along;
  }
  return { run, offset };
}

/**
 * Tops of layers. With `wanted` (centres, NaN = no wish), layers move apart to be level with their
 * counterparts, never closer than the gaps.
 */
export function placeLayers(
  heights: Float64Array,
  gaps: Float64Array,
  wanted: Float64Array | undefined,
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
