/**
 * Where the time of steps went, as the page holds it, on the axis.
 *
 * Invariant: pure; blocks stand in order of time and do not overlap.
 */

import { formatCount, formatDuration } from "@/base/numbers";
import type { Axis } from "@/views/timeline/axis";
import { partWords } from "@/views/timeline/host";
import { numbersOf } from "@/wire/decode";
import { PARTS, type StepTimes, type Stretch, type TimePart } from "@/wire/types.gen";

export type Parts = Readonly<Record<TimePart, number>>;

/** One step, or several in a row. */
export interface StepBlock {
  readonly first: number;
  readonly last: number;
  readonly start: number;
  readonly end: number;
  readonly leftOut: number;
  readonly parts: Parts;
}

export function blocksOf(answer: StepTimes, axis: Axis): readonly StepBlock[] {
  const n = answer.count;
  const first = numbersOf(answer.first, n);
  const last = numbersOf(answer.last, n);
  const start = numbersOf(answer.start_ns, n);
  const end = numbersOf(answer.end_ns, n);
  const leftOut = numbersOf(answer.left_out, n);
  const parts = numbersOf(answer.parts, n * PARTS.length);
  return Array.from({ length: n }, (_, i) => ({
    first: first[i] ?? 0,
    last: last[i] ?? 0,
    start: axis.map(start[i] ?? 0),
    end: axis.map(end[i] ?? 0),
    leftOut: leftOut[i] ?? 0,
    parts: partsOf(parts.subarray(i * PARTS.length, (i + 1) * PARTS.length)),
  }));
}

export function blockOf(stretch: Stretch, axis: Axis): StepBlock {
  return {
    first: stretch.first,
    last: stretch.last,
    start: axis.map(stretch.start_ns),
    end: axis.map(stretch.end_ns),
    leftOut: stretch.left_out,
    parts: partsOf(stretch.parts),
  };
}

function partsOf(row: ArrayLike<number>): Parts {
  const parts = {} as Record<TimePart, number>;
  PARTS.forEach((name, i) => {
    parts[name] = row[i] ?? 0;
  });
  return parts;
}

export function blockName(block: StepBlock): string {
  return block.first === block.last
    ? `step ${formatCount(block.first)}`
    : `steps ${formatCount(block.first)}–${formatCount(block.last)}`;
}

/** `step 12 · 101 ms: data loading 99 ms, operations 1.1 ms`. */
export function blockWords(block: StepBlock, { running = false, partial = false } = {}): string {
  const took = `${blockName(block)} · ${formatDuration(block.end - block.start)}${running ? " so far" : ""}`;
  if (block.leftOut > 0 && block.first === block.last) return `${took}, not observed`;
  const held =
    block.parts.held > 0 ? `; held by the debugger for ${formatDuration(block.parts.held)}` : "";
  const missing = partial ? " (not every operation is recorded)" : "";
  const parts = partWords(block.parts);
  return `${took}${parts === "" ? "" : `: ${parts}`}${missing}${held}`;
}
