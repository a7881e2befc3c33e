/**
 * Breaking off what takes long: the layout of a picture, the opening of a run.
 *
 * Invariant: what was shown before stays; without a picture, everything is folded.
 */

import type { Store } from "@/store/page/store";

/** Ends a layout that is under way; false if none is. */
export function breakOff(
  store: Store,
  view: { breakOff(): ReadonlySet<string> | undefined } | undefined,
): boolean {
  const open = view?.breakOff();
  if (open === undefined) return false;
  store.setOpen(open);
  return true;
}

/** Whether the run's graph is still to come. */
export function opening(store: Pick<Store, "link" | "runId" | "model">): boolean {
  const asked = store.link().kind === "open" && store.runId() !== undefined;
  return asked && store.model() === undefined;
}

/** Asks for the run no longer. */
export function stopOpening(store: Store): void {
  const run = store.runId();
  if (run === undefined || !opening(store)) return;
  store.request({ type: "unsubscribe", run }, "done").catch(() => undefined);
}
