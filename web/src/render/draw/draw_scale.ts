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

interface Scale {
  readonly title: string;
  readonly least: string;
  readonly most: string;
  /** Whether its colours are those of the sequential scale. */
  readonly ramp: boolean;
  readonly words: string;
}

function scaleOf({ colourBy, heatMost, amounts }: Drawing): Scale | undefined {
  if (colourBy === "amount") {
    const { scale, least, most, colour, values } = amounts;
    if (scale === undefined || values.size === 0) return undefined;
    return {
      title: scale.title,
      least: least === undefined ? `≤ ${scale.format(most / 1000)}` : scale.format(least),
      most: scale.format(most),
      ramp: colour === undefined,
      words: `${least === undefined ? "logarithmic; " : ""}a folded scope: ${scale.folded}`,
    };
  }
  if ((colourBy !== "time" && colourBy !== "memory") || !(heatMost > 0)) return undefined;
  const amount = (size: number): string =>
    colourBy === "time" ? formatTime(size) : formatBytes(Math.ceil(size));
  return {
    title: colourBy === "time" ? "Time" : "Memory of the outputs",
    least: `≤ ${amount(heatMost / 1000)}`,
    most: amount(heatMost),
    ramp: true,
    words: "logarithmic; a folded scope shows its total",
  };
}

/** Draws the scale if there is one; returns its height, in world px. */
export function drawScale(drawing: Drawing): number {
  const { painter, palette, view, zoom } = drawing;
  const scale = scaleOf(drawing);
  if (scale === undefined) return 0;
  const px = 1 / zoom;
  const top = view.y + view.height;
  painter.alpha(1);
  painter.rect(view.x, top, view.width, HEIGHT * px, 0, palette["bg-panel"]);
  let x = view.x + 12 * px;
  const base = top + 19 * px;
  const words = (text: string, small: Font, colour: string): void => {
    const font = { ...small, size: small.size * px };
    painter.text(x, base, text, font, colour);
    x += textWidth(text, font) + 8 * px;
  };
  words(scale.title, SMALL_SANS, palette["text-2"]);
  words(scale.least, SMALL_MONO, palette["text-2"]);
  for (let k = 0; scale.ramp && k < STEPS; k++) {
    const colour = sequential(palette, k / (STEPS - 1));
    painter.blocks([x, top + 11 * px, (LENGTH / STEPS + 0.5) * px, 8 * px], colour);
    x += (LENGTH / STEPS) * px;
  }
  if (scale.ramp) x += 8 * px;
  else words("–", SMALL_MONO, palette["text-2"]);
  words(scale.most, SMALL_MONO, palette["text-2"]);
  words(scale.words, SMALL_SANS, palette["text-2"]);
  return HEIGHT * px;
}
