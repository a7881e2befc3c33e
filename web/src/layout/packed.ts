/**
 * Layout of a group of unconnected parts: each part is laid out separately, and the parts are
 * arranged in rows, like words in a paragraph.
 *
 * Invariant: a group that is connected, has ports, or is narrow anyway is laid out by
 * `layoutLayered` alone; boxes never overlap.
 */

import { type LayeredInput, type LayeredResult, layoutLayered } from "@/layout/layered";
import { PIN_NONE } from "@/layout/rank";

/** Parts up to this total width, in px, are placed in one row. */
const ONE_ROW = 1600;
const PART_GAP = 28;
/** Rows together are this many times as wide as they are tall. */
const ASPECT = 1.6;

export function layoutPacked(input: LayeredInput): LayeredResult {
  const whole = layoutLayered(input);
  if (whole.width <= ONE_ROW || input.wantedY !== undefined) return whole;
  if (input.pin.some((pin) => pin !== PIN_NONE)) return whole;
  const part = partsOf(input);
  const count = Math.max(-1, ...part) + 1;
  if (count < 2) return whole;
  const pieces = Array.from({ length: count }, (_, k) => layOutPart(input, part, k));
  return merged(input, pieces, whole);
}

/** By node, the number of the connected part that it belongs to, in order of first nodes. */
function partsOf(input: LayeredInput): Int32Array {
  const count = input.width.length;
  const root = Int32Array.from({ length: count }, (_, node) => node);
  const find = (node: number): number => {
    let at = node;
    while (root[at] !== at) at = root[at] = root[root[at]!]!;
    return at;
  };
  input.source.forEach((source, edge) => {
    const a = find(source);
    const b = find(input.target[edge]!);
    if (a !== b) root[Math.max(a, b)] = Math.min(a, b);
  });
  const numbers = new Map<number, number>();
  return Int32Array.from({ length: count }, (_, node) => {
    const at = find(node);
    if (!numbers.has(at)) numbers.set(at, numbers.size);
    return numbers.get(at)!;
  });
}

interface Piece {
  readonly nodes: readonly number[];
  readonly edges: readonly number[];
  readonly result: LayeredResult;
}

function layOutPart(input: LayeredInput, part: Int32Array, number: number): Piece {
  const nodes: number[] = [];
  part.forEach((at, node) => {
    if (at === number) nodes.push(node);
  });
  const edges: number[] = [];
  input.source.forEach((source, edge) => {
    if (part[source] === number) edges.push(edge);
  });
  const place = new Map(nodes.map((node, k) => [node, k]));
  const result = layoutLayered({
    ...input,
    width: Float64Array.from(nodes, (node) => input.width[node]!),
    height: Float64Array.from(nodes, (node) => input.height[node]!),
    pin: Uint8Array.from(nodes, (node) => input.pin[node]!),
    spread: Uint8Array.from(nodes, (node) => input.spread[node]!),
    source: Int32Array.from(edges, (edge) => place.get(input.source[edge]!)!),
    target: Int32Array.from(edges, (edge) => place.get(input.target[edge]!)!),
    sourceOffset: Float32Array.from(edges, (edge) => input.sourceOffset[edge]!),
    targetOffset: Float32Array.from(edges, (edge) => input.targetOffset[edge]!),
  });
  return { nodes, edges, result };
}

function merged(
  input: LayeredInput,
  pieces: readonly Piece[],
  whole: LayeredResult,
): LayeredResult {
  const tall = ({ result }: Piece): number => result.bottom - result.top;
  const area = pieces.reduce(
    (sum, piece) => sum + (piece.result.width + PART_GAP) * (tall(piece) + PART_GAP),
    0,
  );
  const widest = Math.max(...pieces.map(({ result }) => result.width));
  const room = Math.max(widest, ONE_ROW, Math.sqrt(area * ASPECT));
  const x = new Float64Array(input.width.length);
  const y = new Float64Array(input.width.length);
  const reversed = new Uint8Array(input.source.length);
  const shared = new Int32Array(input.source.length);
  const routes: Float32Array[] = input.source.length === 0 ? [] : Array(input.source.length);
  let left = 0;
  let top = 0;
  let line = 0;
  let width = 0;
  for (const piece of pieces) {
    const { nodes, edges, result } = piece;
    if (left > 0 && left + result.width > room) {
      top += line + PART_GAP;
      left = line = 0;
    }
    const dy = top - result.top;
    nodes.forEach((node, k) => {
      x[node] = result.x[k]! + left;
      y[node] = result.y[k]! + dy;
    });
    edges.forEach((edge, k) => {
      const points = result.points.slice(2 * result.start[k]!, 2 * result.start[k + 1]!);
      for (let at = 0; at < points.length; at += 2) {
        points[at]! += left;
        points[at + 1]! += dy;
      }
      routes[edge] = points;
      reversed[edge] = result.reversed[k]!;
      shared[edge] = result.shared[k]!;
    });
    width = Math.max(width, left + result.width);
    line = Math.max(line, tall(piece));
    left += result.width + PART_GAP;
  }
  const start = new Int32Array(routes.length + 1);
  routes.forEach((points, edge) => {
    start[edge + 1] = start[edge]! + points.length / 2;
  });
  const points = new Float32Array(2 * start[routes.length]!);
  routes.forEach((own, edge) => {
    points.set(own, 2 * start[edge]!);
  });
  return {
    x,
    y,
    rank: whole.rank,
    width,
    top: 0,
    bottom: top + line,
    reversed,
    start,
    points,
    shared,
    crossings: pieces.reduce((sum, { result }) => sum + result.crossings, 0),
  };
}
