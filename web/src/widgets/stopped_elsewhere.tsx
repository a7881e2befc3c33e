/**
 * Programs of this server that are stopped while the page shows another run.
 *
 * Invariant: the open page keeps these stops, so each is named, with a way back to it.
 */

import { For, type JSX } from "solid-js";
import { printable } from "@/base/printable";
import type { Store } from "@/store/page/store";

/** A banner for each program that waits in a stop while another run is shown. */
export function StoppedElsewhere(props: {
  readonly store: Store;
  openRun(run: string): void;
}): JSX.Element {
  return (
    <For each={props.store.stoppedElsewhere()}>
      {(stopped) => (
        <div class="banner calm" role="status" data-testid="stopped-elsewhere">
          <span class="lamp now" aria-hidden="true" />
          <span>
            {printable(stopped.name, 60)} is stopped at {printable(stopped.node, 80)} and waits, as
            long as a page of this server is open.
          </span>
          <button type="button" class="btn" onClick={() => props.openRun(stopped.run)}>
            Back to it
          </button>
        </div>
      )}
    </For>
  );
}
