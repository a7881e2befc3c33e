/**
 * The live overlay: current node, breakpoints, non-finite values, selection, hover.
 *
 * Invariant: one colour per meaning, and never colour alone: a ring and arrow, a dot, a diamond.
 */

import { type Font, textWidth, truncate, truncateMiddle } from "@/base/fonts_metrics";
import { clamp, grow, overlaps, type Rect } from "@/base/geometry";
import { printable } from "@/base/printable";
import {
  detailLines,
  HEADER_HEIGHT,
  LINE_HEIGHT,
  NABLA_WIDTH,
  nodeName,
  SMALL_MONO,
  TITLE_FONT,
} from "@/layout/sizes";
import { BOX_FAR, BOX_FOLD, BOX_NODE, BOX_SCOPE, EDGE_OUT_OF_SCOPE } from "@/layout/types";
import { nodeColour } from "@/render/draw/box_style";
import {
  type Drawing,
  detailAt,
  drawDiamond,
  drawNabla,
  type EdgeHover,
  type Marks,
} from "@/render/draw/draw";
import { coversBox, drawSaved, edgeRoute, edgeWidth, edgeWords } from "@/render/draw/draw_edges";
import { drawFarLines } from "@/render/draw/draw_far_reads";
import { clearHeader, drawHeaders } from "@/render/draw/draw_scopes";
import { drawWatches } from "@/render/draw/draw_watches";
import { FAILED, HAS_NAN, isNotFinite } from "@/render/draw/execution_overlay";
import { formatTime } from "@/render/draw/format";
import type { BreakpointMark } from "@/render/scene/types";

export function drawMarks(drawing: Drawing, marks: Marks): void {
  const { model } = drawing;
  const flow = marks.selection === undefined ? -1 : model.boxOf(marks.selection);
  drawFlow(drawing, marks, flow);
  if (marks.edge !== undefined) drawHoveredEdge(drawing, marks.edge.edge);
  // Headers again, above these lines: a line that enters a scope must not cross out its header.
  if (flow >= 0 || marks.edge !== undefined) drawHeaders(drawing, model.boxesIn(drawing.view));
  // The current node already has a ring; a selection ring would appear beside it.
  if (flow !== drawing.current) drawOutline(drawing, flow, "select");
  drawLinked(drawing, marks);
  if (marks.hover !== undefined) {
    drawOutline(drawing, model.boxOf(marks.hover), "hover");
    const { hover } = marks;
    if (hover.kind === "node") drawFarLines(drawing, model.hierarchy.indexOf.get(hover.id) ?? -1);
  }
  drawCurrent(drawing, marks);
  drawNotFinite(drawing);
  drawWatches(drawing, marks);
  drawBreakpoints(drawing, marks);
  if (marks.edge !== undefined) drawEdgeWords(drawing, marks.edge);
}

/** Outlines nodes related to a selection elsewhere; for a hidden node, the folded scope. */
function drawLinked(drawing: Drawing, marks: Marks): void {
  const { painter, palette, model, zoom } = drawing;
  const boxes = new Set([...marks.linked].map((id) => model.boxOf({ kind: "node", id })));
  for (const box of boxes) {
    if (box < 0) continue;
    const { x, y, width, height } = model.rect(box);
    painter.rect(x - 1, y - 1, width + 2, height + 2, 6, palette["select-wash"], {
      colour: palette["select-text"],
      width: Math.max(1.5, 1.2 / zoom),
    });
  }
}

function drawHoveredEdge(drawing: Drawing, edge: number): void {
  const { painter, palette, model, zoom } = drawing;
  if (edge >= model.scene.edges) return;
  painter.route(edgeRoute(model, edge, true), {
    colour: palette["text-2"],
    width: Math.max(edgeWidth(model.scene.bytes[edge]!), 2, 1.5 / zoom),
  });
}

/** Describes the values of an edge beside the pointer, at screen size. */
function drawEdgeWords(drawing: Drawing, { edge, at }: EdgeHover): void {
  const { painter, palette, model, zoom, view } = drawing;
  const { scene, hierarchy } = model;
  if (edge >= scene.edges) return;
  const { shape, size } = edgeWords(model, edge);
  const from = printable(hierarchy.nodes[scene.producer[edge]!]?.label ?? "", 60);
  const words = [from, shape, size].filter(Boolean).join(" · ");
  const font: Font = { ...SMALL_MONO, size: 10.5 / zoom };
  const width = textWidth(words, font) + 12 / zoom;
  const x = Math.min(at.x + 14 / zoom, view.x + view.width - width - 4 / zoom);
  const y = at.y - 9 / zoom;
  painter.rect(x, y, width, 19 / zoom, 4 / zoom, palette["bg-overlay"], {
    colour: palette["line-strong"],
    width: 1 / zoom,
  });
  painter.text(x + 6 / zoom, y + 13 / zoom, words, font, palette.text);
}

function drawOutline(drawing: Drawing, box: number, look: "select" | "hover"): void {
  if (box < 0) return;
  const { painter, palette, zoom } = drawing;
  const { x, y, width, height } = drawing.model.rect(box);
  const thick = Math.max(1.5, 1.2 / zoom);
  const radius = drawing.model.scene.kind[box] === BOX_SCOPE ? 8 : 6;
  if (look === "select") {
    painter.rect(x - 1, y - 1, width + 2, height + 2, radius, palette["select-wash"], {
      colour: palette.select,
      width: thick,
    });
  } else {
    painter.rect(x + 0.5, y + 0.5, width - 1, height - 1, radius - 1, undefined, {
      colour: palette["text-3"],
      width: 1,
    });
  }
}

/** Draws the edges of the selected box in the selection's colour, with shapes. */
function drawFlow(drawing: Drawing, marks: Marks, box: number): void {
  if (box < 0) return;
  const { painter, palette, model, zoom } = drawing;
  const { scene, hierarchy } = model;
  if (scene.kind[box] === BOX_SCOPE) return;
  const node = model.isGroup(box) ? -1 : scene.ref[box]!;
  const inputs = new Set(node < 0 ? [] : hierarchy.nodes[node]!.inputs);
  const column = node < 0 ? -1 : columnOf(drawing, node);
  const labels: Rect[] = drawing.labels.map((label) => label.rect);
  if (drawing.raised >= 0) labels.push(grow(raisedRect(drawing, marks, drawing.raised), 7));
  const labelled = new Set(drawing.labels.map((label) => label.edge));
  for (const edge of model.edgesIn(drawing.view)) {
    const source = scene.source[edge]!;
    const target = scene.target[edge]!;
    const leaves = source === box || (node >= 0 && scene.producer[edge] === node);
    // A value read from another column has no edge of its own.
    const feeds =
      target === box ||
      (inputs.has(scene.value[edge]!) &&
        columnOf(drawing, scene.producer[edge]!) === column &&
        (model.within(box, target) || (scene.edgeFlags[edge]! & EDGE_OUT_OF_SCOPE) !== 0));
    if (!leaves && !feeds) continue;
    painter.route(edgeRoute(model, edge, true), {
      colour: palette.select,
      width: Math.max(edgeWidth(scene.bytes[edge]!), 1.5, 1 / zoom),
    });
    if (target === box && scene.kind[source] === BOX_FAR) {
      drawFarLines(drawing, scene.ref[source]!, [source]);
    }
    const ends = source === box || target === box;
    if (ends && !labelled.has(edge) && detailAt(zoom) === "near") {
      drawEdgeLabel(drawing, edge, target === box, labels);
    }
  }
  if (node < 0) return;
  drawSaved(drawing, node);
  drawFarLines(drawing, node);
}

function columnOf(drawing: Drawing, node: number): number {
  const { groups, groupOf } = drawing.model.hierarchy;
  return groups[groupOf[node]!]!.column;
}

/** Labels an edge beside its box, on a patch that may cover a line but never a box. */
function drawEdgeLabel(drawing: Drawing, edge: number, into: boolean, labels: Rect[]): void {
  const { painter, palette, model } = drawing;
  const { start, points } = model.scene;
  const at = into ? start[edge + 1]! - 2 : start[edge]! + 1;
  const next = into ? at - 1 : at + 1;
  const x = points[2 * at]! * 0.72 + points[2 * next]! * 0.28;
  const y = points[2 * at + 1]! * 0.6 + points[2 * next + 1]! * 0.4;
  const { shape, size } = edgeWords(model, edge);
  const words = `${shape} ${size}`;
  const width = textWidth(words, SMALL_MONO);
  const rect: Rect = { x: x + 5, y: y - 6.5, width: width + 6, height: 13 };
  if (coversBox(model, rect) || labels.some((label) => overlaps(label, rect))) return;
  labels.push(rect);
  painter.rect(rect.x, rect.y, rect.width, rect.height, 3, palette["bg-overlay"]);
  painter.text(rect.x + 3, y + 3.5, words, SMALL_MONO, palette["select-text"]);
}

/**
 * Marks the right of boxes: a diamond if the last values contained NaN (magenta) or Inf (violet), a
 * cross on red if the node raised.
 */
function drawNotFinite(drawing: Drawing): void {
  const { painter, palette, model, live, view, zoom } = drawing;
  const { scene } = model;
  const radius = Math.max(4, 3 / zoom);
  for (const box of model.boxesIn(view)) {
    const kind = scene.kind[box]!;
    if (kind === BOX_SCOPE || box === drawing.raised) continue;
    const flags = (kind === BOX_FOLD ? live.groupFlags : live.flags)[scene.ref[box]!]!;
    const x = scene.x[box]! + scene.width[box]!;
    if ((flags & FAILED) !== 0) {
      const y = scene.y[box]! + scene.height[box]! / 2;
      const arm = radius * 0.5;
      const pen = { colour: palette["bg-canvas"], width: 1.5 };
      painter.circle(x, y, radius * 1.2, palette.break, pen);
      painter.lines([x - arm, y - arm, x + arm, y + arm], false, undefined, pen);
      painter.lines([x - arm, y + arm, x + arm, y - arm], false, undefined, pen);
      continue;
    }
    if (!isNotFinite(flags)) continue;
    const colour = (flags & HAS_NAN) !== 0 ? palette.nan : palette.inf;
    painter.lines(diamond(x, scene.y[box]! + scene.height[box]! / 2, radius), true, colour, {
      colour: palette["bg-canvas"],
      width: 1.5,
    });
  }
}

function diamond(x: number, y: number, radius: number): number[] {
  return [x, y - radius, x + radius, y, x, y + radius, x - radius, y];
}

const BADGE_HEIGHT = 17;
/** Room between the current node, with its ring, and the lower border of the scope around it. */
const SCOPE_ROOM = 6;
const CURRENT_FONT: Font = { ...TITLE_FONT, size: 13 };

/** The rectangle of the current node, grown for its badge, but within the enclosing scope. */
export function raisedRect(drawing: Drawing, marks: Marks, box: number): Rect {
  const rect = drawing.model.rect(box);
  const badge = marks.badge;
  const shows =
    badge !== undefined &&
    marks.current?.node === badge.node &&
    drawing.model.scene.kind[box] === BOX_NODE &&
    detailAt(drawing.zoom) === "near";
  if (!shows) return rect;
  const height = rect.height + BADGE_HEIGHT;
  const parent = drawing.model.scene.parent[box]!;
  if (parent < 0) return { ...rect, y: rect.y - BADGE_HEIGHT / 2, height };
  const scope = drawing.model.rect(parent);
  const lowest = scope.y + scope.height - SCOPE_ROOM - height;
  const highest = Math.min(rect.y, scope.y + HEADER_HEIGHT);
  return {
    ...rect,
    y: clamp(rect.y - BADGE_HEIGHT / 2, highest, Math.max(highest, lowest)),
    height,
  };
}

function drawCurrent(drawing: Drawing, marks: Marks): void {
  const { current } = marks;
  if (current === undefined) return;
  const { painter, palette, model, zoom } = drawing;
  const { scene } = model;
  const box = drawing.current;
  if (box < 0) return;
  if (model.scene.kind[box] === BOX_NODE) drawSaved(drawing, scene.ref[box]!);
  const rect = raisedRect(drawing, marks, box);
  const { x, y, width, height } = rect;
  const thick = Math.max(1, 1 / zoom);
  const halo = 3.5 * thick;
  clearHeader(drawing, box, grow(rect, halo + 2 * thick));
  painter.rect(x - halo, y - halo, width + 2 * halo, height + 2 * halo, 6 + halo, undefined, {
    colour: palette["now-ring"],
    width: 4 * thick,
  });
  const own = scene.kind[box] === BOX_NODE && detailAt(zoom) === "near";
  const ground = own ? palette["bg-overlay"] : undefined;
  // At lower detail, the name takes the full height, so the border is drawn outside the box.
  const border = own
    ? { x: x + 0.5, y: y + 0.5, width: width - 1, height: height - 1 }
    : grow(rect, 0.75 * thick);
  painter.rect(border.x, border.y, border.width, border.height, 6, ground, {
    colour: palette.now,
    width: 1.5 * thick,
    dash: current.live ? "solid" : "dashed",
  });
  if (own) drawCurrentWords(drawing, marks, scene.ref[box]!, rect);
  const size = 6 * thick;
  const middle = y + height / 2;
  const tip = x - 6 * thick;
  // Hollow: about to run. Filled: has run.
  const before = current.when === "before";
  painter.lines(
    [tip - size, middle - size * 0.85, tip, middle, tip - size, middle + size * 0.85],
    true,
    before ? palette["bg-canvas"] : palette.now,
    before ? { colour: palette.now, width: 1.3 * thick } : undefined,
  );
}

function drawCurrentWords(drawing: Drawing, marks: Marks, node: number, rect: Rect): void {
  const { painter, palette, model, live } = drawing;
  const { x, y, width, height } = rect;
  painter.rect(x + 3, y + 6, 2.5, height - 12, 1.2, nodeColour(drawing, node));
  const ns = live.durationNs[node]!;
  const time = ns > 0 ? formatTime(ns) : "";
  const timeWidth = time === "" ? 0 : textWidth(time, SMALL_MONO) + 10;
  const box = model.nodeBox[node]!;
  const nabla = model.gradientMark(box) ? NABLA_WIDTH + 1 : 0;
  if (nabla > 0) drawNabla(painter, x + 13, y + 16, palette.text);
  const label = printable(nodeName(model.hierarchy.nodes[node]!), 120);
  painter.text(
    x + 13 + nabla,
    y + 16.5,
    truncateMiddle(label, CURRENT_FONT, width - 22 - nabla - timeWidth),
    CURRENT_FONT,
    palette.text,
  );
  if (time !== "") {
    painter.text(x + width - 10, y + 16, time, SMALL_MONO, palette["text-2"], "right");
  }
  const lines = detailLines(model.hierarchy, node);
  lines.forEach((line, k) => {
    painter.text(
      x + 13,
      y + 29.5 + k * LINE_HEIGHT,
      truncate(line, SMALL_MONO, width - 23),
      SMALL_MONO,
      palette["text-3"],
    );
  });
  const badge = marks.badge;
  if (badge === undefined || badge.node !== model.hierarchy.nodes[node]!.id) return;
  drawBadge(drawing, badge, x + 13, y + height - 7, width - 23);
}

/** Draws a histogram or a scalar's value, and non-finite counts, on one line above `base`. */
function drawBadge(
  drawing: Drawing,
  badge: NonNullable<Marks["badge"]>,
  x: number,
  base: number,
  room: number,
): void {
  const { painter, palette } = drawing;
  let left = room;
  const flag = (count: number, name: string, look: "nan" | "inf"): void => {
    if (count === 0) return;
    const font: Font = { face: "sans", weight: 600, size: 10.5 };
    const words = `${count > 99999 ? "99999+" : count} ${name}`;
    const width = textWidth(words, font) + 22;
    if (width > left) return;
    const start = x + left - width;
    painter.rect(start, base - 15, width, 16, 3, palette[`${look}-wash`]);
    drawDiamond(painter, start + 9, base - 7, 4, palette[look]);
    painter.text(start + 17, base - 3.2, words, font, palette[`${look}-text`]);
    left -= width + 5;
  };
  flag(badge.nanCount, "NaN", "nan");
  flag(badge.infCount, "Inf", "inf");
  if (badge.text !== "") {
    const font: Font = { ...SMALL_MONO, size: 12 };
    painter.text(
      x,
      base - 3,
      truncateMiddle(printable(badge.text, 80), font, left),
      font,
      palette[badge.raised ? "break-text" : "now-text"],
    );
    return;
  }
  const bins = badge.histogram;
  const most = Math.max(...bins, 0);
  if (bins.length === 0 || most <= 0 || left < 20) return;
  const step = Math.min(6, left / bins.length);
  const bars: number[] = [];
  bins.forEach((count, k) => {
    const height = count > 0 ? 1 + 14 * (count / most) : 0.5;
    bars.push(x + k * step, base - height, Math.max(0.8, step - 1), height);
  });
  painter.blocks(bars, palette["text-off"]);
}

/** Draws a dot beside boxes with breakpoints: filled, hollow (disabled) or dotted (unverified). */
function drawBreakpoints(drawing: Drawing, marks: Marks): void {
  const { model, view, zoom } = drawing;
  const byBox = new Map<number, BreakpointMark>();
  for (const [id, mark] of marks.breakpoints) {
    const node = model.hierarchy.indexOf.get(id);
    const box = node === undefined ? -1 : model.visibleBox(node);
    if (box >= 0 && (byBox.get(box) ?? "disabled") !== "enabled") byBox.set(box, mark);
  }
  const currentNode = model.hierarchy.indexOf.get(marks.current?.node ?? -1);
  const currentBox = currentNode === undefined ? -1 : model.visibleBox(currentNode);
  for (const [box, mark] of byBox) {
    const rect = model.rect(box);
    if (!overlaps({ ...rect, x: rect.x - 30 }, view)) continue;
    // The amber arrow takes the place next to the box.
    drawDot(drawing, rect, mark, box === currentBox ? 12 * Math.max(1, 1 / zoom) : 0);
  }
  if (marks.gutter === undefined) return;
  const node = model.hierarchy.indexOf.get(marks.gutter);
  const box = node === undefined ? -1 : model.visibleBox(node);
  if (box < 0 || byBox.has(box)) return;
  drawing.painter.alpha(0.45);
  drawDot(drawing, model.rect(box), "enabled", box === currentBox ? 12 : 0);
  drawing.painter.alpha(1);
}

function drawDot(drawing: Drawing, rect: Rect, mark: BreakpointMark, shift: number): void {
  const { painter, palette, zoom } = drawing;
  const radius = Math.max(4.5, 3 / zoom);
  const x = rect.x - 4 - radius - shift;
  const y = rect.y + rect.height / 2;
  const ring = { colour: palette.break, width: 1.5 };
  if (mark === "enabled") painter.circle(x, y, radius, palette.break);
  else if (mark === "disabled") painter.circle(x, y, radius - 0.75, palette["bg-canvas"], ring);
  else painter.circle(x, y, radius - 0.75, palette["bg-canvas"], { ...ring, dash: "dotted" });
}
