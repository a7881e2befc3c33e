/**
 * The line below an exported picture: its program, and the moment shown.
 *
 * Invariant: drawn below the view, never on it; at the document's own size, whatever the zoom.
 */

import { truncate } from "@/base/fonts_metrics";
import { printable } from "@/base/printable";
import { SMALL_SANS } from "@/layout/sizes";
import type { Drawing } from "@/render/draw/draw";

const HEIGHT = 26;
const MARGIN = 12;

/**
 * Draws the caption if there is one; returns its height, in world px.
 *
 * Args:
 *   below: The distance between the view and the caption, in world px.
 */
export function drawCaption(drawing: Drawing, caption: string, below: number): number {
  if (caption === "") return 0;
  const { painter, palette, view, zoom } = drawing;
  const px = 1 / zoom;
  const font = { ...SMALL_SANS, size: SMALL_SANS.size * px };
  const room = view.width - 2 * MARGIN * px;
  painter.alpha(1);
  painter.text(
    view.x + MARGIN * px,
    view.y + view.height + below + 17 * px,
    truncate(printable(caption, 400), font, room),
    font,
    palette["text-2"],
  );
  return HEIGHT * px;
}
