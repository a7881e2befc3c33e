/**
 * A chip on the canvas for a layout that takes long: its progress, and a button that cancels it.
 *
 * Invariant: a quick layout shows no chip.
 */

import { createEffect, createSignal, type JSX, onCleanup, Show } from "solid-js";
import type { Ui } from "@/store/page/ui";

const LONG_MS = 400;

export function LayoutChip(props: { readonly ui: Ui; breakOff(): void }): JSX.Element {
  const [long, setLong] = createSignal(false);
  createEffect(() => {
    if (!props.ui.layoutBusy()) return;
    const timer = setTimeout(() => setLong(true), LONG_MS);
    onCleanup(() => {
      clearTimeout(timer);
      setLong(false);
    });
  });
  const share = () => Math.round(100 * Math.min(props.ui.layoutShare(), 1));
  return (
    <Show when={long()}>
      <div class="layout-chip" data-testid="layout-chip">
        <span role="status">Laying out…</span>
        <Show when={share() > 0}>
          <progress max="100" value={share()} aria-label="Laid out" />
        </Show>
        <button type="button" data-testid="break-off" onClick={() => props.breakOff()}>
          Cancel <kbd>Esc</kbd>
        </button>
      </div>
    </Show>
  );
}
