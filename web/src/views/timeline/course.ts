/**
 * What the timeline shows of one step in addition to its bars: the critical path, or the memory
 * that it needs; and the texts about them.
 *
 * Invariant: pure; unknown facts are named as such.
 */

import { formatBytes, formatCount, formatDuration, plural } from "@/base/numbers";
import type { Axis } from "@/views/timeline/axis";
import { numbersOf } from "@/wire/decode";
import type { CriticalPath, HeldValue, StepMemory } from "@/wire/types.gen";

/** The members of a path among the bars. */
export interface PathMarks {
  /** The index of a bar along the path; undefined if it is not on the path. */
  place(node: number, start: number): number | undefined;
}

export function marksOf(answer: CriticalPath, axis: Axis): PathMarks {
  const place = numbersOf(answer.place, answer.count);
  const node = numbersOf(answer.node, answer.count);
  const start = numbersOf(answer.start_ns, answer.count);
  const places = new Map<number, Map<number, number>>();
  for (let i = 0; i < answer.count; i++) {
    const own = places.get(node[i] ?? 0) ?? new Map<number, number>();
    own.set(axis.map(start[i] ?? 0), place[i] ?? 0);
    places.set(node[i] ?? 0, own);
  }
  return { place: (id, at) => places.get(id)?.get(at) };
}

/** Memory over time, on the axis: from each moment to the next. */
export interface MemoryCurve {
  readonly count: number;
  readonly time: ArrayLike<number>;
  readonly needed: ArrayLike<number>;
  readonly seq: ArrayLike<number>;
  readonly peak: number;
  /** The time of the peak. */
  readonly peakAt: readonly [start: number, end: number];
  /** The time of the step: nothing is known outside of it. */
  readonly span: readonly [start: number, end: number];
}

export function curveOf(
  answer: StepMemory,
  axis: Axis,
  span: readonly [number, number],
): MemoryCurve {
  const { count } = answer;
  return {
    count,
    time: Float64Array.from(numbersOf(answer.time_ns, count), (time) => axis.map(time)),
    needed: numbersOf(answer.needed, count),
    seq: numbersOf(answer.seq, count),
    peak: answer.peak,
    peakAt: [axis.map(answer.peak_ns), axis.map(answer.peak_end_ns)],
    span,
  };
}

export interface CurvePoint {
  readonly time: number;
  readonly needed: number;
  readonly seq: number;
}

/** The memory needed at a time; undefined outside of the step. */
export function pointAt(curve: MemoryCurve, time: number): CurvePoint | undefined {
  if (time < curve.span[0] || time > curve.span[1]) return undefined;
  let low = 0;
  let high = curve.count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((curve.time[middle] ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  const i = low - 1;
  if (i < 0) return undefined;
  return { time, needed: curve.needed[i] ?? 0, seq: curve.seq[i] ?? 0 };
}

/** `1.42 ms of 3.14 ms, 45 %`: the time of the path, of the step, and its share. */
export function pathWords(totalNs: number, stepNs: number): string {
  const share = stepNs > 0 ? `, ${percent(totalNs / stepNs)}` : "";
  return `${formatDuration(totalNs)} of ${formatDuration(stepNs)}${share}`;
}

function percent(share: number): string {
  const whole = Math.min(100, 100 * share);
  return `${whole > 0 && whole < 1 ? "<1" : Math.round(whole)} %`;
}

/** A sentence that explains the path. */
export function pathNote({ lanes }: CriticalPath, data: boolean): string {
  if (data) return "Each needs the result of the one before.";
  return lanes === 1
    ? "One thread ran all operations, so each waited for the one before."
    : "Each waited for the one before: for its result, or for its thread.";
}

/** Further notes: what the path says about the step, and what is not known. */
export function pathNotes(answer: CriticalPath, data: boolean): readonly string[] {
  const { nodes, heaviest } = answer;
  const more = nodes - heaviest.length;
  const together = formatDuration(answer.operations_ns);
  return [
    ...(more > 0 ? [plural(more, "more node")] : []),
    data
      ? `The operations would take so long if all others ran beside them; together they took ${together}.`
      : "In the rest of the step, no operation of the path ran.",
    ...(answer.partial ? ["Not every operation is recorded."] : []),
  ];
}

/** `24.0 MiB in 12 values`. */
export function heldWords(answer: StepMemory): string {
  const count = answer.values.length + answer.further;
  return `${formatBytes(answer.at)} in ${plural(count, "value")}`;
}

/** The lines below the list of values: what it leaves out, and what is not known. */
export function memoryNotes(answer: StepMemory): readonly string[] {
  const { further, unknown } = answer;
  return [
    ...(further > 0
      ? [`${plural(further, "more value")}, ${formatBytes(answer.further_nbytes)}`]
      : []),
    ...(unknown > 0
      ? [`${plural(unknown, "value")} of unknown size ${unknown === 1 ? "is" : "are"} not counted`]
      : []),
    ...(answer.partial ? ["Not every operation is recorded."] : []),
    "From its operation to the last one that reads it. What is kept for longer, or set aside by a library, is not known.",
  ];
}

/**
 * How long a value is needed, counted from `zero`: `needed from 20.1 µs to 34.0 µs; 2 more values
 * in the same memory`.
 */
export function lifetimeWords(value: HeldValue, axis: Axis, zero: number): string {
  const views = value.views > 0 ? `; ${plural(value.views, "more value")} in the same memory` : "";
  if (value.throughout) return `needed in the whole step${views}`;
  const from = formatDuration(axis.map(value.start_ns) - zero);
  const to = formatDuration(axis.map(value.end_ns) - zero);
  return `${value.seq === 0 ? "from before the step" : `needed from ${from}`} to ${to}${views}`;
}

/** The text while a course is computed, which takes seconds for a million executions. */
export function computingWords(seconds: number): string {
  return seconds < 1 ? "Computing…" : `Computing… ${seconds} s`;
}

/** Why there is nothing to show of a step; "" if there is something. */
export function nothingWords(
  step: number,
  { observed, count }: { readonly observed: boolean; readonly count: number },
): string {
  if (!observed) return `Step ${formatCount(step)} was not observed: what ran in it is not known.`;
  if (count === 0) return "No operation ran here.";
  return "";
}
