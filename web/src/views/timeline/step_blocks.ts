/**
 * Where the time of steps went, in the page's form and on the axis.
 *
 * Invariant: pure; blocks are in order of time and do not overlap.
 */

import { formatCount, formatDuration } from "@/base/numbers";
import type { Axis } from "@/views/timeline/axis";
import { partWords } from "@/views/timeline/host";
import { numbersOf } from "@/wire/decode";
import { PARTS, type StepRow, type StepTimes, type Stretch, type TimePart } from "@/wire/types.gen";

export type Parts = Readonly<Record<TimePart, number>>;

/** One step, several consecutive ones, or the time after one and before the next. */
export interface StepBlock {
  readonly after: boolean;
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
  const after = numbersOf(answer.after, n);
  const parts = numbersOf(answer.parts, n * PARTS.length);
  return Array.from({ length: n }, (_, i) => ({
    after: after[i] === 1,
    first: first[i] ?? 0,
    last: last[i] ?? 0,
    start: axis.map(start[i] ?? 0),
    end: axis.map(end[i] ?? 0),
    leftOut: leftOut[i] ?? 0,
    parts: partsOf(parts.subarray(i * PARTS.length, (i + 1) * PARTS.length)),
  }));
}

/** Whether no step of the block was observed. */
export function isUnseen(block: StepBlock): boolean {
  return block.leftOut >= block.last - block.first + 1;
}

export function blockOf(stretch: Stretch, axis: Axis): StepBlock {
  return {
    after: stretch.after,
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

/** The step of a block at a time on the program's clock; of several, the last that had begun. */
export function stepIn(
  steps: readonly StepRow[],
  block: Pick<StepBlock, "first" | "last">,
  timeNs: number,
): StepRow | undefined {
  const inside = steps.filter((row) => row.step >= block.first && row.step <= block.last);
  return inside.findLast((row) => row.start_ns <= timeNs) ?? inside[0];
}

/** The moment for a step: at its last record; for a running one, the newest. */
export function lastSeqOf(row: StepRow, newest: number): number {
  return Math.max(1, row.start_seq, row.end_seq ?? newest);
}

/**
 * The moment shown: for a stopped or ended program, the end of the known part of its step; of a
 * program that ended within it (`over`), never what came later, such as printing the error.
 */
export function markAt(
  moment: number,
  block: StepBlock | undefined,
  newest: boolean,
  over = false,
): number {
  if (over && block !== undefined) return block.end;
  return newest ? Math.max(moment, block?.end ?? moment) : moment;
}

export function blockName(block: StepBlock): string {
  if (block.after) return `after step ${formatCount(block.last)}`;
  return block.first === block.last
    ? `step ${formatCount(block.first)}`
    : `steps ${formatCount(block.first)}–${formatCount(block.last)}`;
}

/**
 * `step 12 · 101 ms: data loading 99 ms, operations 1.1 ms`.
 *
 * Args:
 *   timed: The times of operations are known, and so is the time between them.
 *   short: Uses the short words of the key above, for places with little room.
 *   most: How many parts are named, the largest ones first.
 *   after: The moment shown is after the step.
 */
export function blockWords(
  block: StepBlock,
  {
    running = false,
    partial = false,
    timed = true,
    short = false,
    most = Number.POSITIVE_INFINITY,
    after = false,
  } = {},
): string {
  const name = blockName(block);
  const head = after && !block.after ? `after ${name}, which took` : `${name} ·`;
  const took = `${head} ${formatDuration(block.end - block.start)}${running && !short ? " so far" : ""}`;
  if (block.leftOut > 0 && block.first === block.last) return `${took}, not observed`;
  const holder = short ? "held" : "held by the debugger for";
  const heldText = block.parts.held > 0 ? `; ${holder} ${formatDuration(block.parts.held)}` : "";
  const missing = partial ? " (not every operation is recorded)" : "";
  const parts = timed ? partWords(block.parts, short, most) : "";
  return `${took}${parts === "" ? "" : `: ${parts}`}${missing}${heldText}`;
}
