/**
 * Draws steps on the timeline: a band of their names or, if there are too many to show executions,
 * each as a stack of the parts of its time.
 *
 * Invariant: steps below a pixel are drawn once per pixel.
 */

import { textWidth } from "@/base/fonts_metrics";
import { formatCount, formatDuration } from "@/base/numbers";
import { PART_COLOURS } from "@/views/timeline/host";
import { blockName, type StepBlock } from "@/views/timeline/step_blocks";
import type { Surface } from "@/widgets/canvas";
import type { TimePart } from "@/wire/types.gen";

export interface Steps {
  readonly blocks: readonly StepBlock[];
  /** The step that the page shows. */
  readonly step: number;
  /** Whether the time after that step is shown. */
  readonly after: boolean;
}

export interface Place {
  x(time: number): number;
  readonly left: number;
  readonly top: number;
  readonly height: number;
}

/** From bottom to top: the program's computations, then its waiting. */
const STACK: readonly TimePart[] = [
  "forward",
  "backward",
  "optimizer",
  "other",
  "between",
  "python",
  "compiling",
  "waiting",
  "data",
];

const SANS = { face: "sans", weight: 400, size: 10 } as const;
const LABEL_H = 15;

function isHere(block: StepBlock, steps: Steps): boolean {
  return block.first <= steps.step && steps.step <= block.last && block.after === steps.after;
}

export function drawBand({ g, width, colour }: Surface, steps: Steps, place: Place): void {
  g.font = `10px ${colour("--sans")}`;
  let last = Number.NEGATIVE_INFINITY;
  let labelled = Number.NEGATIVE_INFINITY;
  const labels: (() => void)[] = [];
  for (const block of steps.blocks) {
    const left = Math.max(place.left, place.x(block.start));
    const right = Math.min(width, place.x(block.end));
    if (right < place.left || left > width) continue;
    if (right - left < 1 && right - last < 0.7) continue;
    last = right;
    const w = Math.max(1, right - left - (right - left > 3 ? 1 : 0));
    const isCurrent = isHere(block, steps);
    g.fillStyle = colour(isCurrent ? "--bg-active" : "--bg-raised");
    g.fillRect(left, place.top, w, place.height);
    if (w < 14) continue;
    const name = blockName(block);
    const full = `${name} · ${formatDuration(block.end - block.start)}`;
    const words = block.after ? [full, name, "after"] : [full, name];
    const fitting = words.find((candidate) => textWidth(candidate, SANS) < w - 6);
    if (fitting === undefined && (block.after || left < labelled)) continue;
    const text = fitting ?? formatCount(block.first);
    // Measured with zeros as digits, so that columns of equal width are labelled alike.
    const wide = textWidth(text.replace(/\d/g, "0"), SANS);
    const at = left + Math.max(1, Math.min(4, (w - wide) / 2));
    if (fitting === undefined && at + wide > width) continue;
    labelled = at + wide + 1;
    labels.push(() => {
      g.fillStyle = colour(isCurrent ? "--text" : "--text-3");
      g.fillText(text, at, place.top + place.height / 2 + 3.5);
    });
  }
  for (const label of labels) label(); // a number may reach into the next column
}

export function drawStacks({ g, width, colour }: Surface, steps: Steps, place: Place): void {
  const fills = STACK.map((part) => colour(PART_COLOURS[part]));
  const top = place.top + LABEL_H;
  const high = place.height - LABEL_H;
  g.font = `10px ${colour("--sans")}`;
  let labelled = Number.NEGATIVE_INFINITY;
  for (const block of steps.blocks) {
    const left = Math.max(place.left, place.x(block.start));
    const right = Math.min(width, place.x(block.end));
    if (right < place.left || left > width) continue;
    const w = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
    const whole = STACK.reduce((sum, part) => sum + block.parts[part], 0);
    let y = top + high;
    // Blocks with steps that were left out are paler: their times are not known.
    g.globalAlpha = 1 - 0.65 * (block.leftOut / (block.last - block.first + 1));
    STACK.forEach((part, i) => {
      const h = whole > 0 ? (block.parts[part] / whole) * high : 0;
      if (h <= 0) return;
      g.fillStyle = fills[i] ?? "";
      g.fillRect(left, y - h, w, h);
      y -= h;
    });
    g.globalAlpha = 1;
    const isCurrent = isHere(block, steps);
    if (isCurrent) {
      g.fillStyle = colour("--now");
      g.fillRect(left, top + high + 1, Math.max(w, 2), 2);
    }
    if (block.after) continue;
    const text = formatCount(block.first);
    const wide = textWidth(text, SANS);
    if (left < labelled || (wide > w && left + wide > width)) continue;
    g.fillStyle = colour(isCurrent ? "--text" : "--text-3");
    g.fillText(text, left, place.top + 10);
    labelled = left + wide + 14;
  }
}
