/**
 * Boxes: nodes, inputs and folded scopes, near and at middle distance.
 *
 * Invariant: no text leaves its box; it is cut with an ellipsis by measured widths.
 */

import { textWidth, truncate, truncateMiddle } from "@/base/fonts_metrics";
import { printable } from "@/base/printable";
import {
  detailLines,
  groupLabel,
  inputText,
  LINE_HEIGHT,
  NABLA_WIDTH,
  NAME_FONT,
  NAME_INSET,
  nodeName,
  PILL_HEIGHT,
  PILL_INSET,
  SMALL_MONO,
  TITLE_FONT,
} from "@/layout/sizes";
import { BOX_FAR, BOX_FOLD, BOX_INPUT, BOX_NODE, BOX_SCOPE, BOX_STUB } from "@/layout/types";
import { foldColour, hiddenBySmallScope, nodeColour, stripOf } from "@/render/draw/box_style";
import { DIMMED, type Drawing, detailAt, drawChevron, drawNabla } from "@/render/draw/draw";
import { SKIPPED_ALPHA, skipped } from "@/render/draw/draw_changes";
import { drawFarBoxes } from "@/render/draw/draw_far";
import { drawFarStub } from "@/render/draw/draw_far_reads";
import { rightText } from "@/render/draw/draw_scopes";
import { drawCount, drawDifferences } from "@/render/draw/draw_stacks";
import { formatTime } from "@/render/draw/format";
import { quietInk, tinted } from "@/render/draw/palette";
import type { Painter } from "@/render/paint/painter";
import { stackControls } from "@/render/scene/stack_controls";

/** Where the bar in the family's colour ends, from the left edge of its box. */
const BAR_END = 4.5;

/** Nodes, inputs, stubs and folded scopes. */
export function drawBoxes(drawing: Drawing, boxes: readonly number[]): void {
  const detail = detailAt(drawing.zoom);
  if (detail === "far") {
    drawFarBoxes(drawing, boxes);
    return;
  }
  const { painter, model } = drawing;
  for (const box of boxes) {
    const kind = model.scene.kind[box]!;
    if (kind === BOX_SCOPE || box === drawing.raised || hiddenBySmallScope(drawing, box)) continue;
    painter.alpha(currentAlpha(drawing, box));
    // Stubs get no name: several may show the same node, and an id is unique in the picture.
    const whole = kind !== BOX_STUB && kind !== BOX_FAR;
    if (whole && painter.named !== undefined) nameBox(drawing, painter, box);
    if (kind === BOX_FOLD) drawFold(drawing, box);
    else if (kind === BOX_INPUT || kind === BOX_STUB) drawInput(drawing, box);
    else if (kind === BOX_FAR) drawFarStub(drawing, box);
    else drawNode(drawing, box);
    if (whole) painter.unnamed?.();
  }
  painter.alpha(1);
}

function nameBox({ model }: Drawing, painter: Painter, box: number): void {
  const { hierarchy, scene } = model;
  const ref = scene.ref[box]!;
  if (scene.kind[box] === BOX_FOLD) {
    painter.named?.(`scope-${ref}`, hierarchy.groups[ref]!.path);
    return;
  }
  const { id, scope, label } = hierarchy.nodes[ref]!;
  painter.named?.(`node-${id}`, scope === "" ? label : `${scope}/${label}`);
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
  drawBody(drawing, box, done, tint, 5);
  const lines = detailLines(hierarchy, node);
  const pill = lines.length === 0;
  painter.alpha(currentAlpha(drawing, box) * (done ? 1 : 0.55));
  if (pill && near) painter.rect(x + 8, y + 8, 6, 6, 1.5, hue);
  else painter.rect(x + 2, y + 5, BAR_END - 2, height - 10, 1.2, hue);
  painter.alpha(currentAlpha(drawing, box));
  const ink = done ? palette.text : palette["text-3"];
  const quiet = quietInk(palette, tint !== undefined && done);
  const nabla = model.gradientMark(box) ? NABLA_WIDTH : 0;
  if (!near) {
    drawMidName(drawing, box, nodeName(data), ink, nabla > 0);
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
    truncateMiddle(printable(nodeName(data), 120), font, room),
    font,
    ink,
  );
  if (time !== "") {
    painter.text(x + width - 9, y + 14.5, time, SMALL_MONO, quiet, "right");
  }
  drawLines(drawing, lines, x + NAME_INSET, y + 28, width - NAME_INSET - 8, quiet);
}

function drawLines(
  drawing: Drawing,
  lines: readonly string[],
  x: number,
  y: number,
  room: number,
  ink: string,
): void {
  const { painter } = drawing;
  lines.forEach((line, k) => {
    const text = truncate(line, SMALL_MONO, room);
    painter.text(x, y + k * LINE_HEIGHT, text, SMALL_MONO, ink);
  });
}

function currentAlpha(drawing: Drawing, box: number): number {
  const isMatch = drawing.matches === undefined || drawing.matches.has(box);
  return (isMatch ? 1 : DIMMED) * (skipped(drawing, box) ? SKIPPED_ALPHA : 1);
}

function drawBody(
  drawing: Drawing,
  box: number,
  done: boolean,
  tint: string | undefined,
  radius: number,
): void {
  const { painter, palette, zoom } = drawing;
  const { x, y, width, height } = drawing.model.rect(box);
  const left = skipped(drawing, box);
  const ground = palette[done ? "bg-raised" : "bg-canvas"];
  painter.rect(
    x + 0.5,
    y + 0.5,
    width - 1,
    height - 1,
    radius,
    tint === undefined || !done ? ground : tinted(ground, tint),
    {
      colour: palette[left ? "text-3" : done ? "line-node" : "line-strong"],
      width: Math.max(left ? 1.5 : 1, 0.6 / zoom),
      dash: left ? "dotted" : done ? "solid" : "dashed",
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
  const size = Math.min(PILL_HEIGHT * 1.1, height * 1.1, 10 / zoom);
  const font = { ...NAME_FONT, size };
  // Beside the family bar, with a gap that is visible at this zoom.
  const inset = scene.kind[box] === BOX_NODE ? Math.max(8, BAR_END + 3 / zoom) : 8;
  const left = scene.x[box]! + inset;
  const strip = scene.kind[box] === BOX_FOLD ? 1 : 0;
  const base = scene.y[box]! + height / 2 + size * 0.36 - strip;
  const mark = nabla ? size * 1.05 : 0;
  if (nabla) drawNabla(painter, left, base, ink, size);
  painter.text(
    left + mark,
    base,
    truncate(printable(label, 60), font, scene.width[box]! - inset - 4 - mark),
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
  const tint = foldColour(drawing, group.index);
  drawBody(drawing, box, done, tint, 5);
  drawStrip(drawing, box, group.index, currentAlpha(drawing, box) * (done ? 0.9 : 0.45));
  painter.alpha(currentAlpha(drawing, box));
  const nabla = model.gradientMark(box) ? NABLA_WIDTH : 0;
  if (detailAt(zoom) !== "near") {
    drawMidName(drawing, box, groupLabel(group), ink, nabla > 0);
    return;
  }
  const quiet = quietInk(palette, tint !== undefined && done);
  drawChevron(painter, x + 9, y + 9, false, quiet);
  const right = rightText(drawing, group.index, group.ops, width);
  const [count] = stackControls(model, box);
  const end =
    count === undefined
      ? width - 10 - (right === "" ? 0 : textWidth(right, SMALL_MONO) + 10)
      : count.rect.x - x - 6;
  const room = end - PILL_INSET - nabla;
  if (nabla > 0) drawNabla(painter, x + PILL_INSET, y + 15, ink);
  painter.text(
    x + PILL_INSET + nabla,
    y + 15.5,
    truncateMiddle(printable(group.name, 120), NAME_FONT, room),
    NAME_FONT,
    ink,
  );
  drawCount(drawing, box, ink);
  drawDifferences(drawing, box, quiet);
  if (right !== "") {
    painter.text(x + width - 9, y + 15, right, SMALL_MONO, quiet, "right");
  }
}

/** Draws the families of a folded scope by their share of its time, or its tints. */
function drawStrip(drawing: Drawing, box: number, group: number, alpha: number): void {
  const { painter, model } = drawing;
  const { scene } = model;
  const left = scene.x[box]! + 8;
  const room = scene.width[box]! - 16;
  // At the very edge if the name takes the full height.
  const above = detailAt(drawing.zoom) === "near" ? 4.5 : 2.5;
  const y = scene.y[box]! + scene.height[box]! - above;
  painter.alpha(alpha);
  let at = left;
  for (const [colour, share] of stripOf(drawing, group)) {
    const length = share * room;
    if (length <= 0) continue;
    painter.blocks([at, y, Math.max(0.8, length - 1), 2], colour);
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
  drawBody(drawing, box, done, undefined, height / 2);
  const ink = palette[done ? "text-2" : "text-3"];
  const label = hierarchy.nodes[node]!.label;
  if (detailAt(zoom) !== "near") {
    drawMidName(drawing, box, label, ink, false);
    return;
  }
  const shape = truncate(inputText(hierarchy, node), SMALL_MONO, width * 0.6);
  const shapeWidth = shape === "" ? 0 : textWidth(shape, SMALL_MONO) + 8;
  const base = y + height / 2 + 4;
  painter.text(
    x + 10,
    base,
    truncateMiddle(printable(label, 120), NAME_FONT, width - 20 - shapeWidth),
    NAME_FONT,
    ink,
  );
  if (shape !== "") {
    painter.text(x + width - 10, base - 0.5, shape, SMALL_MONO, palette["text-3"], "right");
  }
}
