/**
 * A stop that is announced before all earlier records can be read.
 *
 * The program stops at once; its recorder may still be writing. Until the records have arrived, the
 * page's data is older than the stop, so the stop is not shown: all views show the same moment.
 *
 * Invariant: pure. A run without a recording never waits for one.
 */

import type { RunModel } from "@/store/run/run_model";

/** After this long without new records, the writer counts as gone and the stop is shown anyway. */
export const STILL_MS = 3000;

/** Number of records before the stop still to arrive; 0 if all are there. */
export function recordsToCome(model: RunModel | undefined): number {
  const { session, info, seq } = model ?? {};
  if (session?.phase !== "stopped" || session.stop == null || info?.recording === "") return 0;
  return Math.max(0, session.stop.seq - (seq ?? 0));
}
