/**
 * Boxes: nodes, inputs, folded and open scopes, at three levels of detail.
 *
 * Invariant: no text leaves its box; it is cut with an ellipsis by measured widths.
 */

import { textWidth, truncate, truncateMiddle } from "@/base/fonts_metrics";
import { printable } from "@/base/printable";
import {
  detailLines,
  inputText,
  LINE_HEIGHT,
  NABLA_WIDTH,
  NAME_FONT,
  NAME_INSET,
  PILL_HEIGHT,
  PILL_INSET,
  SCOPE_FONT,
  SMALL_MONO,
  TITLE_FONT,
} from "@/layout/sizes";
import { BOX_FOLD, BOX_INPUT, BOX_SCOPE, BOX_STUB } from "@/layout/types";
import { detailAt, DIMMED, drawChevron, drawNabla, type Drawing } from "@/render/draw";
import { formatCount, formatTime } from "@/render/format";
import { heat, isNotFinite, SHARES } from "@/render/live";
import { FAMILIES, familyColour, mix, sequential } from "@/render/palette";

/** Scopes whose screen height is less are blocks; what is in them is not drawn. */
const BLOCK_HEIGHT = 28;

/** Fill and border of the open scopes in view, parents first. */
export function drawScopes(drawing: Drawing, boxes: readonly number[]): void {
  const { painter, palette, model, live, zoom } = drawing;
  const { scene, hierarchy } = model;
  for (const box of boxes) {
    if (scene.kind[box] !== BOX_SCOPE || hiddenBySmallScope(drawing, box)) continue;
    const group = hierarchy.groups[scene.ref[box]!]!;
    const done = live.groupDone[group.index] === 1;
    painter.rect(
      scene.x[box]! + 0.5,
      scene.y[box]! + 0.5,
      scene.width[box]! - 1,
      scene.height[box]! - 1,
      7,
      palette[SCOPE_FILLS[Math.min(scopeDepth(drawing, box), 2)]!],
      {
        colour: palette["line-strong"],
        width: Math.max(1, 0.6 / zoom),
        dash: done ? "solid" : "dashed",
      },
    );
    if (isBlock(drawing, box)) drawFarStrip(drawing, box);
  }
}

const SCOPE_FILLS = ["scope-1", "scope-2", "scope-3"] as const;

function scopeDepth(drawing: Drawing, box: number): number {
  let depth = 0;
  for (let at = drawing.model.scene.parent[box]!; at >= 0; at = drawing.model.scene.parent[at]!) {
    depth++;
  }
  return depth;
}

/** Headers come after the edges, which pass below them. */
export function drawHeaders(drawing: Drawing, boxes: readonly number[]): void {
  if (detailAt(drawing.zoom) === "far") return;
  const { painter, palette, model, live, zoom } = drawing;
  const { scene, hierarchy } = model;
  for (const box of boxes) {
    if (scene.kind[box] !== BOX_SCOPE || hiddenBySmallScope(drawing, box)) continue;
    const group = hierarchy.groups[scene.ref[box]!]!;
    const x = scene.x[box]!;
    const y = scene.y[box]!;
    const width = scene.width[box]!;
    const done = live.groupDone[group.index] === 1;
    const fill = palette[SCOPE_FILLS[Math.min(scopeDepth(drawing, box), 2)]!];
    const ink = done ? palette["text-2"] : palette["text-3"];
    const size = Math.min(15, Math.max(SCOPE_FONT.size, 9 / zoom));
    const font = { ...SCOPE_FONT, size };
    const right = rightText(drawing, group.index, group.ops, width);
    const rightWidth = right === "" ? 0 : textWidth(right, SMALL_MONO) + 10;
    const nabla = model.gradientMark(box) ? NABLA_WIDTH : 0;
    const name = truncateMiddle(
      printable(group.name, 120),
      font,
      width - PILL_INSET - nabla - rightWidth - 16,
    );
    // A patch of the ground, so that an edge that enters here does not strike the words through.
    const end = textWidth(name, font) + nabla;
    painter.blocks([x + 6, y + 4, 17 + end, 17], fill);
    if (right !== "") painter.blocks([x + width - rightWidth - 2, y + 4, rightWidth, 17], fill);
    drawChevron(painter, x + 9, y + 10.5, true, palette["text-3"]);
    if (nabla > 0) drawNabla(painter, x + PILL_INSET, y + 16, ink);
    painter.text(x + PILL_INSET + nabla, y + 16.5, name, font, ink);
    if (right !== "") {
      painter.text(x + width - 10, y + 16, right, SMALL_MONO, palette["text-3"], "right");
    }
  }
}

/** `30 ops · 14.2 ms`, as much of it as there is room for. */
function rightText(drawing: Drawing, group: number, ops: number, width: number): string {
  if (detailAt(drawing.zoom) !== "near") return "";
  const count = formatCount(ops, "op");
  const ns = drawing.live.groupNs[group]!;
  const both = ns > 0 ? `${count} · ${formatTime(ns)}` : count;
  if (textWidth(both, SMALL_MONO) < width * 0.55) return both;
  return textWidth(count, SMALL_MONO) < width * 0.45 ? count : "";
}

/** Nodes, inputs, stubs and folded scopes. */
export function drawBoxes(drawing: Drawing, boxes: readonly number[]): void {
  const detail = detailAt(drawing.zoom);
  if (detail === "far") {
    drawFarBoxes(drawing, boxes);
    return;
  }
  const { painter, model, matches } = drawing;
  for (const box of boxes) {
    const kind = model.scene.kind[box]!;
    if (kind === BOX_SCOPE || box === drawing.raised || hiddenBySmallScope(drawing, box)) continue;
    painter.alpha(matches === undefined || matches.has(box) ? 1 : DIMMED);
    if (kind === BOX_FOLD) drawFold(drawing, box);
    else if (kind === BOX_INPUT || kind === BOX_STUB) drawInput(drawing, box);
    else drawNode(drawing, box);
  }
  painter.alpha(1);
}

function drawNode(drawing: Drawing, box: number): void {
  const { painter, palette, model, live, zoom } = drawing;
  const { scene, hierarchy } = model;
  const node = scene.ref[box]!;
  const data = hierarchy.nodes[node]!;
  const done = live.done[node] === 1;
  const x = scene.x[box]!;
  const y = scene.y[box]!;
  const width = scene.width[box]!;
  const height = scene.height[box]!;
  const near = detailAt(zoom) === "near";
  const hue = nodeColour(drawing, node);
  const tint = drawing.colourBy === "family" ? undefined : hue;
  drawBody(drawing, x, y, width, height, done, tint, 5);
  const lines = detailLines(hierarchy, node);
  const pill = lines.length === 0;
  painter.alpha(currentAlpha(drawing, box) * (done ? 1 : 0.55));
  if (pill && near) painter.rect(x + 8, y + 8, 6, 6, 1.5, hue);
  else painter.rect(x + 2, y + 5, 2.5, height - 10, 1.2, hue);
  painter.alpha(currentAlpha(drawing, box));
  const ink = done ? palette.text : palette["text-3"];
  const nabla = model.gradientMark(box) ? NABLA_WIDTH : 0;
  if (!near) {
    drawMidName(drawing, box, data.label, ink, nabla > 0);
    return;
  }
  const ns = live.durationNs[node]!;
  const time = ns > 0 ? formatTime(ns) : "";
  const font = pill ? NAME_FONT : TITLE_FONT;
  const left = x + (pill ? PILL_INSET : NAME_INSET);
  const room = width - (left - x) - nabla - (time === "" ? 10 : textWidth(time, SMALL_MONO) + 18);
  if (nabla > 0) drawNabla(painter, left, y + 15, ink);
  painter.text(
    left + nabla,
    y + 15,
    truncateMiddle(printable(data.label, 120), font, room),
    font,
    ink,
  );
  if (time !== "") {
    painter.text(x + width - 9, y + 14.5, time, SMALL_MONO, palette["text-3"], "right");
  }
  drawLines(drawing, lines, x + NAME_INSET, y + 28, width - NAME_INSET - 8);
}

function drawLines(
  drawing: Drawing,
  lines: readonly string[],
  x: number,
  y: number,
  room: number,
): void {
  const { painter, palette } = drawing;
  lines.forEach((line, k) => {
    const text = truncate(line, SMALL_MONO, room);
    painter.text(x, y + k * LINE_HEIGHT, text, SMALL_MONO, palette["text-3"]);
  });
}

function currentAlpha(drawing: Drawing, box: number): number {
  return drawing.matches === undefined || drawing.matches.has(box) ? 1 : DIMMED;
}

function drawBody(
  drawing: Drawing,
  x: number,
  y: number,
  width: number,
  height: number,
  done: boolean,
  tint: string | undefined,
  radius: number,
): void {
  const { painter, palette, zoom } = drawing;
  const ground = palette[done ? "bg-raised" : "bg-canvas"];
  painter.rect(
    x + 0.5,
    y + 0.5,
    width - 1,
    height - 1,
    radius,
    tint === undefined || !done ? ground : mix(ground, tint, 0.22),
    {
      colour: palette[done ? "line-node" : "line-strong"],
      width: Math.max(1, 0.6 / zoom),
      dash: done ? "solid" : "dashed",
    },
  );
}

/** A name that stays readable while the box shrinks. */
function drawMidName(
  drawing: Drawing,
  box: number,
  label: string,
  ink: string,
  nabla: boolean,
): void {
  const { painter, model, zoom } = drawing;
  const { scene } = model;
  const height = scene.height[box]!;
  const size = Math.min(PILL_HEIGHT * 0.84, height * 0.84, 9.5 / zoom);
  if (size * zoom < 6) return;
  const font = { ...NAME_FONT, size };
  const left = scene.x[box]! + 10;
  const strip = scene.kind[box] === BOX_FOLD ? 1.5 : 0;
  const base = scene.y[box]! + height / 2 + size * 0.36 - strip;
  const mark = nabla ? size * 1.05 : 0;
  if (nabla) drawNabla(painter, left, base, ink, size);
  painter.text(
    left + mark,
    base,
    truncate(printable(label, 60), font, scene.width[box]! - 18 - mark),
    font,
    ink,
  );
}

function drawFold(drawing: Drawing, box: number): void {
  const { painter, palette, model, live, zoom } = drawing;
  const { scene, hierarchy } = model;
  const group = hierarchy.groups[scene.ref[box]!]!;
  const done = live.groupDone[group.index] === 1;
  const x = scene.x[box]!;
  const y = scene.y[box]!;
  const width = scene.width[box]!;
  const ink = done ? palette.text : palette["text-3"];
  const tint =
    drawing.colourBy === "finite" && isNotFinite(live.groupFlags[group.index]!)
      ? palette.nan
      : undefined;
  drawBody(drawing, x, y, width, scene.height[box]!, done, tint, 5);
  drawStrip(drawing, box, group.index, currentAlpha(drawing, box) * (done ? 0.9 : 0.45));
  painter.alpha(currentAlpha(drawing, box));
  const nabla = model.gradientMark(box) ? NABLA_WIDTH : 0;
  if (detailAt(zoom) !== "near") {
    drawMidName(drawing, box, group.name, ink, nabla > 0);
    return;
  }
  drawChevron(painter, x + 9, y + 9, false, palette["text-3"]);
  const right = rightText(drawing, group.index, group.ops, width);
  const room =
    width - PILL_INSET - nabla - 10 - (right === "" ? 0 : textWidth(right, SMALL_MONO) + 10);
  if (nabla > 0) drawNabla(painter, x + PILL_INSET, y + 15, ink);
  painter.text(
    x + PILL_INSET + nabla,
    y + 15.5,
    truncateMiddle(printable(group.name, 120), NAME_FONT, room),
    NAME_FONT,
    ink,
  );
  if (right !== "") {
    painter.text(x + width - 9, y + 15, right, SMALL_MONO, palette["text-3"], "right");
  }
}

/** The families of a scope by their share of its time. */
function drawStrip(drawing: Drawing, box: number, group: number, alpha: number): void {
  const { painter, palette, model, live } = drawing;
  const { scene } = model;
  const left = scene.x[box]! + 8;
  const room = scene.width[box]! - 16;
  const y = scene.y[box]! + scene.height[box]! - 4.5;
  painter.alpha(alpha);
  let at = left;
  for (let family = 0; family < SHARES; family++) {
    const length = live.shares[group * SHARES + family]! * room;
    if (length <= 0) continue;
    painter.blocks([at, y, Math.max(0.8, length - 1), 2], familyColour(palette, FAMILIES[family]!));
    at += length;
  }
  painter.alpha(1);
}

function drawInput(drawing: Drawing, box: number): void {
  const { painter, palette, model, live, zoom } = drawing;
  const { scene, hierarchy } = model;
  const node = scene.ref[box]!;
  const x = scene.x[box]!;
  const y = scene.y[box]!;
  const width = scene.width[box]!;
  const height = scene.height[box]!;
  const done = live.done[node] === 1;
  drawBody(drawing, x, y, width, height, done, undefined, height / 2);
  const ink = palette[done ? "text-2" : "text-3"];
  const label = hierarchy.nodes[node]!.label;
  if (detailAt(zoom) !== "near") {
    drawMidName(drawing, box, label, ink, false);
    return;
  }
  const shape = truncate(inputText(hierarchy, node), SMALL_MONO, width * 0.6);
  const shapeWidth = shape === "" ? 0 : textWidth(shape, SMALL_MONO) + 8;
  const base = y + height / 2 + 4;
  const font = { ...NAME_FONT, size: 11 };
  painter.text(
    x + 10,
    base,
    truncateMiddle(printable(label, 120), font, width - 20 - shapeWidth),
    font,
    ink,
  );
  if (shape !== "") {
    painter.text(x + width - 10, base - 0.5, shape, SMALL_MONO, palette["text-3"], "right");
  }
}

/** Far away a box is a rounded bar in its colour; many of a colour go in one call. */
function drawFarBoxes(drawing: Drawing, boxes: readonly number[]): void {
  const { painter, palette, model, live, matches, zoom } = drawing;
  const { scene } = model;
  const byColour = new Map<string, number[]>();
  const put = (colour: string, rect: readonly [number, number, number, number]): void => {
    const list = byColour.get(colour);
    if (list === undefined) byColour.set(colour, [...rect]);
    else list.push(...rect);
  };
  const least = 1 / zoom;
  for (const box of boxes) {
    const kind = scene.kind[box]!;
    if (kind === BOX_SCOPE || hiddenBySmallScope(drawing, box)) continue;
    const ref = scene.ref[box]!;
    const fold = kind === BOX_FOLD;
    const done = (fold ? live.groupDone : live.done)[ref] === 1;
    const hue = fold ? palette["text-off"] : nodeColour(drawing, ref);
    const strength = (done ? 0.8 : 0.3) * (matches === undefined || matches.has(box) ? 1 : DIMMED);
    put(mix(palette["bg-canvas"], hue, strength), [
      scene.x[box]!,
      scene.y[box]! + 2,
      Math.max(least, scene.width[box]!),
      Math.max(least, scene.height[box]! - 4),
    ]);
  }
  for (const [colour, rects] of byColour) painter.blocks(rects, colour);
  for (const box of boxes) {
    if (scene.kind[box] !== BOX_FOLD || hiddenBySmallScope(drawing, box)) continue;
    drawFarStrip(drawing, box);
  }
}

function drawFarStrip(drawing: Drawing, box: number): void {
  const { painter, palette, model, live } = drawing;
  const { scene } = model;
  const group = scene.ref[box]!;
  painter.alpha(live.groupDone[group] === 1 ? 0.8 : 0.35);
  const inset = Math.min(10, scene.width[box]! / 8);
  const tall = scene.height[box]! * 0.8;
  let at = scene.x[box]! + inset;
  for (let family = 0; family < SHARES; family++) {
    const length = live.shares[group * SHARES + family]! * (scene.width[box]! - 2 * inset);
    if (length <= 0) continue;
    painter.blocks(
      [at, scene.y[box]! + scene.height[box]! * 0.1, length, tall],
      familyColour(palette, FAMILIES[family]!),
    );
    at += length;
  }
  painter.alpha(1);
}

export function nodeColour(drawing: Drawing, node: number): string {
  const { palette, model, live, colourBy } = drawing;
  if (colourBy === "finite") {
    const flags = live.flags[node]!;
    if ((flags & 1) !== 0) return palette.nan;
    if ((flags & 2) !== 0) return palette.inf;
    return live.done[node] === 1 ? palette.ok : palette["text-off"];
  }
  if (colourBy !== "family") {
    const share = heat(model.hierarchy, live, node, colourBy);
    return share === undefined ? palette["text-off"] : sequential(palette, share);
  }
  return familyColour(palette, model.hierarchy.nodes[node]!.family);
}

/** Whether an open scope is too small on screen to look into. */
function isBlock(drawing: Drawing, box: number): boolean {
  return drawing.model.scene.height[box]! * drawing.zoom < BLOCK_HEIGHT;
}

function hiddenBySmallScope(drawing: Drawing, box: number): boolean {
  const parent = drawing.model.scene.parent[box]!;
  return parent >= 0 && isBlock(drawing, parent);
}
