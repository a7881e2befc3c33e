/**
 * One frame: the still picture and the marks over it, for any painter.
 *
 * Invariant: `drawStill` and `drawOverlay` alone draw the graph, on screen and in the SVG.
 */

import type { Rect } from "@/base/geometry";
import type { Drawing, Marks } from "@/render/draw/draw";
import { drawBoxes } from "@/render/draw/draw_boxes";
import { drawCaption } from "@/render/draw/draw_caption";
import { drawChangedEdges, drawChanges } from "@/render/draw/draw_changes";
import { drawEdges, drawLabels } from "@/render/draw/draw_edges";
import { drawScopeLabels } from "@/render/draw/draw_far_labels";
import { drawMarks } from "@/render/draw/draw_marks";
import { drawPath, drawPathEdges, drawPathSigns } from "@/render/draw/draw_path";
import { drawScale } from "@/render/draw/draw_scale";
import { drawHeaders, drawScopes } from "@/render/draw/draw_scopes";
import type { Palette } from "@/render/draw/palette";
import type { Painter } from "@/render/paint/painter";
import { type DocumentLook, SvgPainter } from "@/render/paint/svg_painter";

export function drawStill(drawing: Drawing): void {
  const boxes = drawing.model.boxesIn(drawing.view);
  drawScopes(drawing, boxes);
  drawEdges(drawing);
  drawChangedEdges(drawing);
  drawPathEdges(drawing);
  drawHeaders(drawing, boxes);
  drawLabels(drawing);
  drawBoxes(drawing, boxes);
  drawScopeLabels(drawing, boxes);
  drawChanges(drawing, boxes);
  drawPath(drawing, boxes);
}

export function drawOverlay(drawing: Drawing, marks: Marks): void {
  drawMarks(drawing, marks);
  drawPathSigns(drawing, marks);
}

const GRID = 24;

/** A grid of dots fixed in the world; wider as the camera moves away. */
export function drawGrid(painter: Painter, palette: Palette, view: Rect, zoom: number): void {
  if (zoom < 0.25) return;
  const step = zoom < 0.6 ? 2 * GRID : GRID;
  const size = 1.2 / Math.max(zoom, 0.8);
  const dots: number[] = [];
  for (let y = Math.floor(view.y / step) * step; y < view.y + view.height; y += step) {
    for (let x = Math.floor(view.x / step) * step; x < view.x + view.width; x += step) {
      dots.push(x, y, size, size);
    }
  }
  painter.blocks(dots, palette.line);
}

/** The drawing as an SVG document; its title, if any, is also shown below it. */
export function drawSvg(
  drawing: Omit<Drawing, "painter">,
  marks: Marks,
  title: string,
  look: DocumentLook = {},
): string {
  const painter = new SvgPainter();
  const full: Drawing = { ...drawing, painter };
  drawStill(full);
  drawOverlay(full, marks);
  const { x, y, width, height } = drawing.view;
  const legend = drawScale(full);
  const below = legend + drawCaption(full, title, legend);
  return painter.document(x, y, width, height + below, title, drawing.palette["bg-canvas"], look);
}
