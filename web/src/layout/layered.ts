/**
 * Layered layout of one group: cycles, layers, order, coordinates, routes.
 *
 * Invariant: deterministic; boxes never overlap; a route alternates straight pieces (inside a
 * layer) and curved ones (between layers), first and last straight, so that no curve meets a box.
 */

import { inGrids } from "@/layout/grid";
import { insertDummies, type Layered, orderLayers } from "@/layout/order";
import { placeInLayers, placeLayers } from "@/layout/position";
import { breakCycles, type Directed, PIN_FIRST, PIN_LAST, rankNodes } from "@/layout/rank";

export interface LayeredInput {
  readonly width: Float64Array;
  readonly height: Float64Array;
  /** PIN_NONE, PIN_FIRST or PIN_LAST by node. */
  readonly pin: Uint8Array;
  readonly source: Int32Array;
  readonly target: Int32Array;
  /** Where an edge leaves and enters, from the centre of its node's side. */
  readonly sourceOffset: Float32Array;
  readonly targetOffset: Float32Array;
  /** By node: 1 if its incoming edges arrive side by side instead of all in the middle. */
  readonly spread: Uint8Array;
  readonly nodeGap: number;
  readonly layerGap: number;
  /** Gap beside pinned layers. */
  readonly portGap: number;
  /** The flow goes from bottom to top. */
  readonly upward: boolean;
  /** Wanted centre by node, level with its counterpart; NaN for none. */
  readonly wantedY: Float64Array | undefined;
}

export interface LayeredResult {
  /** Centres. The drawing begins at x = 0 and, without `wantedY`, at y = 0. */
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly rank: Int32Array;
  readonly width: number;
  readonly top: number;
  readonly bottom: number;
  readonly reversed: Uint8Array;
  /** Edge e has points `start[e]` to `start[e + 1] - 1`, from source to target; x, y per point. */
  readonly start: Int32Array;
  readonly points: Float32Array;
  /** By edge: leading points that another edge of the same source already draws. */
  readonly shared: Int32Array;
  readonly crossings: number;
  /** Number of columns that the layers are split into, see `wrapColumns`. */
  readonly columns: number;
}

const LANE_GAP = 20;

export function layoutLayered(input: LayeredInput): LayeredResult {
  const count = input.width.length;
  const graph = breakCycles(count, input.source, input.target);
  const ranked = rankNodes(graph, input.pin);
  const ranking = input.wantedY === undefined ? inGrids(graph, ranked, input) : ranked;
  const layered = insertDummies(graph, ranking);
  const order = orderLayers(layered, count);
  const { leave, enter } = orientedOffsets(input, graph);
  const x = placeInLayers({
    count,
    layered,
    order,
    topological: ranking.topological,
    width: input.width,
    sourceOffset: leave,
    targetOffset: enter,
    trunkOffset: trunkOffsets(graph, layered, leave),
    nodeGap: input.nodeGap,
  });
  const lines = layerLines(input, layered, ranking.rank);
  let left = Number.POSITIVE_INFINITY;
  let right = Number.NEGATIVE_INFINITY;
  for (let v = 0; v < layered.total; v++) {
    const half = v < count ? input.width[v]! / 2 : 2;
    left = Math.min(left, x[v]! - half);
    right = Math.max(right, x[v]! + half);
  }
  if (count === 0) left = right = 0;
  for (let v = 0; v < layered.total; v++) x[v]! -= left;
  const y = Float64Array.from(
    ranking.rank,
    (layer) => (lines.top[layer]! + lines.bottom[layer]!) / 2,
  );
  const arrival = spreadArrivals(input, graph, layered, x, leave, enter);
  const routes = routeEdges(input, graph, layered, x, y, lines, leave, arrival, right - left);
  const lanes = layered.lane.includes(1) ? 6 * LANE_GAP : 0;
  const first = input.upward ? layered.layers - 1 : 0;
  const last = input.upward ? 0 : layered.layers - 1;
  return {
    x: x.slice(0, count),
    y,
    rank: ranking.rank,
    width: right - left + lanes,
    top: lines.top[first] ?? 0,
    bottom: lines.bottom[last] ?? 0,
    reversed: graph.reversed,
    crossings: order.crossings,
    columns: 1,
    ...routes,
  };
}

/** Offsets in flow direction: a reversed edge leaves where it would enter. */
function orientedOffsets(
  input: LayeredInput,
  graph: Directed,
): { leave: Float32Array; enter: Float32Array } {
  const leave = input.sourceOffset.slice();
  const enter = input.targetOffset.slice();
  for (let edge = 0; edge < leave.length; edge++) {
    if (graph.reversed[edge] === 0) continue;
    leave[edge] = input.targetOffset[edge]!;
    enter[edge] = input.sourceOffset[edge]!;
  }
  return { leave, enter };
}

function trunkOffsets(graph: Directed, layered: Layered, leave: Float32Array): Float32Array {
  const offsets = new Float32Array(graph.count);
  const length = new Int32Array(graph.count).fill(1);
  for (let edge = 0; edge < leave.length; edge++) {
    const from = graph.source[edge]!;
    const span = layered.layerOf[graph.target[edge]!]! - layered.layerOf[from]!;
    if (layered.lane[edge] === 1 || span <= length[from]!) continue;
    length[from] = span;
    offsets[from] = leave[edge]!;
  }
  return offsets;
}

interface Lines {
  readonly top: Float64Array;
  readonly bottom: Float64Array;
}

/** Top and bottom of each layer, in the order of ranks. */
function layerLines(input: LayeredInput, layered: Layered, rank: Int32Array): Lines {
  const { layers } = layered;
  const heights = new Float64Array(layers);
  const pinned = new Uint8Array(layers);
  const sum = new Float64Array(layers);
  const wishes = new Int32Array(layers);
  for (let node = 0; node < rank.length; node++) {
    const layer = rank[node]!;
    heights[layer] = Math.max(heights[layer]!, input.height[node]!);
    if (input.pin[node] === PIN_FIRST || input.pin[node] === PIN_LAST) pinned[layer] = 1;
    const wish = input.wantedY?.[node] ?? Number.NaN;
    if (Number.isNaN(wish)) continue;
    sum[layer]! += wish;
    wishes[layer]! += 1;
  }
  const at = (line: number): number => (input.upward ? layers - 1 - line : line);
  const ordered = Float64Array.from(heights, (_, line) => heights[at(line)]!);
  const gaps = Float64Array.from(heights, (_, line) => {
    const port = pinned[at(line)] === 1 || (line + 1 < layers && pinned[at(line + 1)] === 1);
    return port ? input.portGap : input.layerGap;
  });
  const wanted =
    input.wantedY === undefined
      ? undefined
      : Float64Array.from(heights, (_, line) => sum[at(line)]! / wishes[at(line)]!);
  const tops = placeLayers(ordered, gaps, wanted);
  const top = new Float64Array(layers);
  const bottom = new Float64Array(layers);
  for (let line = 0; line < layers; line++) {
    top[at(line)] = tops[line]!;
    bottom[at(line)] = tops[line]! + ordered[line]!;
  }
  return { top, bottom };
}

const SPREAD_STEP = 10;
const STRAIGHT = 2;

/**
 * Where edges arrive: an edge from directly above stays in the middle, others move to the side that
 * they come from, so that arrows into one node can be told apart.
 */
function spreadArrivals(
  input: LayeredInput,
  graph: Directed,
  layered: Layered,
  x: Float64Array,
  leave: Float32Array,
  enter: Float32Array,
): Float32Array {
  const arrival = enter.slice();
  const before = (edge: number): number => {
    const from = graph.source[edge]!;
    const span = layered.layerOf[graph.target[edge]!]! - layered.layerOf[from]!;
    return span > 1 && layered.lane[edge] === 0
      ? x[layered.trunk[from]! + span - 2]!
      : x[from]! + leave[edge]!;
  };
  for (let node = 0; node < graph.count; node++) {
    if (input.spread[node] === 0) continue;
    const { offset, edges } = graph.incoming;
    const into = Array.from(edges.subarray(offset[node]!, offset[node + 1]!));
    if (into.length < 2) continue;
    const room = input.width[node]! / 2 - 10;
    const middle = x[node]!;
    into.sort((a, b) => before(a) - before(b) || a - b);
    const leftward = into.filter((edge) => before(edge) < middle - STRAIGHT).reverse();
    const rightward = into.filter((edge) => before(edge) > middle + STRAIGHT);
    const straight = into.length > leftward.length + rightward.length;
    for (const [side, sign] of [
      [leftward, -1],
      [rightward, 1],
    ] as const) {
      const step = Math.min(SPREAD_STEP, room / Math.max(1, side.length));
      const first = straight || (leftward.length > 0 && rightward.length > 0) ? 1 : 0;
      side.forEach((edge, k) => {
        arrival[edge] = enter[edge]! + sign * step * (k + first);
      });
    }
  }
  return arrival;
}

interface Routes {
  readonly start: Int32Array;
  readonly points: Float32Array;
  readonly shared: Int32Array;
}

function routeEdges(
  input: LayeredInput,
  graph: Directed,
  layered: Layered,
  x: Float64Array,
  y: Float64Array,
  lines: Lines,
  leave: Float32Array,
  arrival: Float32Array,
  width: number,
): Routes {
  const { source, target, reversed } = graph;
  const { layerOf, trunk, lane } = layered;
  const edges = source.length;
  const start = new Int32Array(edges + 1);
  const span = (edge: number): number => layerOf[target[edge]!]! - layerOf[source[edge]!]!;
  for (let edge = 0; edge < edges; edge++) {
    const steps = lane[edge] === 1 ? 2 : Math.max(1, span(edge));
    start[edge + 1] = start[edge]! + (span(edge) < 1 ? 0 : 2 + 2 * steps);
  }
  const points = new Float32Array(2 * start[edges]!);
  const shared = new Int32Array(edges);
  const longest = new Map<number, number>();
  const exit = (layer: number): number => (input.upward ? lines.top : lines.bottom)[layer]!;
  const entry = (layer: number): number => (input.upward ? lines.bottom : lines.top)[layer]!;
  const sign = input.upward ? -1 : 1;
  for (let edge = 0; edge < edges; edge++) {
    const steps = span(edge);
    if (steps < 1) continue;
    const from = source[edge]!;
    const to = target[edge]!;
    let at = 2 * start[edge]!;
    const put = (px: number, py: number): void => {
      points[at++] = px;
      points[at++] = py;
    };
    const leaveX = x[from]! + leave[edge]!;
    put(leaveX, y[from]! + (sign * input.height[from]!) / 2);
    put(leaveX, exit(layerOf[from]!));
    if (lane[edge] === 1) {
      const laneX = width + LANE_GAP + (edge % 16) * 5;
      put(laneX, exit(layerOf[from]!) + sign * input.layerGap);
      put(laneX, entry(layerOf[to]!) - sign * input.layerGap);
    } else {
      for (let k = 0; k < steps - 1; k++) {
        const dummy = trunk[from]! + k;
        put(x[dummy]!, entry(layerOf[dummy]!));
        put(x[dummy]!, exit(layerOf[dummy]!));
      }
      const rival = longest.get(from);
      if (rival === undefined || span(rival) < steps) longest.set(from, edge);
    }
    const enterX = x[to]! + arrival[edge]!;
    put(enterX, entry(layerOf[to]!));
    put(enterX, y[to]! - (sign * input.height[to]!) / 2);
    if (reversed[edge] === 1) reversePoints(points, start[edge]!, start[edge + 1]!);
  }
  for (let edge = 0; edge < edges; edge++) {
    // The trunk is drawn once, by its longest edge; the others begin where they branch off.
    const steps = span(edge);
    if (steps < 2 || lane[edge] === 1 || reversed[edge] === 1) continue;
    if (longest.get(source[edge]!) !== edge) shared[edge] = 2 * (steps - 1);
  }
  return { start, points, shared };
}

function reversePoints(points: Float32Array, begin: number, end: number): void {
  for (let a = begin, b = end - 1; a < b; a++, b--) {
    for (let axis = 0; axis < 2; axis++) {
      const kept = points[2 * a + axis]!;
      points[2 * a + axis] = points[2 * b + axis]!;
      points[2 * b + axis] = kept;
    }
  }
}
