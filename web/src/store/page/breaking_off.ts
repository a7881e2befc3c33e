/**
 * Cancelling long operations: the layout of a picture, the opening of a run.
 *
 * Invariant: the previous picture stays; if there is none, everything is folded.
 */

import type { Store } from "@/store/page/store";

/** Cancels the layout in progress; returns false if there is none. */
export function breakOff(
  store: Store,
  view: { breakOff(): ReadonlySet<string> | undefined } | undefined,
): boolean {
  const open = view?.breakOff();
  if (open === undefined) return false;
  store.setOpen(open);
  return true;
}

/** Whether the run's graph has been requested and has not arrived. */
export function opening(store: Pick<Store, "link" | "runId" | "model">): boolean {
  const asked = store.link().kind === "open" && store.runId() !== undefined;
  return asked && store.model() === undefined;
}

/** Cancels the request for the run. */
export function stopOpening(store: Store): void {
  const run = store.runId();
  if (run === undefined || !opening(store)) return;
  store.request({ type: "unsubscribe", run }, "done").catch(() => undefined);
}
