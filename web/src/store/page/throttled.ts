/**
 * A signal that follows another one at a limited rate, and always ends at its last value.
 *
 * Invariant: without changes, no timer runs.
 */

import { type Accessor, createEffect, createSignal, on, onCleanup } from "solid-js";

export function throttled<T>(source: Accessor<T>, ms: number): Accessor<T> {
  const [value, setValue] = createSignal<T>(source());
  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = Number.NEGATIVE_INFINITY;
  const publish = (): void => {
    timer = undefined;
    last = performance.now();
    setValue(() => source());
  };
  createEffect(
    on(
      source,
      () => {
        if (timer !== undefined) return;
        const rest = last + ms - performance.now();
        if (rest <= 0) publish();
        else timer = setTimeout(publish, rest);
      },
      { defer: true },
    ),
  );
  onCleanup(() => clearTimeout(timer));
  return value;
}
