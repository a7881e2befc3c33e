/**
 * The changes that a step made to the graph, in one line that marks them on the canvas.
 *
 * Invariant: shown only if something changed; with the same signs as on the canvas and in the
 * outline.
 */

import { For, type JSX, Show } from "solid-js";
import { formatCount } from "@/base/numbers";
import { CHANGE_KINDS, type ChangeKind, type StepChanges } from "@/store/history/changes";
import type { Ui } from "@/store/page/ui";
import { ChangeSign } from "@/widgets/change_sign";

const MEANINGS: Readonly<Record<ChangeKind, string>> = {
  new: "seen for the first time",
  rewired: "inputs changed",
  skipped: "in earlier steps, not in this one",
};

export function ChangesChip(props: {
  readonly ui: Ui;
  readonly changes: StepChanges | undefined;
  /** Whether the last execution came after the step, as in an evaluation. */
  readonly after: boolean;
}): JSX.Element {
  return (
    <Show when={props.changes}>
      {(changes) => (
        <button
          type="button"
          class="changes-chip"
          classList={{ on: props.ui.showChanges() }}
          data-testid="graph-changes"
          aria-pressed={props.ui.showChanges()}
          aria-busy={!changes().complete}
          title={hint(changes())}
          onPointerEnter={() => props.ui.setPeekChanges(true)}
          onPointerLeave={() => props.ui.setPeekChanges(false)}
          onClick={() => {
            props.ui.setShowChanges(!props.ui.showChanges());
            props.ui.setPeekChanges(false);
          }}
        >
          <span class="t3 changes-step">
            <span class="wide">graph </span>
            {props.after ? "after" : "in"} step {formatCount(changes().step)}
          </span>
          <For each={CHANGE_KINDS.filter((kind) => changes().counts[kind] > 0)}>
            {(kind) => (
              <span class="changes-part">
                <ChangeSign kind={kind} />
                <b class="m">{formatCount(changes().counts[kind])}</b>{" "}
                <span class="changes-kind">{kind}</span>
              </span>
            )}
          </For>
        </button>
      )}
    </Show>
  );
}

function hint(changes: StepChanges): string {
  const lines = CHANGE_KINDS.filter((kind) => changes.counts[kind] > 0).map(
    (kind) => `${formatCount(changes.counts[kind])} ${kind}: ${MEANINGS[kind]}`,
  );
  return [`Nodes in step ${changes.step}`, ...lines, "Click to mark them (G)"].join("\n");
}

/** The legend's lines for the marks. */
export function ChangesKey(props: { readonly changes: StepChanges }): JSX.Element {
  return (
    <div class="legend-group" data-testid="legend-group">
      <h4>In step {formatCount(props.changes.step)}</h4>
      <For each={CHANGE_KINDS.filter((kind) => props.changes.counts[kind] > 0)}>
        {(kind) => (
          <div title={MEANINGS[kind]}>
            <span class={`key-box change-${kind}`}>
              <ChangeSign kind={kind} />
            </span>
            {kind}
          </div>
        )}
      </For>
      <Show when={props.changes.counts.rewired > 0}>
        <div>
          <span class="key-line" />
          previous input
        </div>
      </Show>
    </div>
  );
}
