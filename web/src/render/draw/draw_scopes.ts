/**
 * Open scopes: background, border and header, and a strip if they are too small to show contents.
 *
 * Invariant: drawn parents first; headers come after the edges, which pass below them.
 */

import { textWidth, truncateMiddle } from "@/base/fonts_metrics";
import { overlaps, type Rect } from "@/base/geometry";
import { printable } from "@/base/printable";
import {
  groupLabel,
  HEADER_HEIGHT,
  NABLA_WIDTH,
  PILL_INSET,
  SCOPE_FONT,
  SMALL_MONO,
} from "@/layout/sizes";
import { BOX_SCOPE } from "@/layout/types";
import { hiddenBySmallScope, isBlock } from "@/render/draw/box_style";
import { type Drawing, detailAt, drawChevron, drawNabla } from "@/render/draw/draw";
import { drawFarStrip } from "@/render/draw/draw_far";
import { LABELS_BELOW } from "@/render/draw/draw_far_labels";
import { drawControls, drawPile, drawPlace, placeWidth } from "@/render/draw/draw_stacks";
import { formatCount, formatTime } from "@/render/draw/format";
import { CONTROLS_WIDTH } from "@/render/scene/stack_controls";

/** Draws fill and border of the open scopes in view, parents first, and the boxes behind stacks. */
export function drawScopes(drawing: Drawing, boxes: readonly number[]): void {
  const { painter, palette, model, live, zoom } = drawing;
  const { scene, hierarchy } = model;
  for (const box of boxes) {
    if (!model.isGroup(box) || hiddenBySmallScope(drawing, box)) continue;
    drawPile(drawing, box);
    if (scene.kind[box] !== BOX_SCOPE) continue;
    const group = hierarchy.groups[scene.ref[box]!]!;
    const done = live.groupDone[group.index] === 1;
    painter.named?.(`scope-${group.index}`, group.path);
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
    painter.unnamed?.();
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

/** Draws the headers of open scopes; called after the edges, which pass below them. */
export function drawHeaders(drawing: Drawing, boxes: readonly number[]): void {
  const { painter, palette, model, live, zoom } = drawing;
  if (zoom < LABELS_BELOW) return;
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
    const size = Math.min(HEADER_HEIGHT - 2, Math.max(SCOPE_FONT.size, 10 / zoom));
    const font = { ...SCOPE_FONT, size };
    const right = rightText(drawing, group.index, group.ops, width);
    const controls = controlsWidth(drawing, box);
    const rightWidth = controls + (right === "" ? 0 : textWidth(right, SMALL_MONO) + 10);
    const place = placeWidth(drawing, box);
    const nabla = model.gradientMark(box) ? NABLA_WIDTH : 0;
    const name = truncateMiddle(
      printable(groupLabel(group), 120),
      font,
      width - PILL_INSET - nabla - rightWidth - place - 16,
    );
    // A patch of background, so that an edge entering here does not cross out the text.
    const named = textWidth(name, font) + nabla;
    const end = named + place;
    const base = y + 12.4 + size * 0.36;
    painter.blocks([x + 6, y + 2, 17 + end, Math.max(20, base - y - 2 + size * 0.24)], fill);
    if (rightWidth > 0) painter.blocks([x + width - rightWidth - 2, y + 4, rightWidth, 17], fill);
    drawChevron(painter, x + 9, y + 10.5, true, palette["text-3"]);
    if (nabla > 0) drawNabla(painter, x + PILL_INSET, base - 0.5, ink);
    painter.text(x + PILL_INSET + nabla, base, name, font, ink);
    drawPlace(drawing, box, x + PILL_INSET + named + 8, base);
    drawControls(drawing, box);
    if (right !== "") {
      painter.text(
        x + width - 10 - controls,
        y + 16,
        right,
        SMALL_MONO,
        palette["text-3"],
        "right",
      );
    }
  }
}

function controlsWidth({ model, zoom }: Drawing, box: number): number {
  const one = detailAt(zoom) === "near" && model.stackAround(box) !== undefined;
  return one ? CONTROLS_WIDTH : 0;
}

/** Erases the text at the right of the enclosing scope's header if `over` would cut it. */
export function clearHeader(drawing: Drawing, box: number, over: Rect): void {
  const { painter, palette, model } = drawing;
  const { scene, hierarchy } = model;
  const scope = scene.parent[box]!;
  if (scope < 0 || scene.kind[scope] !== BOX_SCOPE) return;
  const group = hierarchy.groups[scene.ref[scope]!]!;
  const right = rightText(drawing, group.index, group.ops, scene.width[scope]!);
  if (right === "") return;
  const width = textWidth(right, SMALL_MONO) + 2;
  const x = scene.x[scope]! + scene.width[scope]! - controlsWidth(drawing, scope) - 9 - width;
  const words: Rect = { x, y: scene.y[scope]! + 6, width, height: 13 };
  if (!overlaps(words, over)) return;
  const fill = palette[SCOPE_FILLS[Math.min(scopeDepth(drawing, scope), 2)]!];
  painter.blocks([words.x, words.y, words.width, words.height], fill);
}

/** `30 ops · 14.2 ms`, as much as there is room for. */
export function rightText(drawing: Drawing, group: number, ops: number, width: number): string {
  if (detailAt(drawing.zoom) !== "near") return "";
  const count = formatCount(ops, "op");
  const ns = drawing.live.groupNs[group]!;
  const both = ns > 0 ? `${count} · ${formatTime(ns)}` : count;
  if (textWidth(both, SMALL_MONO) < width * 0.55) return both;
  return textWidth(count, SMALL_MONO) < width * 0.45 ? count : "";
}
