/**
 * Moves the focus of forms and popovers: to their first field when they open, back to its previous
 * place when they close.
 *
 * Invariant: a focus that the user has moved elsewhere in the meantime stays there.
 */

import { onCleanup, onMount } from "solid-js";

const FIRST = "input:not([type=checkbox]):not([type=file]), textarea, select";

/** The element that had the focus before each open box. */
const befores = new Map<HTMLElement, Element | null>();

/** The element that the focus is about to return to, while a box closes. */
let returning: Element | null = null;

/** The element to return to: not one in another box, which closes as this one opens. */
function outside(element: Element | null): Element | null {
  if ((element === null || element === document.body) && returning !== null) return returning;
  for (const [box, before] of befores) if (box.contains(element)) return outside(before);
  return element;
}

/**
 * Call it while the component that contains the box is created.
 *
 * Args:
 *   box: The form or popover.
 *   first: A selector of the field to focus; by default the first field. The box if none matches.
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
