/**
 * Edges: width by bytes, dashed until a value has flowed, dashed and magenta if it is not finite.
 *
 * Invariant: a trunk shared by several edges is drawn once; edges between the columns are stubs.
 */

import { textWidth } from "@/base/fonts_metrics";
import { clamp, grow, overlaps, type Rect } from "@/base/geometry";
import { COLUMN_BACKWARD } from "@/layout/hierarchy";
import { SMALL_MONO, SMALL_SANS, shapeText } from "@/layout/sizes";
import { BOX_SCOPE, EDGE_BACK, isOrder, LINK_SEED } from "@/layout/types";
import { type Drawing, detailAt, type EdgeLabel } from "@/render/draw/draw";
import { drawFarEnds } from "@/render/draw/draw_far_reads";
import { isNotFinite } from "@/render/draw/execution_overlay";
import { formatBytes } from "@/render/draw/format";
import type { Route, Stroke } from "@/render/paint/painter";
import type { SceneModel } from "@/render/scene/model";

/** Line width in px for a tensor of this size: about one more for each factor of ten. */
export function edgeWidth(bytes: number): number {
  return clamp(1.1 + 0.3 * Math.log2(1 + bytes / 4096), 1.1, 6.5);
}

export function edgeRoute(model: SceneModel, edge: number, whole: boolean): Route {
  const { start, shared, points } = model.scene;
  const skip = whole ? 0 : shared[edge]!;
  return {
    points,
    start: start[edge]! + skip,
    end: start[edge + 1]!,
    straightFirst: skip % 2 === 0,
  };
}

function edgeStroke(drawing: Drawing, edge: number): Stroke {
  const { palette, model, live, zoom } = drawing;
  const { producer, bytes, edgeFlags } = model.scene;
  const node = producer[edge]!;
  const done = live.done[node] === 1;
  const width = Math.max(edgeWidth(bytes[edge]!), 1 / zoom);
  if (isOrder(model.scene.value[edge]!)) {
    const colour = palette[done ? "text-3" : "line-node"];
    return { colour, width: Math.max(1.3, 1 / zoom), dash: "dotted" };
  }
  const bad = isNotFinite(live.flags[node]!);
  const colour = bad ? palette.nan : palette[done ? "text-off" : "line-strong"];
  if (!done || bad) {
    return { colour, width: Math.max(Math.min(width, 2), 1 / zoom), dash: "dashed" };
  }
  return (edgeFlags[edge]! & EDGE_BACK) !== 0
    ? { colour, width, dash: "dashed" }
    : { colour, width };
}

/**
 * The part of a route near the view. Otherwise a line of 300,000 px of which a hundredth is in view
 * would be stroked whole, dashes included. Points far outside move to a border that stays fixed
 * while the view moves a little, so that dashes do not crawl.
 */
export function routeNear(route: Route, view: Rect): Route {
  const { points, start, end } = route;
  const [left, right] = clipped(view.x, view.width);
  const [top, bottom] = clipped(view.y, view.height);
  let inside = true;
  for (let at = start; inside && at < end; at++) {
    const x = points[2 * at]!;
    const y = points[2 * at + 1]!;
    inside = x >= left && x <= right && y >= top && y <= bottom;
  }
  if (inside) return route;
  const near = new Float32Array(2 * (end - start));
  for (let at = start; at < end; at++) {
    near[2 * (at - start)] = clamp(points[2 * at]!, left, right);
    near[2 * (at - start) + 1] = clamp(points[2 * at + 1]!, top, bottom);
  }
  return { points: near, start: 0, end: end - start, straightFirst: route.straightFirst };
}

/** A border at least two view lengths outside the view, at multiples of a power of two. */
function clipped(from: number, length: number): [number, number] {
  const grid = 2 ** Math.ceil(Math.log2(Math.max(length, 1)));
  return [grid * (Math.floor(from / grid) - 2), grid * (Math.ceil((from + length) / grid) + 2)];
}

/** With more edges than this in view, each is a hairline, and a sample of them looks the same. */
const MOST_EDGES = 6000;

export function drawEdges(drawing: Drawing): void {
  const { painter, model, view, zoom, matches } = drawing;
  const { scene } = model;
  // Below this, lines between rows become an uninformative grey.
  if (zoom < 0.08) return;
  const edges = model.edgesIn(view);
  const step = Math.ceil(edges.length / MOST_EDGES);
  painter.alpha(matches === undefined ? 0.85 : 0.3);
  for (let at = 0; at < edges.length; at += step) {
    const edge = edges[at]!;
    const parent = scene.parent[scene.source[edge]!] ?? -1;
    if (parent >= 0 && scene.height[parent]! * zoom < 28) continue;
    painter.route(routeNear(edgeRoute(model, edge, false), view), edgeStroke(drawing, edge));
    if (detailAt(zoom) === "near") drawUpwardHead(drawing, edge);
  }
  painter.alpha(1);
  drawLinks(drawing);
  if (detailAt(zoom) !== "near") return;
  drawStubs(drawing);
  drawFarEnds(drawing);
}

const STUB_LENGTH = 10;

/** A short dotted line at the side of each node whose values the backward pass reads. */
function drawStubs(drawing: Drawing): void {
  const { painter, palette, model, view } = drawing;
  for (const box of model.savedBoxes) {
    const rect = model.rect(box);
    if (!overlaps(rect, view)) continue;
    const x = rect.x + rect.width;
    const y = rect.y + rect.height / 2;
    painter.lines([x + 3, y, x + STUB_LENGTH, y], false, undefined, {
      colour: palette["line-node"],
      width: 1.5,
      dash: "dotted",
    });
  }
}

/** Flow is normally downward; where it runs up, a small arrowhead shows it. */
function drawUpwardHead(drawing: Drawing, edge: number): void {
  const { painter, palette, model } = drawing;
  const { start, points, target, kind } = model.scene;
  const end = start[edge + 1]! - 1;
  const y = points[2 * end + 1]!;
  if (points[2 * (end - 1) + 1]! < y + 0.5 && points[2 * (end - 2) + 1]! <= y) return;
  if (kind[target[edge]!] === BOX_SCOPE) return;
  const x = points[2 * end]!;
  painter.lines([x - 3.5, y + 5.5, x, y + 1.5, x + 3.5, y + 5.5], false, undefined, {
    colour: palette["line-node"],
    width: 1.3,
  });
}

function drawLinks(drawing: Drawing): void {
  const { painter, palette, model, live, zoom } = drawing;
  const { scene, hierarchy } = model;
  for (let at = 0; at < scene.links.length; at += 3) {
    const from = model.rect(scene.links[at + 1]!);
    const to = model.rect(scene.links[at + 2]!);
    const seed = scene.links[at] === LINK_SEED;
    const gradients = hierarchy.groupAt.get("optimizer");
    const done = seed
      ? live.done[hierarchy.seed[1]] === 1
      : gradients !== undefined && live.groupDone[gradients] === 1;
    const stroke: Stroke = {
      colour: palette[done ? "text-off" : "line-strong"],
      width: Math.max(1.5, 0.7 / zoom),
      dash: "dashed",
    };
    const column = model.rect(outermost(scene.parent, scene.links[at + 2]!));
    painter.lines(linkPoints(from, to, seed, column), false, undefined, stroke);
    if (to.y + to.height > from.y) continue;
    const x = to.x + to.width / 2;
    const y = to.y + to.height;
    painter.lines([x - 3.5, y + 5.5, x, y + 1.5, x + 3.5, y + 5.5], false, undefined, {
      colour: palette["line-node"],
      width: 1.3,
    });
  }
}

function outermost(parent: Int32Array, box: number): number {
  let at = box;
  while (parent[at]! >= 0) at = parent[at]!;
  return at;
}

/**
 * The points of a link from the side of one box to the side of the other, or up into it from below.
 * The link bends left of `column`, which contains `to`, so that it does not cross its other boxes.
 */
export function linkPoints(from: Rect, to: Rect, seed: boolean, column: Rect = to): number[] {
  const right = from.x + from.width;
  if (to.y + to.height <= from.y) {
    const x = to.x + to.width / 2;
    const y = from.y + from.height / 2;
    const above = x >= from.x && x <= right;
    return above && !seed
      ? [x, from.y, x, to.y + to.height]
      : [x < from.x ? from.x : right, y, x, y, x, to.y + to.height];
  }
  const startY = clamp(
    seed ? from.y + from.height / 2 : to.y + to.height / 2,
    from.y + 10,
    from.y + from.height - 10,
  );
  const endY = clamp(startY, to.y + 10, to.y + to.height - 10);
  const bend = column.x - 24;
  return startY === endY
    ? [right, startY, to.x, endY]
    : [right, startY, bend, startY, bend, endY, to.x, endY];
}

/** A dotted line from a forward node to the backward nodes that read its saved values. */
export function drawSaved(drawing: Drawing, node: number): void {
  const { painter, palette, model } = drawing;
  const { hierarchy } = model;
  const from = model.visibleBox(node);
  if (from < 0) return;
  const drawn = new Set<number>();
  const { crossing } = hierarchy;
  for (let at = 0; at < crossing.length; at += 2) {
    if (crossing[at] !== node) continue;
    const reader = crossing[at + 1]!;
    if (hierarchy.groups[hierarchy.groupOf[reader]!]!.column !== COLUMN_BACKWARD) continue;
    const to = model.visibleBox(reader);
    if (to < 0 || drawn.has(to) || drawn.size >= 6) continue;
    drawn.add(to);
    const a = model.rect(from);
    const b = model.rect(to);
    const y0 = a.y + a.height / 2;
    const y1 = b.y + b.height / 2;
    const bend = b.x - 18;
    const stroke: Stroke = { colour: palette["line-node"], width: 1.5, dash: "dotted" };
    const start = a.x + a.width + 4;
    const lane = freeLane(model, from, start, bend, y0);
    const out = lane === y0 ? [start, y0] : [start, y0, start + 4, y0, start + 4, lane];
    painter.lines(
      lane === y0 && Math.abs(y0 - y1) < 2
        ? [start, y0, b.x, y0]
        : [...out, bend, lane, bend, y1, b.x, y1],
      false,
      undefined,
      stroke,
    );
    if (drawn.size === 1 && bend - start > 60 && detailAt(drawing.zoom) === "near") {
      const occupied = drawing.labels.map((label) => label.rect);
      const words = savedWords(model, start, bend, lane, occupied);
      if (words !== undefined) {
        painter.text(words.x, words.y + WORDS_BASE, "saved", SMALL_SANS, palette["text-3"]);
      }
    }
  }
}

const WORDS_BASE = 9;

/** The position of the word `saved` above or below a horizontal line, as far right as possible. */
export function savedWords(
  model: SceneModel,
  start: number,
  end: number,
  lane: number,
  occupied: readonly Rect[],
): Rect | undefined {
  const width = textWidth("saved", SMALL_SANS);
  for (let x = end - 8 - width; x >= start + 6; x -= width) {
    for (const y of [lane - 5 - WORDS_BASE, lane + 4]) {
      const rect = { x, y, width, height: WORDS_BASE + 3 };
      if (!coversBox(model, grow(rect, 1)) && !occupied.some((other) => overlaps(other, rect))) {
        return rect;
      }
    }
  }
  return undefined;
}

/** A y at which a horizontal line from `start` to `end` crosses no node; `y` if free or none is. */
export function freeLane(
  model: SceneModel,
  from: number,
  start: number,
  end: number,
  y: number,
): number {
  const inTheWay = (lane: number) =>
    model
      .boxesIn({ x: start, y: lane - 2, width: end - start, height: 4 })
      .filter((box) => box !== from && model.scene.kind[box] !== BOX_SCOPE)
      .map((box) => model.rect(box));
  const first = inTheWay(y);
  if (first.length === 0) return y;
  const below = Math.max(...first.map((rect) => rect.y + rect.height)) + 7;
  const above = Math.min(...first.map((rect) => rect.y)) - 7;
  return [below, above].find((lane) => inTheWay(lane).length === 0) ?? y;
}

export function edgeWords(model: SceneModel, edge: number): { shape: string; size: string } {
  const { value, bundle, bytes } = model.scene;
  if (isOrder(value[edge]!)) return { shape: "runs before", size: "" };
  const size = bytes[edge] ? formatBytes(bytes[edge]) : "";
  if (bundle[edge]! > 1) return { shape: `${bundle[edge]} values`, size };
  const carried = model.hierarchy.values.get(value[edge]!);
  if (carried?.type !== undefined) return { shape: carried.type, size };
  const shape = shapeText(carried?.shape ?? []);
  const known = carried?.shape.every((length) => length !== null) ?? true;
  return { shape: shape === "" ? "scalar" : shape, size: known ? size : "" };
}

/** Labels of straight edges that touch no box and no other edge. Computed once per scene. */
export function placeLabels(model: SceneModel): readonly EdgeLabel[] {
  const { scene } = model;
  const labels: EdgeLabel[] = [];
  if (scene.edges > 5000) return labels;
  for (let edge = 0; edge < scene.edges; edge++) {
    if (scene.edgeFlags[edge] !== 0) continue;
    const begin = scene.start[edge]!;
    const end = scene.start[edge + 1]! - 1;
    const x = scene.points[2 * begin]!;
    if (Math.abs(scene.points[2 * end]! - x) > 3 || end - begin !== 3) continue;
    const y0 = scene.points[2 * begin + 1]!;
    const y1 = scene.points[2 * end + 1]!;
    if (Math.abs(y1 - y0) < 24) continue;
    const { shape, size } = edgeWords(model, edge);
    const gap = edgeWidth(scene.bytes[edge]!) / 2 + 6;
    const width = textWidth(`${shape}  ${size}`, SMALL_MONO);
    const middle = (y0 + y1) / 2;
    const rect = { x: x + gap - 2, y: middle - 7, width: width + 4, height: 14 };
    if (blocked(model, edge, rect) || labels.some((label) => overlaps(label.rect, rect))) continue;
    labels.push({ edge, x: x + gap, y: middle + 3.5, shape, size, rect });
  }
  return labels;
}

function blocked(model: SceneModel, edge: number, rect: Rect): boolean {
  return coversBox(model, rect) || model.edgesIn(rect).some((other) => other !== edge);
}

/** Whether text in `rect` would overlap a box, or the border or header of a scope. */
export function coversBox(model: SceneModel, rect: Rect): boolean {
  const { scene } = model;
  for (const box of model.boxesIn(rect)) {
    if (scene.kind[box] !== BOX_SCOPE) return true;
    // Inside a scope is fine; across its border is not.
    const scope = model.rect(box);
    const inside =
      rect.x > scope.x &&
      rect.x + rect.width < scope.x + scope.width &&
      rect.y > scope.y + 22 &&
      rect.y + rect.height < scope.y + scope.height;
    if (!inside) return true;
  }
  return false;
}

const RAISED_ROOM = 18;

export function drawLabels(drawing: Drawing): void {
  if (drawing.zoom < 0.75) return;
  const { painter, palette, model, live, view, raised } = drawing;
  // The current node grows for its badge, and has a ring around it.
  const grown = raised >= 0 ? grow(model.rect(raised), RAISED_ROOM) : undefined;
  for (const label of drawing.labels) {
    if (!overlaps(label.rect, view)) continue;
    if (grown !== undefined && overlaps(label.rect, grown)) continue;
    const done = live.done[model.scene.producer[label.edge]!] === 1;
    painter.text(label.x, label.y, label.shape, SMALL_MONO, palette[done ? "text-2" : "text-3"]);
    painter.text(
      label.x + textWidth(`${label.shape} `, SMALL_MONO) + 1,
      label.y,
      label.size,
      SMALL_MONO,
      palette["text-3"],
    );
  }
}
