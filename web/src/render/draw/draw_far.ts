/**
 * Far away, a box is a rounded bar in its colour, and a folded scope a strip of its families.
 *
 * Invariant: no text; many boxes of one colour are drawn in one call.
 */

import { BOX_FOLD, BOX_SCOPE } from "@/layout/types";
import { foldColour, hiddenBySmallScope, nodeColour, stripOf } from "@/render/draw/box_style";
import { DIMMED, type Drawing } from "@/render/draw/draw";
import { SKIPPED_ALPHA, skipped } from "@/render/draw/draw_changes";
import { mix } from "@/render/draw/palette";

/** Far away, a box is a rounded bar in its colour; many of one colour are drawn in one call. */
export function drawFarBoxes(drawing: Drawing, boxes: readonly number[]): void {
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
    const hue = fold ? (foldColour(drawing, ref) ?? palette["text-off"]) : nodeColour(drawing, ref);
    const isMatch = matches === undefined || matches.has(box);
    const strength =
      (done ? 0.8 : 0.3) * (isMatch ? 1 : DIMMED) * (skipped(drawing, box) ? SKIPPED_ALPHA : 1);
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

export function drawFarStrip(drawing: Drawing, box: number): void {
  const { painter, model, live } = drawing;
  const { scene } = model;
  const group = scene.ref[box]!;
  painter.alpha(live.groupDone[group] === 1 ? 0.8 : 0.35);
  const inset = Math.min(10, scene.width[box]! / 8);
  const tall = scene.height[box]! * 0.8;
  let at = scene.x[box]! + inset;
  for (const [colour, share] of stripOf(drawing, group)) {
    const length = share * (scene.width[box]! - 2 * inset);
    if (length <= 0) continue;
    painter.blocks([at, scene.y[box]! + scene.height[box]! * 0.1, length, tall], colour);
    at += length;
  }
  painter.alpha(1);
}
