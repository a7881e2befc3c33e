/**
 * From the program's clock to the axis: time held by the debugger is removed, and nothing else.
 *
 * Invariant: the mapping is monotonic; moments outside of holds keep their distances, and each hold
 * is a single point with its true length.
 */

import type { TimelineRows } from "@/views/timeline/spans";

export interface Hold {
  /** On the axis. */
  readonly at: number;
  readonly trueNs: number;
}

export interface Axis {
  readonly holds: readonly Hold[];
  /** From the program's clock to the axis. */
  map(time: number): number;
  /** The inverse; at a hold, its end. */
  unmap(at: number): number;
}

/** `pairs` are starts and ends of holds, in order of time. */
export function axisOf(pairs: ArrayLike<number>): Axis {
  const count = Math.floor(pairs.length / 2);
  const starts = new Float64Array(count);
  const ends = new Float64Array(count);
  /** Time removed before each hold. */
  const out = new Float64Array(count + 1);
  for (let i = 0; i < count; i++) {
    starts[i] = pairs[2 * i] ?? 0;
    ends[i] = Math.max(pairs[2 * i + 1] ?? 0, starts[i] ?? 0);
    out[i + 1] = (out[i] ?? 0) + (ends[i] ?? 0) - (starts[i] ?? 0);
  }
  const holds = Array.from({ length: count }, (_, i) => ({
    at: (starts[i] ?? 0) - (out[i] ?? 0),
    trueNs: (ends[i] ?? 0) - (starts[i] ?? 0),
  }));
  return {
    holds,
    map(time) {
      const i = below(count, (k) => (starts[k] ?? 0) < time);
      if (i === 0) return time;
      const end = ends[i - 1] ?? 0;
      // A time within a hold maps to the point of the hold.
      return Math.max(time, end) - (out[i] ?? 0);
    },
    unmap(at) {
      const i = below(count, (k) => (holds[k]?.at ?? 0) <= at);
      return at + (out[i] ?? 0);
    },
  };
}

/** Whether two axes map alike: holds at the same places remove the same time. */
export function sameAxis(a: Axis, b: Axis): boolean {
  return (
    a.holds.length === b.holds.length &&
    a.holds.every(({ at, trueNs }, i) => at === b.holds[i]?.at && trueNs === b.holds[i]?.trueNs)
  );
}

/** How many of the first `count` satisfy a condition that holds up to some point. */
function below(count: number, is: (index: number) => boolean): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Rows on the axis. */
export function mapRows(rows: TimelineRows, axis: Axis): TimelineRows {
  if (axis.holds.length === 0) return rows;
  const startNs = new Float64Array(rows.count);
  const durationNs = new Float64Array(rows.count);
  for (let i = 0; i < rows.count; i++) {
    const start = rows.startNs[i] ?? 0;
    startNs[i] = axis.map(start);
    durationNs[i] = axis.map(start + (rows.durationNs[i] ?? 0)) - (startNs[i] ?? 0);
  }
  return { ...rows, startNs, durationNs };
}
