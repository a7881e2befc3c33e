/**
 * Long pauses shortened: a program that stood at a breakpoint for a minute and ran for a
 * millisecond must still show its millisecond.
 *
 * Invariant: the mapping is monotonic and leaves every execution its length; what was shortened is
 * marked with its true length.
 */

import type { StepRow } from "@/wire/types.gen";
import type { TimelineRows } from "@/views/timeline/spans";

export interface Pause {
  /** Where it is drawn. */
  readonly at: number;
  readonly drawn: number;
  readonly trueNs: number;
}

export interface Pauses {
  readonly pauses: readonly Pause[];
  /** From the program's clock to the axis. */
  map(time: number): number;
}

const SHORTEST_NS = 100_000;
/** A pause is shortened if it is longer than this share of all the work shown. */
const LONG = 0.5;
const DRAWN = 0.05;

export function pausesOf(rows: TimelineRows, from: number, to: number): Pauses {
  const order = Array.from({ length: rows.count }, (_, i) => i).sort(
    (a, b) => (rows.startNs[a] ?? 0) - (rows.startNs[b] ?? 0),
  );
  let busy = 0;
  let end = from;
  const gaps: { start: number; end: number }[] = [];
  for (const i of order) {
    const start = rows.startNs[i] ?? 0;
    const stop = start + (rows.durationNs[i] ?? 0);
    if (start > end) gaps.push({ start: end, end: start });
    busy += Math.max(0, stop - Math.max(start, end));
    end = Math.max(end, stop);
  }
  if (to > end) gaps.push({ start: end, end: to });
  const drawn = Math.max(busy * DRAWN, 1000);
  const cuts = gaps.filter((gap) => gap.end - gap.start > Math.max(busy * LONG, SHORTEST_NS));
  const map = (time: number): number => {
    let saved = 0;
    for (const cut of cuts) {
      if (time <= cut.start) break;
      const inside = Math.min(time, cut.end) - cut.start;
      saved += inside - (inside / (cut.end - cut.start)) * drawn;
    }
    return time - saved;
  };
  return {
    map,
    pauses: cuts.map((cut) => ({ at: map(cut.start), drawn, trueNs: cut.end - cut.start })),
  };
}

/** Rows with their starts on the axis. */
export function mapRows(rows: TimelineRows, map: (time: number) => number): TimelineRows {
  const startNs = new Float64Array(rows.count);
  for (let i = 0; i < rows.count; i++) startNs[i] = map(rows.startNs[i] ?? 0);
  return { ...rows, startNs };
}

export function mapStep(
  step: StepRow | undefined,
  map: (time: number) => number,
): StepRow | undefined {
  return (
    step && {
      ...step,
      start_ns: map(step.start_ns),
      end_ns: step.end_ns === null ? null : map(step.end_ns),
    }
  );
}
