/**
 * When each node first appeared, and when it was redefined with other inputs.
 *
 * Invariant: pure; rewirings are in order of seq. Only a limited number is kept: before `since`
 * there may have been others.
 */

import type { Node } from "@/wire/types.gen";

/** A node that was redefined with other inputs. */
export interface Rewiring {
  readonly node: number;
  readonly seq: number;
  /** Value ids by input port. */
  readonly before: readonly number[];
  readonly after: readonly number[];
}

export interface GraphHistory {
  /** Seq of the first definition by node id; 0 = there is no such node. */
  readonly met: readonly number[];
  readonly rewirings: readonly Rewiring[];
  /** The rewirings are complete from this seq on. */
  readonly since: number;
}

export const NO_HISTORY: GraphHistory = { met: [], rewirings: [], since: 0 };

export const MAX_REWIRINGS = 20_000;

/** The history after further definitions; `known` are the nodes before them. */
export function withDefinitions(
  history: GraphHistory,
  known: readonly (Node | undefined)[],
  nodes: readonly Node[],
  seqs: ArrayLike<number>,
): GraphHistory {
  if (nodes.length === 0) return history;
  const met = history.met.slice();
  const latest: Node[] = [];
  const fresh: Rewiring[] = [];
  // Records repeated after a lost connection are not new.
  const last = history.rewirings.at(-1)?.seq ?? 0;
  nodes.forEach((node, i) => {
    const seq = seqs[i] ?? 0;
    const { id } = node;
    const previous = latest[id] ?? known[id];
    latest[id] = node;
    if (previous === undefined) {
      met[id] = seq;
      return;
    }
    const before = previous.inputs;
    const after = node.inputs;
    if (seq >= last && !same(before, after)) fresh.push({ node: id, seq, before, after });
  });
  if (fresh.length === 0) return { ...history, met };
  const all = [...history.rewirings, ...fresh];
  const cut = all.length - MAX_REWIRINGS;
  if (cut <= 0) return { ...history, met, rewirings: all };
  return { met, rewirings: all.slice(cut), since: (all[cut - 1]?.seq ?? 0) + 1 };
}

/** The last rewiring of a node at or before a seq. */
export function lastRewiring(
  history: GraphHistory,
  node: number,
  until: number,
): Rewiring | undefined {
  return history.rewirings.findLast((rewiring) => rewiring.node === node && rewiring.seq <= until);
}

/** Rewirings with `from <= seq < to`. */
export function rewiringsIn(history: GraphHistory, from: number, to: number): readonly Rewiring[] {
  return history.rewirings.slice(firstAt(history, from), firstAt(history, to));
}

function firstAt({ rewirings }: GraphHistory, seq: number): number {
  let low = 0;
  let high = rewirings.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rewirings[middle]?.seq ?? 0) < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function same(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i]);
}
