/**
 * Wide rows of similar boxes, such as 64 slices of one tensor, as a grid: several layers take
 * the place of one.
 *
 * Invariant: edges still lead from a lower to a higher layer; boxes with other neighbours stay in
 * the first of the layers.
 */

import { type Directed, PIN_NONE, type Ranking } from "@/layout/rank";

/** A row of similar boxes up to this width, in px, is not changed. */
const WIDE = 900;
/** A grid is about this many times as wide as it is tall. */
const ASPECT = 2.5;
const FEWEST = 6;

export interface BoxSizes {
  readonly width: Float64Array;
  readonly height: Float64Array;
  readonly pin: Uint8Array;
  readonly nodeGap: number;
  readonly layerGap: number;
}

/** The layers, with rows of similar boxes distributed over further layers. */
export function inGrids(graph: Directed, ranking: Ranking, sizes: BoxSizes): Ranking {
  const rows = new Int32Array(ranking.layers).fill(1);
  const row = new Int32Array(graph.count);
  for (const alike of alikeBoxes(graph, ranking, sizes)) {
    const width = alike.reduce((sum, node) => sum + sizes.width[node]! + sizes.nodeGap, 0);
    if (width <= WIDE) continue;
    const tall = sizes.layerGap + Math.max(...alike.map((node) => sizes.height[node]!));
    const wanted = Math.max(Math.round(Math.sqrt((width * tall) / ASPECT) / tall), 2);
    const across = Math.ceil(alike.length / wanted);
    alike.forEach((node, at) => {
      row[node] = Math.floor(at / across);
      const layer = ranking.rank[node]!;
      rows[layer] = Math.max(rows[layer]!, row[node]! + 1);
    });
  }
  const first = new Int32Array(ranking.layers);
  let layers = 0;
  for (let layer = 0; layer < ranking.layers; layer++) {
    first[layer] = layers;
    layers += rows[layer]!;
  }
  if (layers === ranking.layers) return ranking;
  return {
    ...ranking,
    layers,
    rank: ranking.rank.map((layer, node) => first[layer]! + row[node]!),
  };
}

/** Sets of at least `FEWEST` boxes in one layer with the same neighbours, in order of index. */
function alikeBoxes(graph: Directed, ranking: Ranking, sizes: BoxSizes): number[][] {
  const crowded = new Int32Array(ranking.layers);
  for (const layer of ranking.rank) crowded[layer]! += 1;
  const sets = new Map<string, number[]>();
  for (let node = 0; node < graph.count; node++) {
    const layer = ranking.rank[node]!;
    if (crowded[layer]! < FEWEST || sizes.pin[node] !== PIN_NONE) continue;
    const before = neighbours(graph.source, graph.incoming, graph.outgoing, sizes.pin, node);
    const after = neighbours(graph.target, graph.outgoing, graph.incoming, sizes.pin, node);
    const key = `${layer}:${before}:${after}`;
    const set = sets.get(key);
    if (set === undefined) sets.set(key, [node]);
    else set.push(node);
  }
  return [...sets.values()].filter((set) => set.length >= FEWEST);
}

/** The nodes at the other ends of a node's edges; ports with no other edge all count as equal. */
function neighbours(
  ends: Int32Array,
  edges: Directed["incoming"],
  back: Directed["incoming"],
  pin: Uint8Array,
  node: number,
): string {
  const list: number[] = [];
  for (let at = edges.offset[node]!; at < edges.offset[node + 1]!; at++) {
    const end = ends[edges.edges[at]!]!;
    const own = pin[end] !== PIN_NONE && back.offset[end + 1]! - back.offset[end]! === 1;
    list.push(own ? -1 : end);
  }
  return list.sort((a, b) => a - b).join();
}
