/**
 * A path on the canvas: thick edges, ringed boxes, and each box's place in the chain.
 *
 * Invariant: never colour alone: each box has a number or a sign, and the culprit has a double
 * ring.
 */

import { type Font, textWidth } from "@/base/fonts_metrics";
import { overlaps, type Rect } from "@/base/geometry";
import { BOX_SCOPE } from "@/layout/types";
import { hiddenBySmallScope } from "@/render/draw/box_style";
import { type Drawing, detailAt, type Marks } from "@/render/draw/draw";
import { edgeRoute, edgeWidth } from "@/render/draw/draw_edges";
import { raisedRect } from "@/render/draw/draw_marks";
import type { BoxSign } from "@/render/scene/path";

/** Below the boxes. */
export function drawPathEdges(drawing: Drawing): void {
  const { painter, palette, model, path, zoom, view } = drawing;
  if (path === undefined) return;
  const seen = new Set(model.edgesIn(view));
  for (const [edge, tone] of path.edges) {
    if (!seen.has(edge)) continue;
    painter.route(edgeRoute(model, edge, true), {
      colour: palette[tone],
      width: Math.max(edgeWidth(model.scene.bytes[edge]!), 2, 1.5 / zoom),
    });
  }
}

/** Above the boxes. */
export function drawPath(drawing: Drawing, boxes: readonly number[]): void {
  const { painter, palette, model, path, zoom, view } = drawing;
  if (path === undefined) return;
  const near = detailAt(zoom) === "near";
  for (const box of boxes) {
    const sign = path.boxes.get(box);
    if (sign === undefined || hiddenBySmallScope(drawing, box)) continue;
    const rect = model.rect(box);
    if (model.scene.kind[box] === BOX_SCOPE || !overlaps(rect, view)) continue;
    const ring = (gap: number): void => {
      const { x, y, width, height } = rect;
      painter.rect(x - gap, y - gap, width + 2 * gap, height + 2 * gap, 6 + gap, undefined, {
        colour: palette[sign.tone],
        width: Math.max(1.5, 1.2 / zoom),
      });
    };
    ring(near ? 1.5 : 1 / zoom);
    if (sign.culprit) ring(near ? 4.5 : 4 / zoom);
  }
}

/** Above the marks, so that a place in the chain is also visible at the current node. */
export function drawPathSigns(drawing: Drawing, marks: Marks): void {
  const { model, path, zoom, view } = drawing;
  if (path === undefined || detailAt(zoom) === "far") return;
  for (const [box, sign] of path.boxes) {
    const rect = model.rect(box);
    if (model.scene.kind[box] === BOX_SCOPE || hiddenBySmallScope(drawing, box)) continue;
    const shown = box === drawing.raised ? raisedRect(drawing, marks, box) : rect;
    if (overlaps(rect, view)) drawSign(drawing, shown, sign, box === drawing.raised);
  }
}

/**
 * Draws a sign beside the top right corner, clear of the time in the box, the mark of a watch, a
 * diamond in the middle, and the op count in the enclosing scope's header.
 */
function drawSign(drawing: Drawing, rect: Rect, sign: BoxSign, raised: boolean): void {
  const { painter, palette, path, zoom } = drawing;
  if (path === undefined) return;
  const scale = Math.max(1, 0.75 / zoom);
  const font: Font = { face: "mono", weight: 600, size: 9.5 * scale };
  const width = Math.max(13 * scale, textWidth(sign.text, font) + 7 * scale);
  const x = rect.x + rect.width - 5 * scale;
  const y = rect.y + (raised ? RAISED_SIGN : SIGN) * scale;
  painter.rect(x, y, width, 13 * scale, 6.5 * scale, palette[sign.tone], {
    colour: palette["bg-canvas"],
    width: 1.5,
  });
  const left = x + (width - textWidth(sign.text, font)) / 2;
  painter.text(left, y + 9.8 * scale, sign.text, font, palette["bg-panel"]);
}

/** From the upper edge of a box to that of its sign; a raised box reaches up to the header. */
const SIGN = -8;
const RAISED_SIGN = 2;
