/**
 * Adjacency in compressed rows: the edges of node v are `edges[offset[v]]` to
 * `edges[offset[v + 1] - 1]`.
 *
 * Invariant: built once per direction, never changed; a node's edges keep the order of the input.
 */

export interface Adjacency {
  readonly offset: Int32Array;
  readonly edges: Int32Array;
}

/** Edges by their end in `ends`; `count` nodes. */
export function adjacencyBy(ends: Int32Array, count: number): Adjacency {
  const offset = new Int32Array(count + 1);
  for (let edge = 0; edge < ends.length; edge++) offset[ends[edge]! + 1]! += 1;
  for (let node = 0; node < count; node++) offset[node + 1]! += offset[node]!;
  const fill = offset.slice(0, count);
  const edges = new Int32Array(ends.length);
  for (let edge = 0; edge < ends.length; edge++) edges[fill[ends[edge]!]!++] = edge;
  return { offset, edges };
}
