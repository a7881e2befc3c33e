/**
 * Keys pressed in a field or form.
 *
 * Invariant: function keys reach the debugger wherever the focus is.
 */

/** Keeps a key from the page's own commands, unless it is a function key. */
export function keepKey(event: Pick<KeyboardEvent, "key" | "stopPropagation">): void {
  if (!/^F\d+$/.test(event.key)) event.stopPropagation();
}
