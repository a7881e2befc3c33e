/**
 * The moment that the page shows, and moments at which breakpoints would have stopped.
 *
 * Invariant: pure.
 */

import type { Stop } from "@/wire/types.gen";

/** The moment that the page shows. */
export type Cursor =
  | { readonly kind: "live" }
  | { readonly kind: "past"; readonly seq: number; readonly step: number; readonly timeNs: number };

/** A moment at which a breakpoint would have stopped. */
export interface Reached {
  readonly seq: number;
  readonly node: number;
  readonly text: string;
}

/** The seq for requests about the moment shown, edits at the stop included; null: the latest. */
export function momentShown(store: {
  seq(): number | null;
  stop(): Stop | undefined;
  model(): { readonly seq: number } | undefined;
}): number | null {
  const stop = store.stop();
  return store.seq() ?? (stop === undefined ? null : Math.max(stop.seq, store.model()?.seq ?? 0));
}
