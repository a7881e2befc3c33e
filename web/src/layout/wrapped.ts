/**
 * Long chains in columns: a layered drawing that is far taller than wide is cut between layers, and
 * the parts are placed side by side, like the columns of a newspaper.
 *
 * Invariant: boxes keep their order, sizes and distances within a column; an edge to the next
 * column runs below its own column, up between the two, and enters the next column from above.
 */

import { clamp } from "@/base/geometry";
import type { LayeredInput, LayeredResult } from "@/layout/layered";

/** Drawings up to this height, in px, stay in one column if the window size is unknown. */
export const ONE_COLUMN = 980;
/** The columns together are about this many times as wide as they are tall. */
const ASPECT = 1.5;
/** A column is at least this tall, px. */
const LEAST_HEIGHT = 150;
const MOST_COLUMNS = 12;
/** A cut severs the edges of at most this many sources: more lines would be hard to follow. */
const MOST_LINES = 6;
const GUTTER = 36;
const LINE_GAP = 7;
/** Gap between a column and the nearest line below or above it, px. */
const CLEAR = 12;
/** How far from equal heights a cut may be, as a share of a column's height. */
const LEEWAY = 0.3;
/** Uneven columns must be lower than this share of the height of a single column. */
const PAYS = 0.9;

interface Band {
  readonly top: number;
  readonly bottom: number;
}

/** Cuts a drawing taller than `column`, in px, into columns; returns it unchanged if that fails. */
export function wrapColumns(
  input: LayeredInput,
  result: LayeredResult,
  column: number,
): LayeredResult {
  const height = result.bottom - result.top;
  if (input.upward || input.wantedY !== undefined || height <= column) return result;
  const wanted = Math.round(Math.sqrt((ASPECT * height) / Math.max(result.width, 1)));
  const columns = Math.min(wanted, MOST_COLUMNS, Math.floor(height / LEAST_HEIGHT));
  if (columns < 2) return result;
  const bands = bandsOf(input, result);
  const lines = linesAcross(input, result, bands.length);
  const even = cutsOf(result, bands, lines, columns);
  const cuts = even.length > 0 ? even : bestCut(result, bands, lines);
  return cuts.length === 0 ? result : inColumns(input, result, bands, cuts);
}

/** Top and bottom of each layer. */
function bandsOf(input: LayeredInput, result: LayeredResult): Band[] {
  const bands: { top: number; bottom: number }[] = [];
  result.rank.forEach((layer, node) => {
    const half = input.height[node]! / 2;
    const top = result.y[node]! - half;
    const bottom = result.y[node]! + half;
    const band = bands[layer];
    if (band === undefined) bands[layer] = { top, bottom };
    else {
      band.top = Math.min(band.top, top);
      band.bottom = Math.max(band.bottom, bottom);
    }
  });
  return bands;
}

/** The sources of edges that a cut above a layer severs. */
function severed(input: LayeredInput, result: LayeredResult, layer: number): number[] {
  const sources = new Set<number>();
  input.source.forEach((source, edge) => {
    const a = result.rank[source]!;
    const b = result.rank[input.target[edge]!]!;
    if (Math.min(a, b) < layer && Math.max(a, b) >= layer) sources.add(source);
  });
  return [...sources].sort((a, b) => result.x[a]! - result.x[b]!);
}

/** By layer, the number of sources with edges across a cut above it; backward edges forbid it. */
function linesAcross(input: LayeredInput, result: LayeredResult, layers: number): Int32Array {
  const last = new Int32Array(input.width.length).fill(-1);
  const change = new Int32Array(layers + 1);
  input.source.forEach((source, edge) => {
    const from = result.rank[source]!;
    const to = result.rank[input.target[edge]!]!;
    if (from < to) last[source] = Math.max(last[source]!, to);
    else if (from > to) {
      change[to + 1]! += MOST_LINES + 1;
      change[from + 1]! -= MOST_LINES + 1;
    }
  });
  last.forEach((to, source) => {
    if (to < 0) return;
    change[result.rank[source]! + 1]! += 1;
    change[to + 1]! -= 1;
  });
  let lines = 0;
  return Int32Array.from({ length: layers }, (_, layer) => (lines += change[layer]!));
}

/** The first layer of each column after the first; empty if there is no good place to cut. */
function cutsOf(
  result: LayeredResult,
  bands: readonly Band[],
  lines: Int32Array,
  columns: number,
): number[] {
  const tall = (result.bottom - result.top) / columns;
  const cuts: number[] = [];
  let from = result.top;
  for (let column = 1; column < columns; column++) {
    if (result.bottom - from < 1.4 * tall) break;
    let best = -1;
    let least = Number.POSITIVE_INFINITY;
    for (let layer = (cuts.at(-1) ?? 0) + 1; layer < bands.length; layer++) {
      const off = Math.abs(bands[layer]!.top - from - tall) / tall;
      if (off > LEEWAY || lines[layer]! > MOST_LINES) continue;
      const badness = lines[layer]! + 3 * off;
      if (badness < least) {
        least = badness;
        best = layer;
      }
    }
    if (best < 0) return [];
    cuts.push(best);
    from = bands[best]!.top;
  }
  return cuts;
}

/** The cut into the two lowest columns, if it pays; for a drawing that is mostly one tall box. */
function bestCut(result: LayeredResult, bands: readonly Band[], lines: Int32Array): number[] {
  let best = -1;
  let least = PAYS * (result.bottom - result.top);
  for (let layer = 1; layer < bands.length; layer++) {
    const { top } = bands[layer]!;
    const tallest = Math.max(top - result.top, result.bottom - top);
    if (lines[layer]! > MOST_LINES || tallest >= least) continue;
    least = tallest;
    best = layer;
  }
  return best < 0 ? [] : [best];
}

interface Column {
  /** First layer; the column ends before the first layer of the next one. */
  readonly first: number;
  readonly top: number;
  readonly bottom: number;
  readonly left: number;
  readonly right: number;
  /** How far the column is moved, px. */
  dx: number;
  dy: number;
  /** Sources of the edges that come from the previous column. */
  readonly sources: readonly number[];
}

function inColumns(
  input: LayeredInput,
  result: LayeredResult,
  bands: readonly Band[],
  cuts: readonly number[],
): LayeredResult {
  const columnOf = Int32Array.from(bands, (_, layer) => cuts.filter((cut) => cut <= layer).length);
  const columns = [0, ...cuts].map((first, at): Column => {
    const last = (cuts[at] ?? bands.length) - 1;
    const [left, right] = extent(input, result, bands, first, last);
    const sources = at === 0 ? [] : severed(input, result, first);
    const { top } = bands[first]!;
    return { first, top, bottom: bands[last]!.bottom, left, right, dx: 0, dy: 0, sources };
  });
  const above = Math.max(...columns.map(({ sources }) => room(sources.length)));
  let x = 0;
  columns.forEach((column, at) => {
    if (at > 0) x += GUTTER + room(column.sources.length);
    column.dx = x - column.left;
    column.dy = (at === 0 ? 0 : above) - column.top;
    x += column.right - column.left;
  });
  const moved = (layer: number): Column => columns[columnOf[layer]!]!;
  const routes = rerouted(input, result, columns, columnOf, bands);
  const bottom = Math.max(
    ...columns.map((column, at) => {
      const below = columns[at + 1]?.sources.length ?? 0;
      return column.bottom + column.dy + room(below);
    }),
  );
  return {
    ...result,
    x: result.x.map((old, node) => old + moved(result.rank[node]!).dx),
    y: result.y.map((old, node) => old + moved(result.rank[node]!).dy),
    width: x,
    top: 0,
    bottom,
    columns: columns.length,
    ...routes,
  };
}

function room(lines: number): number {
  return lines === 0 ? 0 : CLEAR + LINE_GAP * lines;
}

/** The leftmost and rightmost point of some layers: of boxes, and of lines beside them. */
function extent(
  input: LayeredInput,
  result: LayeredResult,
  bands: readonly Band[],
  first: number,
  last: number,
): [number, number] {
  let left = Number.POSITIVE_INFINITY;
  let right = Number.NEGATIVE_INFINITY;
  result.rank.forEach((layer, node) => {
    if (layer < first || layer > last) return;
    left = Math.min(left, result.x[node]! - input.width[node]! / 2);
    right = Math.max(right, result.x[node]! + input.width[node]! / 2);
  });
  const top = bands[first]!.top - 0.5;
  const bottom = bands[last]!.bottom + 0.5;
  for (let at = 0; at < result.points.length; at += 2) {
    const y = result.points[at + 1]!;
    if (y < top || y > bottom) continue;
    left = Math.min(left, result.points[at]! - 4);
    right = Math.max(right, result.points[at]! + 4);
  }
  return [left, right];
}

/** Moves all edges with their columns, and routes them from one column to the next. */
function rerouted(
  input: LayeredInput,
  result: LayeredResult,
  columns: readonly Column[],
  columnOf: Int32Array,
  bands: readonly Band[],
): Pick<LayeredResult, "start" | "points" | "shared"> {
  const tops = Float64Array.from(bands, ({ top }) => top);
  const columnAt = (y: number): number => columnOf[layerAt(tops, y)]!;
  const edges = input.source.length;
  const start = new Int32Array(edges + 1);
  const shared = new Int32Array(edges);
  const points: number[] = [];
  for (let edge = 0; edge < edges; edge++) {
    let before = -1;
    for (let at = result.start[edge]!; at < result.start[edge + 1]!; at++) {
      const column = columnAt(result.points[2 * at + 1]!);
      const x = result.points[2 * at]! + columns[column]!.dx;
      const y = result.points[2 * at + 1]! + columns[column]!.dy;
      for (let next = before + 1; before >= 0 && next <= column; next++) {
        const from = columns[next - 1]!;
        const to = columns[next]!;
        const line = 1 + Math.max(to.sources.indexOf(input.source[edge]!), 0);
        const low = from.bottom + from.dy + CLEAR + LINE_GAP * (to.sources.length - line);
        const high = to.top + to.dy - CLEAR - LINE_GAP * (line - 1);
        const lane = to.left + to.dx - GUTTER / 2 - LINE_GAP * (to.sources.length - line);
        const enter = next === column ? x : clamp(x, to.left + to.dx, to.right + to.dx);
        points.push(points.at(-2)!, low, lane, low, lane, high, enter, high);
        if (next < column) points.push(enter, to.bottom + to.dy);
      }
      points.push(x, y);
      before = column;
      if (at - result.start[edge]! === result.shared[edge]!) {
        shared[edge] = points.length / 2 - 1 - start[edge]!;
      }
    }
    start[edge + 1] = points.length / 2;
  }
  return { start, points: Float32Array.from(points), shared };
}

/** The last layer whose top is not below y. */
function layerAt(tops: Float64Array, y: number): number {
  let low = 0;
  let high = tops.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle]! <= y + 0.25) low = middle;
    else high = middle - 1;
  }
  return low;
}
