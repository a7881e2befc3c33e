/**
 * Keeps the page's address in step with its state.
 *
 * Invariant: the address is replaced, never pushed, so that the browser's back button leaves the
 * page.
 */

import { createEffect } from "solid-js";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { Ui } from "@/store/page/ui";
import { writeAddress } from "@/store/page/url";
import type { Looking } from "@/store/page/views";

const WRITE_MS = 300;

/** Writes only while `active`: a comparison writes its own address. */
export function followAddress(
  store: Store,
  ui: Ui,
  view: () => Looking | undefined,
  active: () => boolean,
): void {
  const placed = throttled(ui.placed, WRITE_MS);
  const text = () => {
    const cursor = store.cursor();
    return writeAddress({
      run: store.runId(),
      selection: store.selection(),
      open: store.model() === undefined ? undefined : [...store.folds().open],
      seq: cursor.kind === "past" ? cursor.seq : undefined,
      tab: ui.dockTab() === "timeline" ? undefined : ui.dockTab(),
      changes: ui.showChanges(),
      control: ui.controlEdges(),
      at: placed() > 0 ? view()?.viewpoint() : undefined,
      colour: ui.colourBy() === "family" ? undefined : ui.colourBy(),
    });
  };
  // Browsers limit how often an address may change.
  const calm = throttled(text, WRITE_MS);
  createEffect(() => {
    if (store.model() === undefined) return;
    const address = `${location.pathname}#${calm()}`;
    if (active()) history.replaceState(null, "", address);
  });
}
