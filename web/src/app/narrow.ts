/**
 * Whether there is room for the breakpoints beside the dock's tabs; where there is none, they are
 * one of its tabs.
 *
 * Invariant: the width here is that of the styles.
 */

import { type Accessor, createSignal, onCleanup } from "solid-js";

const NARROW = "(max-width: 1120px)";

export function createNarrow(): Accessor<boolean> {
  const query = window.matchMedia(NARROW);
  const [narrow, setNarrow] = createSignal(query.matches);
  const listen = (): void => void setNarrow(query.matches);
  query.addEventListener("change", listen);
  onCleanup(() => query.removeEventListener("change", listen));
  return narrow;
}
