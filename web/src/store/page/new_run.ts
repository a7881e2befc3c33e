/**
 * A run that begins while another one is shown, such as by a second `ns.attach()`: it is shown at
 * once, or offered.
 *
 * Invariant: the page leaves a run by itself only if that run is over, the same program began the
 * new one, and the user has not selected anything.
 */

import { type Accessor, createEffect, createSignal, on } from "solid-js";
import { formatClock } from "@/base/dates";
import { printable } from "@/base/printable";
import type { Store } from "@/store/page/store";
import type { RunInfo } from "@/wire/types.gen";

export interface NewRun {
  /** The newest run that began in the meantime and is not shown. */
  readonly offered: Accessor<RunInfo | undefined>;
  show(): void;
  dismiss(): void;
}

export function createNewRun(store: Store): NewRun {
  const [offeredId, setOfferedId] = createSignal<string>();
  /** Runs listed before; undefined until the first list has arrived. */
  let listed: ReadonlySet<string> | undefined;

  createEffect(
    on(store.runs, (runs) => {
      const begun = runs
        .filter((run) => beganHere(run) && listed?.has(run.id) === false)
        .sort((a, b) => b.started_unix_ns - a.started_unix_ns)[0];
      if (runs.length > 0) listed = new Set([...(listed ?? []), ...runs.map((run) => run.id)]);
      const shown = runs.find((run) => run.id === store.runId());
      if (begun === undefined || shown === undefined || begun.id === shown.id) return;
      if (shown.state !== "live" && sameProgram(shown, begun) && !lookedAt(store)) {
        store.openRun(begun.id);
        store.board.announce(`A new run of ${printable(begun.name, 60)} began and is shown now.`);
      } else setOfferedId(begun.id);
    }),
  );

  const offered = (): RunInfo | undefined => {
    const run = store.runs().find((candidate) => candidate.id === offeredId());
    return run === undefined || run.id === store.runId() ? undefined : run;
  };
  return {
    offered,
    show: () => {
      const run = offered();
      if (run !== undefined) store.openRun(run.id);
    },
    dismiss: () => void setOfferedId(undefined),
  };
}

/** The offer, as a sentence. */
export function offerWords(run: RunInfo): string {
  return `A new run of ${printable(run.name, 60)} began at ${formatClock(run.started_unix_ns / 1e6)}.`;
}

/**
 * Whether the program sent the run to this server: a recording may be opened at any time. A short
 * run may be over when the page first hears of it.
 */
function beganHere(run: RunInfo): boolean {
  return run.state === "live" || run.state === "finished";
}

function sameProgram(a: RunInfo, b: RunInfo): boolean {
  return a.name === b.name && a.argv.join("\0") === b.argv.join("\0");
}

function lookedAt(store: Store): boolean {
  return store.cursor().kind === "past" || store.pinned() !== undefined || store.chosen();
}
