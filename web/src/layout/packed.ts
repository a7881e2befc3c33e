/**
 * Layout of a group of unconnected parts: each part is laid out separately, and the parts are
 * arranged in rows, like words in a paragraph. A part with most of the area has the rows beside it.
 *
 * Invariant: a group that is connected, has ports, or is narrow anyway is laid out by
 * `layoutLayered` alone; boxes never overlap.
 */

import { type LayeredInput, type LayeredResult, layoutLayered } from "@/layout/layered";
import { PIN_NONE } from "@/layout/rank";
import { wrapColumns } from "@/layout/wrapped";

/** A group up to this width, in px, is not split into parts. */
const ONE_ROW = 960;
const PART_GAP = 28;
/** Rows together are about this many times as wide as they are tall. */
const ASPECT = 1.6;
/** A part with at least this share of the area comes first, and the others go beside it. */
const MAIN = 0.5;

/** Lays out a group; a chain taller than `column`, in px, may be cut into columns. */
export function layoutPacked(
  input: LayeredInput,
  column = Number.POSITIVE_INFINITY,
): LayeredResult {
  const whole = layoutLayered(input);
  const alone = wrapColumns(input, whole, column);
  if (whole.width <= ONE_ROW || input.wantedY !== undefined) return alone;
  if (input.pin.some((pin) => pin !== PIN_NONE)) return alone;
  const part = partsOf(input);
  const count = part.reduce((most, number) => Math.max(most, number), -1) + 1;
  if (count < 2) return alone;
  const pieces = Array.from({ length: count }, (_, k) => layOutPart(input, part, k, column));
  return merged(input, pieces, whole);
}

/** By node, the number of its connected part; parts are numbered in order of their first nodes. */
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

function layOutPart(input: LayeredInput, part: Int32Array, number: number, column: number): Piece {
  const nodes: number[] = [];
  part.forEach((at, node) => {
    if (at === number) nodes.push(node);
  });
  const edges: number[] = [];
  input.source.forEach((source, edge) => {
    if (part[source] === number) edges.push(edge);
  });
  const place = new Map(nodes.map((node, k) => [node, k]));
  const own: LayeredInput = {
    ...input,
    width: Float64Array.from(nodes, (node) => input.width[node]!),
    height: Float64Array.from(nodes, (node) => input.height[node]!),
    pin: Uint8Array.from(nodes, (node) => input.pin[node]!),
    spread: Uint8Array.from(nodes, (node) => input.spread[node]!),
    source: Int32Array.from(edges, (edge) => place.get(input.source[edge]!)!),
    target: Int32Array.from(edges, (edge) => place.get(input.target[edge]!)!),
    sourceOffset: Float32Array.from(edges, (edge) => input.sourceOffset[edge]!),
    targetOffset: Float32Array.from(edges, (edge) => input.targetOffset[edge]!),
  };
  return { nodes, edges, result: wrapColumns(own, layoutLayered(own), column) };
}

interface Place {
  readonly left: number;
  readonly top: number;
}

const tallness = ({ result }: Piece): number => result.bottom - result.top;
const areaOf = (piece: Piece): number =>
  (piece.result.width + PART_GAP) * (tallness(piece) + PART_GAP);

/** Arranges parts in rows; a part with most of the area comes first, with the others beside it. */
function arranged(pieces: readonly Piece[]): readonly Place[] {
  const areas = pieces.map(areaOf);
  const all = areas.reduce((sum, area) => sum + area, 0);
  const main = areas.indexOf(Math.max(...areas));
  if (areas[main]! < MAIN * all) return inRows(pieces, Math.max(ONE_ROW, Math.sqrt(all * ASPECT)));
  const others = pieces.filter((_, at) => at !== main);
  const beside = pieces[main]!.result.width + 2 * PART_GAP;
  const places = inRows(others, (all - areas[main]!) / tallness(pieces[main]!)).map(
    ({ left, top }): Place => ({ left: beside + left, top }),
  );
  return [...places.slice(0, main), { left: 0, top: 0 }, ...places.slice(main)];
}

function inRows(pieces: readonly Piece[], width: number): Place[] {
  const room = Math.max(width, ...pieces.map(({ result }) => result.width));
  let left = 0;
  let top = 0;
  let line = 0;
  return pieces.map((piece): Place => {
    if (left > 0 && left + piece.result.width > room) {
      top += line + PART_GAP;
      left = line = 0;
    }
    const place = { left, top };
    line = Math.max(line, tallness(piece));
    left += piece.result.width + PART_GAP;
    return place;
  });
}

function merged(
  input: LayeredInput,
  pieces: readonly Piece[],
  whole: LayeredResult,
): LayeredResult {
  const places = arranged(pieces);
  const x = new Float64Array(input.width.length);
  const y = new Float64Array(input.width.length);
  const reversed = new Uint8Array(input.source.length);
  const shared = new Int32Array(input.source.length);
  const routes: Float32Array[] = input.source.length === 0 ? [] : Array(input.source.length);
  let width = 0;
  let bottom = 0;
  for (const [at, { nodes, edges, result }] of pieces.entries()) {
    const { left, top } = places[at]!;
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
    bottom = Math.max(bottom, result.bottom + dy);
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
    bottom,
    reversed,
    start,
    points,
    shared,
    columns: 1,
    crossings: pieces.reduce((sum, { result }) => sum + result.crossings, 0),
  };
}
