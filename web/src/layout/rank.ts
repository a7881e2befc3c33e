/**
 * Layers of a directed graph: the layer of each node, with edges leading downward.
 *
 * Invariant: after `breakCycles` every edge (self-loops aside) leads from a lower to a higher
 * layer; nodes pinned first or last have layers of their own.
 */

import { type Adjacency, adjacencyBy } from "@/layout/adjacency";

export const PIN_NONE = 0;
/** Where edges enter the group: a layer above all others. */
export const PIN_FIRST = 1;
/** Where edges leave the group: a layer below all others. */
export const PIN_LAST = 2;

export interface Directed {
  readonly count: number;
  /** Ends after the reversal of back edges. */
  readonly source: Int32Array;
  readonly target: Int32Array;
  readonly reversed: Uint8Array;
  readonly outgoing: Adjacency;
  readonly incoming: Adjacency;
}

const UNSEEN = 0;
const OPEN = 1;
const DONE = 2;

/** Reverses the edges that close a cycle, found by a depth-first walk in order of index. */
export function breakCycles(count: number, from: Int32Array, to: Int32Array): Directed {
  const source = from.slice();
  const target = to.slice();
  const reversed = new Uint8Array(from.length);
  const { offset, edges } = adjacencyBy(from, count);
  const state = new Uint8Array(count);
  const stack = new Int32Array(count);
  const next = offset.slice(0, count);
  for (let root = 0; root < count; root++) {
    if (state[root] !== UNSEEN) continue;
    let depth = 0;
    stack[depth++] = root;
    state[root] = OPEN;
    while (depth > 0) {
      const node = stack[depth - 1]!;
      const at = next[node]!;
      if (at === offset[node + 1]!) {
        state[node] = DONE;
        depth--;
        continue;
      }
      next[node] = at + 1;
      const edge = edges[at]!;
      const child = to[edge]!;
      if (state[child] === OPEN && child !== node) {
        source[edge] = child;
        target[edge] = node;
        reversed[edge] = 1;
      } else if (state[child] === UNSEEN) {
        state[child] = OPEN;
        stack[depth++] = child;
      }
    }
  }
  return {
    count,
    source,
    target,
    reversed,
    outgoing: adjacencyBy(source, count),
    incoming: adjacencyBy(target, count),
  };
}

export interface Ranking {
  readonly rank: Int32Array;
  readonly layers: number;
  readonly topological: Int32Array;
}

const FAR = 1 << 30;
const PULL_PASSES = 4;

/**
 * Ranks by longest path from the top, then pulls each node to the side where it has more edges.
 * Nodes computed from sources for a single reader, such as a transposed weight, follow that reader.
 */
export function rankNodes(graph: Directed, pin: Uint8Array): Ranking {
  const { count, source, target, outgoing, incoming } = graph;
  const rank = new Int32Array(count);
  const topological = topologicalOrder(graph);
  const hasFirst = pin.includes(PIN_FIRST);
  const hasLast = pin.includes(PIN_LAST);
  let deepest = 0;
  for (const node of topological) {
    if (hasFirst && pin[node] !== PIN_FIRST && rank[node]! < 1) rank[node] = 1;
    if (pin[node] !== PIN_LAST) deepest = Math.max(deepest, rank[node]!);
    for (let at = outgoing.offset[node]!; at < outgoing.offset[node + 1]!; at++) {
      const child = target[outgoing.edges[at]!]!;
      if (child !== node) rank[child] = Math.max(rank[child]!, rank[node]! + 1);
    }
  }
  for (let node = 0; node < count; node++) if (pin[node] === PIN_LAST) rank[node] = deepest + 1;
  const loose = looseNodes(graph, pin, topological);
  for (let pass = 0; pass < PULL_PASSES; pass++) {
    for (let step = 0; step < count; step++) {
      const node = topological[pass % 2 === 0 ? count - 1 - step : step]!;
      if (pin[node] !== PIN_NONE) continue;
      let low = -1;
      let high = FAR;
      let above = 0;
      let below = 0;
      for (let at = incoming.offset[node]!; at < incoming.offset[node + 1]!; at++) {
        const other = source[incoming.edges[at]!]!;
        if (other === node) continue;
        above++;
        low = Math.max(low, rank[other]!);
      }
      for (let at = outgoing.offset[node]!; at < outgoing.offset[node + 1]!; at++) {
        const other = target[outgoing.edges[at]!]!;
        if (other === node) continue;
        below++;
        high = Math.min(high, rank[other]!);
      }
      if ((below > above || loose[node] === 1) && high < FAR) rank[node] = high - 1;
      else if (above > below && low >= 0) rank[node] = low + 1;
    }
  }
  return { rank, layers: compact(rank, hasLast ? pin : undefined), topological };
}

/** Nodes with at most one reader whose producers are all such nodes. */
function looseNodes(graph: Directed, pin: Uint8Array, topological: Int32Array): Uint8Array {
  const { source, target, outgoing, incoming } = graph;
  const loose = new Uint8Array(graph.count);
  for (const node of topological) {
    let reader = -1;
    let isLoose = pin[node] === PIN_NONE;
    for (let at = outgoing.offset[node]!; isLoose && at < outgoing.offset[node + 1]!; at++) {
      const other = target[outgoing.edges[at]!]!;
      isLoose = reader < 0 || other === reader;
      reader = other;
    }
    for (let at = incoming.offset[node]!; isLoose && at < incoming.offset[node + 1]!; at++) {
      isLoose = loose[source[incoming.edges[at]!]!] === 1;
    }
    loose[node] = isLoose ? 1 : 0;
  }
  return loose;
}

/** Kahn's order. Self-loops are ignored; the graph has no other cycles. */
function topologicalOrder(graph: Directed): Int32Array {
  const { count, source, target, outgoing } = graph;
  const waiting = new Int32Array(count);
  for (let edge = 0; edge < source.length; edge++) {
    if (source[edge] !== target[edge]) waiting[target[edge]!]! += 1;
  }
  const order = new Int32Array(count);
  let filled = 0;
  for (let node = 0; node < count; node++) if (waiting[node] === 0) order[filled++] = node;
  for (let at = 0; at < filled; at++) {
    const node = order[at]!;
    for (let k = outgoing.offset[node]!; k < outgoing.offset[node + 1]!; k++) {
      const child = target[outgoing.edges[k]!]!;
      if (child !== node && --waiting[child]! === 0) order[filled++] = child;
    }
  }
  return order;
}

/** Removes empty layers in place and returns how many are left. */
function compact(rank: Int32Array, pin: Uint8Array | undefined): number {
  let highest = 0;
  let lowest = FAR;
  for (const value of rank) {
    highest = Math.max(highest, value);
    lowest = Math.min(lowest, value);
  }
  if (rank.length === 0) return 0;
  const used = new Uint8Array(highest - lowest + 1);
  for (const value of rank) used[value - lowest] = 1;
  const renumbered = new Int32Array(used.length);
  let layers = 0;
  for (let value = 0; value < used.length; value++) {
    renumbered[value] = layers;
    layers += used[value]!;
  }
  for (let node = 0; node < rank.length; node++) rank[node] = renumbered[rank[node]! - lowest]!;
  if (pin !== undefined) {
    // Pulling can leave a node level with the last layer when that layer has become free.
    for (let node = 0; node < rank.length; node++) {
      if (pin[node] === PIN_LAST) rank[node] = layers - 1;
    }
  }
  return layers;
}
