/**
 * A step's changes on the canvas: a ring and a sign on new or rewired nodes, new edges in the
 * accent colour, former ones as ghosts. Skipped nodes are dimmed and dotted where boxes are drawn.
 *
 * Invariant: never colour alone: `+` is new, a wave is rewired, `−` is skipped.
 */

import { type Font, textWidth } from "@/base/fonts_metrics";
import { overlaps } from "@/base/geometry";
import { BOX_SCOPE } from "@/layout/types";
import { hiddenBySmallScope } from "@/render/draw/box_style";
import { type Drawing, detailAt } from "@/render/draw/draw";
import { edgeRoute, edgeWidth } from "@/render/draw/draw_edges";
import type { Painter } from "@/render/paint/painter";
import type { BoxChange } from "@/render/scene/changes";
import type { ChangeKind } from "@/render/scene/types";

/** Opacity of nodes skipped by a step. */
export const SKIPPED_ALPHA = 0.5;

export function skipped(drawing: Drawing, box: number): boolean {
  return drawing.changes?.boxes.get(box)?.whole === "skipped";
}

/** Below the boxes. */
export function drawChangedEdges(drawing: Drawing): void {
  const { painter, palette, model, changes, zoom, view } = drawing;
  if (changes === undefined) return;
  for (const [k, [from, to]] of changes.ghosts.entries()) drawGhost(drawing, from, to, k % LANES);
  const seen = new Set(model.edgesIn(view));
  for (const edge of changes.edges) {
    if (!seen.has(edge)) continue;
    painter.route(edgeRoute(model, edge, true), {
      colour: palette.change,
      width: Math.max(edgeWidth(model.scene.bytes[edge]!), 1.5, 1.2 / zoom),
    });
  }
}

const LANES = 5;

/** Draws a removed edge, crossed out, around the right sides of the boxes in between. */
function drawGhost(drawing: Drawing, from: number, to: number, lane: number): void {
  const { painter, palette, model, zoom, view } = drawing;
  const a = model.rect(from);
  const b = model.rect(to);
  const out = Math.max(a.x + a.width, b.x + b.width) + 14 + 5 * lane;
  const y0 = a.y + a.height / 2;
  const y1 = b.y + b.height / 2;
  const top = Math.min(y0, y1);
  if (!overlaps({ x: b.x, y: top, width: out - b.x, height: Math.abs(y1 - y0) }, view)) return;
  const stroke = { colour: palette.change, width: Math.max(1.4, 1 / zoom) };
  painter.lines([a.x + a.width, y0, out, y0, out, y1, b.x + b.width, y1], false, undefined, {
    ...stroke,
    dash: "dotted",
  });
  const s = 3.5 * Math.max(1, 0.8 / zoom);
  const y = (y0 + y1) / 2;
  for (const turn of [s, -s]) {
    painter.lines([out - s, y - turn, out + s, y + turn], false, undefined, stroke);
  }
}

/** Above the boxes. */
export function drawChanges(drawing: Drawing, boxes: readonly number[]): void {
  const { painter, palette, model, changes, zoom, view } = drawing;
  if (changes === undefined || changes.boxes.size === 0) return;
  const detail = detailAt(zoom);
  for (const box of boxes) {
    const change = changes.boxes.get(box);
    if (change === undefined || hiddenBySmallScope(drawing, box)) continue;
    const rect = model.rect(box);
    if (model.scene.kind[box] === BOX_SCOPE || !overlaps(rect, view)) continue;
    const whole = change.whole;
    if (whole !== undefined && whole !== "skipped") {
      const gap = detail === "near" ? 1.5 : 1 / zoom;
      const { x, y, width, height } = rect;
      painter.rect(x - gap, y - gap, width + 2 * gap, height + 2 * gap, 6 + gap, undefined, {
        colour: palette.change,
        width: Math.max(1.5, 1.3 / zoom),
      });
    }
    if (detail !== "far") drawSigns(drawing, box, change);
  }
}

const KINDS: readonly ChangeKind[] = ["new", "rewired", "skipped"];

/** Draws small signs at the top right corner; on a folded scope, with the number of changes. */
function drawSigns(drawing: Drawing, box: number, change: BoxChange): void {
  const { painter, palette, model, zoom } = drawing;
  const fold = model.isGroup(box);
  const scale = Math.max(1, 0.75 / zoom);
  const font: Font = { face: "mono", weight: 600, size: 9.5 * scale };
  const rect = model.rect(box);
  let right = rect.x + rect.width - 4 * scale;
  for (const kind of [...KINDS].reverse()) {
    const count = change[kind];
    if (count === 0 || (kind === "skipped" && !fold)) continue;
    const text = fold ? String(count) : "";
    const width = 12 * scale + (text === "" ? 0 : textWidth(text, font) + 2 * scale);
    const x = right - width;
    const y = rect.y - 6.5 * scale;
    const ground = kind === "skipped" ? palette["bg-active"] : palette.change;
    const ink = kind === "skipped" ? palette["text-2"] : palette["bg-well"];
    painter.rect(x, y, width, 12 * scale, 6 * scale, ground, {
      colour: palette["bg-canvas"],
      width: 1.5,
    });
    drawSign(painter, x + 6.5 * scale, y + 6 * scale, kind, ink, scale);
    if (text !== "") painter.text(x + 11 * scale, y + 9.4 * scale, text, font, ink);
    right = x - 2 * scale;
  }
}

/** The sign of a kind of change around a point. */
function drawSign(
  painter: Painter,
  x: number,
  y: number,
  kind: ChangeKind,
  colour: string,
  scale: number,
): void {
  const s = 3 * scale;
  const stroke = { colour, width: 1.5 * scale };
  if (kind === "rewired") {
    painter.lines(
      [x - s, y + s / 2, x - s / 3, y - s / 2, x + s / 3, y + s / 2, x + s, y - s / 2],
      false,
      undefined,
      stroke,
    );
    return;
  }
  painter.lines([x - s, y, x + s, y], false, undefined, stroke);
  if (kind === "new") painter.lines([x, y - s, x, y + s], false, undefined, stroke);
}
