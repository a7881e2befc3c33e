/**
 * The colour scale below an exported picture that is coloured by an amount.
 *
 * Invariant: drawn below the view, never on it; at the document's own size, whatever the zoom.
 */

import { type Font, textWidth } from "@/base/fonts_metrics";
import { SMALL_MONO, SMALL_SANS } from "@/layout/sizes";
import type { Drawing } from "@/render/draw/draw";
import { formatBytes, formatTime } from "@/render/draw/format";
import { sequential } from "@/render/draw/palette";

const HEIGHT = 30;
const LENGTH = 120;
const STEPS = 24;

/** Draws the scale if there is one; returns its height, in world px. */
export function drawScale(drawing: Drawing): number {
  const { painter, palette, colourBy, heatMost, view, zoom } = drawing;
  if ((colourBy !== "time" && colourBy !== "memory") || !(heatMost > 0)) return 0;
  const px = 1 / zoom;
  const top = view.y + view.height;
  const amount = (size: number): string =>
    colourBy === "time" ? formatTime(size) : formatBytes(Math.ceil(size));
  painter.alpha(1);
  painter.rect(view.x, top, view.width, HEIGHT * px, 0, palette["bg-panel"]);
  let x = view.x + 12 * px;
  const base = top + 19 * px;
  const words = (text: string, small: Font, colour: string): void => {
    const font = { ...small, size: small.size * px };
    painter.text(x, base, text, font, colour);
    x += textWidth(text, font) + 8 * px;
  };
  words(colourBy === "time" ? "Time" : "Memory of the outputs", SMALL_SANS, palette["text-2"]);
  words(`≤ ${amount(heatMost / 1000)}`, SMALL_MONO, palette["text-2"]);
  for (let k = 0; k < STEPS; k++) {
    const colour = sequential(palette, k / (STEPS - 1));
    painter.blocks([x, top + 11 * px, (LENGTH / STEPS + 0.5) * px, 8 * px], colour);
    x += (LENGTH / STEPS) * px;
  }
  x += 8 * px;
  words(amount(heatMost), SMALL_MONO, palette["text-2"]);
  words("logarithmic; a folded scope shows its total", SMALL_SANS, palette["text-3"]);
  return HEIGHT * px;
}
