/**
 * Values read far from where they are made, by many, such as a mask: lines to all readers would
 * hide the picture, and pull it out of shape. Each such reader gets a stub with the producer's name.
 *
 * Invariant: pure; a value's way from one item to the next is always a line.
 */

import { isOrder } from "@/layout/types";

interface Edge {
  readonly from: number;
  readonly to: number;
  readonly value: number;
  readonly bundle: number;
}

/** Px of other items one below the other between producer and reader, from which on it is far. */
const FAR = 240;
/** Fewer far readers have lines. */
const FEWEST = 4;
/** What nothing comes before, such as labels, is drawn where it is read from this distance on. */
const FARTHEST = 360;
/** Between an item and the next. */
const GAP = 30;
/** A reader of more such values has lines: it would be hidden by stubs. */
const MOST_AT_READER = 3;

/**
 * Indices of the edges that stubs replace.
 *
 * Args:
 *   ends: Whether an item is the border of the scope.
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

/** How far down each item is at least, px; items on cycles are at the top. */
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
