/**
 * The focus of forms and popovers: to their first field when they open, back to its previous place
 * when they close.
 *
 * Invariant: a focus that the user has moved elsewhere in the meantime is left there.
 */

import { onCleanup, onMount } from "solid-js";

const FIRST = "input:not([type=checkbox]):not([type=file]), textarea, select";

/** The place of the focus before each open box. */
const befores = new Map<HTMLElement, Element | null>();

/** Where the focus is about to return to, while a box closes. */
let returning: Element | null = null;

/** Where to return to: not into another box, which closes as this one opens. */
function outside(element: Element | null): Element | null {
  if ((element === null || element === document.body) && returning !== null) return returning;
  for (const [box, before] of befores) if (box.contains(element)) return outside(before);
  return element;
}

/**
 * To be called while the component that has the box is made.
 *
 * Args:
 *   box: The form or popover.
 *   first: A selector of the field to begin with; the first one if left out, the box if none.
 */
export function takeFocus(box: () => HTMLElement, first = FIRST): void {
  const before = outside(document.activeElement);
  onMount(() => {
    befores.set(box(), before);
    (box().querySelector<HTMLElement>(first) ?? box()).focus();
  });
  onCleanup(() => {
    befores.delete(box());
    const active = document.activeElement;
    const lost = active === null || active === document.body || box().contains(active);
    if (!lost || !(before instanceof HTMLElement) || before === document.body) return;
    returning = before;
    queueMicrotask(() => {
      returning = null;
      const now = document.activeElement;
      const free = now === null || now === document.body || !now.isConnected;
      if (free && before.isConnected) before.focus({ preventScroll: true });
    });
  });
}
