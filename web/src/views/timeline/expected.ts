/**
 * The expected continuation of the running step: what followed in the previous step.
 *
 * Invariant: pure; nodes that have run in this step are never expected again, and none before the
 * moment shown.
 */

import type { TimelineRows } from "@/views/timeline/spans";
import type { StepRow } from "@/wire/types.gen";

const NONE: TimelineRows = {
  count: 0,
  node: [],
  step: [],
  thread: [],
  startNs: [],
  durationNs: [],
};

/**
 * The executions of `before` after the last one of `now`, moved so that they follow the moment.
 * None if the step takes another course than the previous one.
 */
export function expectedRows(
  rows: TimelineRows,
  now: StepRow,
  before: StepRow,
  moment: number,
): TimelineRows {
  const runs = new Map<number, number>();
  let last: number | undefined;
  const earlier: number[] = [];
  const order = Array.from({ length: rows.count }, (_, i) => i).sort(
    (a, b) => (rows.startNs[a] ?? 0) - (rows.startNs[b] ?? 0),
  );
  for (const i of order) {
    const step = rows.step[i];
    if (step === before.step) earlier.push(i);
    if (step !== now.step || (rows.startNs[i] ?? 0) > moment) continue;
    const node = rows.node[i] ?? 0;
    runs.set(node, (runs.get(node) ?? 0) + 1);
    last = i;
  }
  const from = earlier[0];
  if (from === undefined) return NONE;
  // How often each node had run in the previous step, up to the same point.
  const seen = new Map<number, number>();
  let place = last === undefined ? 0 : -1;
  let then = before.start_ns;
  earlier.forEach((i, k) => {
    const node = rows.node[i] ?? 0;
    const times = (seen.get(node) ?? 0) + 1;
    seen.set(node, times);
    if (last !== undefined && node === rows.node[last] && times === runs.get(node)) {
      place = k + 1;
      then = (rows.startNs[i] ?? 0) + (rows.durationNs[i] ?? 0);
    }
  });
  if (place < 0) return NONE;
  const base = last === undefined ? Math.max(now.start_ns, moment) : moment;
  const left = new Map(runs);
  const rest: number[] = [];
  earlier.forEach((i, k) => {
    const node = rows.node[i] ?? 0;
    const done = left.get(node) ?? 0;
    if (done > 0) left.set(node, done - 1);
    else if (k >= place) rest.push(i);
  });
  return {
    count: rest.length,
    node: rest.map((i) => rows.node[i] ?? 0),
    step: rest.map(() => now.step),
    thread: rest.map((i) => rows.thread[i] ?? 0),
    worker: rest.map((i) => rows.worker?.[i] ?? 0),
    lane: rest.map((i) => rows.lane?.[i] ?? 0),
    startNs: rest.map((i) => Math.max(base, (rows.startNs[i] ?? 0) - then + base)),
    durationNs: rest.map((i) => rows.durationNs[i] ?? 0),
  };
}
