/**
 * A stop that is told before all that ran up to it can be read.
 *
 * The program stands at once; its recorder may still be writing. Until the records are there, what
 * the page holds is older than the stop, so nothing of the stop is shown: one moment everywhere.
 *
 * Invariant: pure. A run without a recording never waits for one.
 */

import type { RunModel } from "@/store/run/run_model";

/** So long nothing may come before the stop is shown with what there is: the writer is gone. */
export const STILL_MS = 3000;

/** How many records up to the stop are still to come; 0 where all are there. */
export function recordsToCome(model: RunModel | undefined): number {
  const { session, info, seq } = model ?? {};
  if (session?.phase !== "stopped" || session.stop == null || info?.recording === "") return 0;
  return Math.max(0, session.stop.seq - (seq ?? 0));
}
