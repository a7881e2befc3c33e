/**
 * The moment that the page shows, and moments that breakpoints name.
 *
 * Invariant: types only.
 */

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
