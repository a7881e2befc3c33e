/** The newest executions of a running program, as rows of the timeline. */

import type { Store } from "@/store/page/store";
import type { TimelineRows } from "@/views/timeline/spans";

/** At most `limit` of them, from a time on. */
export function ringRows(store: Store, from: number, limit: number): TimelineRows {
  const { ring } = store;
  const picked: number[] = [];
  for (let i = ring.length - 1; i >= 0 && picked.length < limit; i--) {
    const at = ring.at(i);
    if ((ring.startNs[at] ?? 0) < from) break;
    picked.push(at);
  }
  picked.reverse();
  const pick = (column: ArrayLike<number>) => picked.map((at) => column[at] ?? 0);
  return {
    count: picked.length,
    node: pick(ring.node),
    step: pick(ring.step),
    thread: pick(ring.thread),
    worker: pick(ring.worker),
    lane: pick(ring.lane),
    startNs: pick(ring.startNs),
    durationNs: pick(ring.durationNs),
    flags: pick(ring.flags),
  };
}
