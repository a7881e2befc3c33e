/**
 * Edges to far readers, such as those of a mask that many nodes read: lines to all readers would
 * hide the picture and distort it. Each far reader gets a stub with the producer's name instead.
 *
 * Invariant: pure; an edge from one item to the next is always a line.
 */

import { isOrder } from "@/layout/types";

interface Edge {
  readonly from: number;
  readonly to: number;
  readonly value: number;
  readonly bundle: number;
}

/** A reader is far if at least this height of other items, px, lies between it and the producer. */
const FAR = 240;
/** A value with fewer far readers keeps its lines. */
const FEWEST = 4;
/** From this distance on, px, an item without inputs, such as labels, gets a stub at any reader. */
const FARTHEST = 360;
/** Between one item and the next, px. */
const GAP = 30;
/** A reader of more such values keeps its lines, because the stubs would hide it. */
const MOST_AT_READER = 3;

/**
 * Indices of the edges that stubs replace.
 *
 * Args:
 *   ends: Whether an item is a port in the scope's border.
 *   heightOf: The height of an item, px.
 */
export function farReads(
  edges: readonly Edge[],
  ends: (item: number) => boolean,
  heightOf: (item: number) => number,
): ReadonlySet<number> {
  const { depth, first } = depths(edges, heightOf);
  const span = ({ from, to }: Edge): number =>
    (depth.get(to) ?? 0) - (depth.get(from) ?? 0) - heightOf(from) - GAP;
  const readers = new Map<string, number>();
  const keyOf = ({ from, value }: Edge): string => `${from} ${value}`;
  const may = edges.map((edge) => edge.bundle === 1 && !ends(edge.to) && span(edge) >= FAR);
  edges.forEach((edge, at) => {
    if (may[at]) readers.set(keyOf(edge), (readers.get(keyOf(edge)) ?? 0) + 1);
  });
  const far = new Set<number>();
  const atReader = new Map<number, number[]>();
  edges.forEach((edge, at) => {
    if (!may[at]) return;
    const many = readers.get(keyOf(edge))! >= FEWEST;
    const alone = first.has(edge.from) && !ends(edge.from) && span(edge) >= FARTHEST;
    if (!many && !alone && !isOrder(edge.value)) return;
    far.add(at);
    const list = atReader.get(edge.to);
    if (list === undefined) atReader.set(edge.to, [at]);
    else list.push(at);
  });
  for (const list of atReader.values()) {
    if (list.length > MOST_AT_READER) for (const at of list) far.delete(at);
  }
  return far;
}

/** The least distance of each item from the top, px (0 for items on cycles), and the sources. */
function depths(
  edges: readonly Edge[],
  heightOf: (item: number) => number,
): {
  readonly depth: ReadonlyMap<number, number>;
  readonly first: ReadonlySet<number>;
} {
  const needs = new Map<number, number>();
  const after = new Map<number, number[]>();
  for (const { from, to } of edges) {
    if (from === to) continue;
    if (!needs.has(from)) needs.set(from, 0);
    needs.set(to, (needs.get(to) ?? 0) + 1);
    const list = after.get(from);
    if (list === undefined) after.set(from, [to]);
    else list.push(to);
  }
  const ready = [...needs].filter(([, count]) => count === 0).map(([item]) => item);
  const first = new Set(ready);
  const depth = new Map(ready.map((item) => [item, 0]));
  for (let item = ready.pop(); item !== undefined; item = ready.pop()) {
    const below = depth.get(item)! + heightOf(item) + GAP;
    for (const reader of after.get(item) ?? []) {
      depth.set(reader, Math.max(depth.get(reader) ?? 0, below));
      const left = needs.get(reader)! - 1;
      needs.set(reader, left);
      if (left === 0) ready.push(reader);
    }
  }
  return { depth, first };
}
