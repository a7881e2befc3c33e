/**
 * Long edges as chains of dummies, and the order of nodes within layers with few crossings.
 *
 * Invariant: all long edges of one source share one chain (the trunk), so that a mask read by every
 * layer costs one lane, not one per reader; the result depends on the graph alone.
 */

import { type Adjacency, adjacencyBy } from "@/layout/adjacency";
import type { Directed, Ranking } from "@/layout/rank";

export interface Layered {
  /** Nodes 0 .. count - 1, then dummies. */
  readonly total: number;
  readonly layerOf: Int32Array;
  readonly layers: number;
  /** First dummy of each node's trunk, and its length. */
  readonly trunk: Int32Array;
  readonly trunkLength: Int32Array;
  /** Edges too long for the dummy budget: routed beside the drawing. */
  readonly lane: Uint8Array;
  /** Segments between neighbouring layers: `from` in layer k, `to` in layer k + 1. */
  readonly from: Int32Array;
  readonly to: Int32Array;
  /** The edge whose last piece a segment is, -1 inside a trunk. */
  readonly edgeOf: Int32Array;
  readonly down: Adjacency;
  readonly up: Adjacency;
}

/** Splits edges over several layers into segments. */
export function insertDummies(graph: Directed, ranking: Ranking): Layered {
  const { count, source, target, outgoing } = graph;
  const { rank } = ranking;
  const budget = 4 * count + 4000;
  const span = (edge: number): number => rank[target[edge]!]! - rank[source[edge]!]!;
  const trunkLength = new Int32Array(count);
  let dummies = 0;
  for (let node = 0; node < count; node++) {
    let longest = 0;
    for (let at = outgoing.offset[node]!; at < outgoing.offset[node + 1]!; at++) {
      longest = Math.max(longest, span(outgoing.edges[at]!) - 1);
    }
    trunkLength[node] = longest;
    dummies += longest;
  }
  const lane = new Uint8Array(source.length);
  if (dummies > budget) dummies = cutTrunks(trunkLength, lane, budget, dummies, graph, span);
  const total = count + dummies;
  const layerOf = new Int32Array(total);
  layerOf.set(rank);
  const trunk = new Int32Array(count);
  let next = count;
  for (let node = 0; node < count; node++) {
    trunk[node] = next;
    for (let k = 0; k < trunkLength[node]!; k++) layerOf[next++] = rank[node]! + 1 + k;
  }
  const room = dummies + source.length;
  const from = new Int32Array(room);
  const to = new Int32Array(room);
  const edgeOf = new Int32Array(room).fill(-1);
  let used = 0;
  for (let node = 0; node < count; node++) {
    let previous = node;
    for (let k = 0; k < trunkLength[node]!; k++) {
      from[used] = previous;
      previous = trunk[node]! + k;
      to[used++] = previous;
    }
    for (let at = outgoing.offset[node]!; at < outgoing.offset[node + 1]!; at++) {
      const edge = outgoing.edges[at]!;
      const length = span(edge);
      if (length < 1 || lane[edge] === 1) continue;
      from[used] = length === 1 ? node : trunk[node]! + length - 2;
      to[used] = target[edge]!;
      edgeOf[used++] = edge;
    }
  }
  const segmentsFrom = from.slice(0, used);
  const segmentsTo = to.slice(0, used);
  return {
    total,
    layerOf,
    layers: ranking.layers,
    trunk,
    trunkLength,
    lane,
    from: segmentsFrom,
    to: segmentsTo,
    edgeOf: edgeOf.slice(0, used),
    down: adjacencyBy(segmentsFrom, total),
    up: adjacencyBy(segmentsTo, total),
  };
}

/** Turns the longest edges into lanes until the budget holds; returns the dummies that remain. */
function cutTrunks(
  trunkLength: Int32Array,
  lane: Uint8Array,
  budget: number,
  dummies: number,
  graph: Directed,
  span: (edge: number) => number,
): number {
  const sorted = trunkLength.slice().sort();
  let rest = dummies;
  let limit = FAR_SPAN;
  for (let at = sorted.length - 1; at >= 0 && rest > budget; at--) {
    rest -= sorted[at]!;
    limit = sorted[at]!;
  }
  rest = 0;
  for (let node = 0; node < graph.count; node++) {
    let longest = 0;
    const { offset, edges } = graph.outgoing;
    for (let at = offset[node]!; at < offset[node + 1]!; at++) {
      const length = span(edges[at]!) - 1;
      if (length >= limit) lane[edges[at]!] = 1;
      else longest = Math.max(longest, length);
    }
    trunkLength[node] = longest;
    rest += longest;
  }
  return rest;
}

const FAR_SPAN = 1 << 30;
const SWEEPS = 12;
const STALL = 6;
/** Most nodes and dummies for which the order is searched thoroughly. */
const MOST_THOROUGH = 4000;
/** Passes of swaps after each sweep, and at the end. */
const SWEEP_SWAPS = 2;
const TRANSPOSE_PASSES = 12;

export interface Order {
  /** Nodes and dummies layer by layer. */
  readonly sequence: Int32Array;
  /** Where each layer begins in `sequence`. */
  readonly start: Int32Array;
  readonly crossings: number;
}

/**
 * Barycentre sweeps from an initial order, then swaps of neighbours. Small graphs also get swaps
 * after each sweep, sifting, and a second initial order. The order with fewest crossings is kept.
 */
export function orderLayers(layered: Layered, count: number): Order {
  const { total, layerOf, layers, down, up } = layered;
  const start = new Int32Array(layers + 1);
  for (let v = 0; v < total; v++) start[layerOf[v]! + 1]! += 1;
  for (let layer = 0; layer < layers; layer++) start[layer + 1]! += start[layer]!;
  const below = Int32Array.from(down.edges, (segment) => layered.to[segment]!);
  const above = Int32Array.from(up.edges, (segment) => layered.from[segment]!);
  const sequence = new Int32Array(total);
  const position = new Int32Array(total);
  const state: Sweep = {
    start,
    sequence,
    position,
    down,
    up,
    below,
    above,
    key: new Float64Array(total),
    tree: new Int32Array(widest(start) + 2),
  };
  depthFirstOrder(layered, count, below, above, start, sequence, position);
  const thorough = total <= MOST_THOROUGH;
  let fewest = improve(state, layers, thorough);
  let best = sequence.slice();
  if (thorough && fewest > 0) {
    givenOrder(layered, start, sequence, position);
    const crossings = improve(state, layers, thorough);
    if (crossings < fewest) {
      fewest = crossings;
      best = sequence.slice();
    }
  }
  return { sequence: best, start, crossings: fewest };
}

/** Reduces crossings, starting from the current order; returns how many are left. */
function improve(state: Sweep, layers: number, thorough: boolean): number {
  const { sequence } = state;
  let best = sequence.slice();
  let fewest = countCrossings(state, layers);
  let stall = 0;
  for (let sweep = 0; sweep < SWEEPS && fewest > 0 && stall < STALL; sweep++) {
    const reverseTies = ((sweep >> 1) & 1) === 1;
    if (sweep % 2 === 0) {
      for (let layer = 1; layer < layers; layer++) sortLayer(state, layer, true, reverseTies);
    } else {
      for (let layer = layers - 2; layer >= 0; layer--) sortLayer(state, layer, false, reverseTies);
    }
    if (thorough) transpose(state, layers, SWEEP_SWAPS);
    const crossings = countCrossings(state, layers);
    if (crossings < fewest) {
      fewest = crossings;
      best = sequence.slice();
      stall = 0;
    } else stall++;
  }
  sequence.set(best);
  positionsOf(state, layers);
  fewest -= transpose(state, layers, TRANSPOSE_PASSES);
  return thorough && fewest > 0 ? fewest - sift(state, layers) : fewest;
}

function positionsOf({ start, sequence, position }: Sweep, layers: number): void {
  for (let layer = 0; layer < layers; layer++) {
    for (let at = start[layer]!; at < start[layer + 1]!; at++) {
      position[sequence[at]!] = at - start[layer]!;
    }
  }
}

/** Orders each layer by index: nodes as they were given, then dummies. */
function givenOrder(
  { total, layerOf, layers }: Layered,
  start: Int32Array,
  sequence: Int32Array,
  position: Int32Array,
): void {
  const fill = start.slice(0, layers);
  for (let v = 0; v < total; v++) {
    const layer = layerOf[v]!;
    position[v] = fill[layer]! - start[layer]!;
    sequence[fill[layer]!++] = v;
  }
}

interface Sweep {
  readonly start: Int32Array;
  readonly sequence: Int32Array;
  readonly position: Int32Array;
  readonly down: Adjacency;
  readonly up: Adjacency;
  readonly below: Int32Array;
  readonly above: Int32Array;
  readonly key: Float64Array;
  /** A Fenwick tree over one layer. */
  readonly tree: Int32Array;
}

function widest(start: Int32Array): number {
  let most = 0;
  for (let layer = 0; layer + 1 < start.length; layer++) {
    most = Math.max(most, start[layer + 1]! - start[layer]!);
  }
  return most;
}

/** Orders layers by a depth-first walk over readers and producers: leaves are near readers. */
function depthFirstOrder(
  layered: Layered,
  count: number,
  below: Int32Array,
  above: Int32Array,
  start: Int32Array,
  sequence: Int32Array,
  position: Int32Array,
): void {
  const { total, layerOf, down, up } = layered;
  const fill = start.slice(0, layered.layers);
  const seen = new Uint8Array(total);
  const put = (v: number): void => {
    const layer = layerOf[v]!;
    seen[v] = 1;
    position[v] = fill[layer]! - start[layer]!;
    sequence[fill[layer]!++] = v;
  };
  const stack: number[] = [];
  for (let root = 0; root < count; root++) {
    if (seen[root] === 1 || up.offset[root] !== up.offset[root + 1]) continue;
    stack.push(root);
    while (stack.length > 0) {
      const v = stack.pop()!;
      if (seen[v] === 1) continue;
      put(v);
      for (let at = up.offset[v + 1]! - 1; at >= up.offset[v]!; at--) stack.push(above[at]!);
      for (let at = down.offset[v + 1]! - 1; at >= down.offset[v]!; at--) stack.push(below[at]!);
    }
  }
  for (let v = 0; v < total; v++) if (seen[v] === 0) put(v);
}

function barycentre(state: Sweep, v: number, fromAbove: boolean): number {
  const { offset } = fromAbove ? state.up : state.down;
  const neighbours = fromAbove ? state.above : state.below;
  const begin = offset[v]!;
  const end = offset[v + 1]!;
  if (begin === end) {
    // A source has nothing above: it follows its readers.
    return fromAbove && state.down.offset[v] !== state.down.offset[v + 1]
      ? barycentre(state, v, false)
      : state.position[v]!;
  }
  let sum = 0;
  for (let at = begin; at < end; at++) sum += state.position[neighbours[at]!]!;
  return sum / (end - begin);
}

function sortLayer(state: Sweep, layer: number, fromAbove: boolean, reverseTies: boolean): void {
  const { start, sequence, position, key } = state;
  const begin = start[layer]!;
  const end = start[layer + 1]!;
  if (end - begin < 2) return;
  for (let at = begin; at < end; at++) {
    key[sequence[at]!] = barycentre(state, sequence[at]!, fromAbove);
  }
  const members = sequence.subarray(begin, end);
  const tie = reverseTies ? -1 : 1;
  members.sort((a, b) => key[a]! - key[b]! || tie * (position[a]! - position[b]!));
  for (let at = begin; at < end; at++) position[sequence[at]!] = at - begin;
}

function countCrossings(state: Sweep, layers: number): number {
  const { start, sequence, position, down, below, tree } = state;
  let crossings = 0;
  for (let layer = 0; layer + 1 < layers; layer++) {
    const size = start[layer + 2]! - start[layer + 1]!;
    tree.fill(0, 0, size + 1);
    let seen = 0;
    for (let at = start[layer]!; at < start[layer + 1]!; at++) {
      const v = sequence[at]!;
      const begin = down.offset[v]!;
      const end = down.offset[v + 1]!;
      for (let k = begin; k < end; k++) {
        let before = 0;
        for (let q = position[below[k]!]! + 1; q > 0; q &= q - 1) before += tree[q]!;
        crossings += seen - before;
      }
      for (let k = begin; k < end; k++) {
        for (let q = position[below[k]!]! + 1; q <= size; q += q & -q) tree[q]! += 1;
        seen++;
      }
    }
  }
  return crossings;
}

const TRANSPOSE_PAIRS = 400;

/** Swaps neighbours while that removes crossings; returns the number removed. */
function transpose(state: Sweep, layers: number, passes: number): number {
  const { start, sequence, position, down, up, below, above } = state;
  const cost = (left: number, right: number): number =>
    crossingPairs(left, right, up, above, position) +
    crossingPairs(left, right, down, below, position);
  let removed = 0;
  for (let pass = 0; pass < passes; pass++) {
    let gained = 0;
    for (let layer = 0; layer < layers; layer++) {
      for (let at = start[layer]!; at + 1 < start[layer + 1]!; at++) {
        const left = sequence[at]!;
        const right = sequence[at + 1]!;
        const pairs =
          (down.offset[left + 1]! - down.offset[left]!) *
          (down.offset[right + 1]! - down.offset[right]!);
        if (pairs > TRANSPOSE_PAIRS) continue;
        const now = cost(left, right);
        if (now === 0) continue;
        const swapped = cost(right, left);
        if (swapped >= now) continue;
        sequence[at] = right;
        sequence[at + 1] = left;
        position[right] = at - start[layer]!;
        position[left] = at + 1 - start[layer]!;
        gained += now - swapped;
      }
    }
    if (gained === 0) break;
    removed += gained;
  }
  return removed;
}

const SIFT_PASSES = 4;
/** Work limit for sifting, in pairs of edges compared: a few milliseconds. */
const MOST_SIFTED = 400_000;

/** Moves each node to the place in its layer with fewest crossings; returns the number removed. */
function sift(state: Sweep, layers: number): number {
  const { start, sequence, position, down, up, below, above } = state;
  const degree = (v: number): number =>
    down.offset[v + 1]! - down.offset[v]! + up.offset[v + 1]! - up.offset[v]!;
  const cost = (left: number, right: number): number =>
    crossingPairs(left, right, up, above, position) +
    crossingPairs(left, right, down, below, position);
  let removed = 0;
  let work = 0;
  for (let pass = 0; pass < SIFT_PASSES; pass++) {
    const before = removed;
    for (let layer = 0; layer < layers; layer++) {
      const [begin, end] = [start[layer]!, start[layer + 1]!];
      for (const v of sequence.slice(begin, end)) {
        const from = begin + position[v]!;
        let best = from;
        let gain = 0;
        for (const step of [-1, 1]) {
          let change = 0;
          for (let at = from + step; at >= begin && at < end; at += step) {
            const other = sequence[at]!;
            work += 2 * degree(v) * degree(other);
            // v moves past `other`.
            change += step > 0 ? cost(v, other) - cost(other, v) : cost(other, v) - cost(v, other);
            if (change > gain) {
              gain = change;
              best = at;
            }
          }
        }
        if (work > MOST_SIFTED) return removed;
        if (gain === 0) continue;
        removed += gain;
        const step = best > from ? 1 : -1;
        for (let at = from; at !== best; at += step) {
          sequence[at] = sequence[at + step]!;
          position[sequence[at]!] = at - begin;
        }
        sequence[best] = v;
        position[v] = best - begin;
      }
    }
    if (removed === before) break;
  }
  return removed;
}

function crossingPairs(
  left: number,
  right: number,
  adjacency: Adjacency,
  neighbours: Int32Array,
  position: Int32Array,
): number {
  const { offset } = adjacency;
  let crossings = 0;
  for (let a = offset[left]!; a < offset[left + 1]!; a++) {
    for (let b = offset[right]!; b < offset[right + 1]!; b++) {
      if (position[neighbours[a]!]! > position[neighbours[b]!]!) crossings++;
    }
  }
  return crossings;
}
