/**
 * Whether the breakpoints fit beside the dock's tabs; otherwise they are one of the tabs.
 *
 * Invariant: the width equals that in the styles.
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
