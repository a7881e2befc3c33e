/**
 * The canvas's text while there is nothing to draw.
 *
 * Invariant: each state says what the situation is and what to do.
 */

import { createSignal, type JSX, Match, Show, Switch } from "solid-js";
import type { Store } from "@/store/page/store";
import { AdviceCard } from "@/widgets/advice";
import { IconButton } from "@/widgets/icon";
import type { Advice } from "@/wire/types.gen";

export function EmptyState(props: {
  readonly store: Store;
  readonly advice: Advice | undefined;
  /** Leaves the run that is being opened. */
  stopOpening(): void;
}): JSX.Element {
  const link = () => props.store.link().kind;
  const nodes = () => props.store.model()?.graph.count ?? 0;
  const phase = () => props.store.session()?.phase;
  return (
    <Show when={nodes() === 0}>
      <div class="hello" data-testid="empty">
        <Switch>
          <Match when={link() === "connecting"}>
            <h3>Connecting…</h3>
            <p>
              to the server that <code>nodescope run</code> started.
            </p>
          </Match>
          <Match when={link() === "refused" || link() === "skew"}>
            <h3>Not connected</h3>
            <p>The message at the top says why and what to do.</p>
          </Match>
          <Match when={props.store.runId() === undefined}>
            <h3>No run yet</h3>
            <p>
              <code>nodescope run train.py</code> starts one. It appears here automatically.
            </p>
          </Match>
          <Match when={props.store.model() === undefined}>
            <h3>Opening the run…</h3>
            <p>The server is reading its recording.</p>
            <p>
              <button type="button" data-testid="break-off" onClick={() => props.stopOpening()}>
                Cancel <kbd>Esc</kbd>
              </button>
            </p>
          </Match>
          <Match when={phase() === "stopped"}>
            <h3>Stopped on entry</h3>
            <p>
              No operation has run yet. <kbd>F11</kbd> runs the first one, <kbd>F8</kbd> a whole
              training step, <kbd>F5</kbd> continues.
            </p>
          </Match>
          <Match when={props.store.model()?.info.state === "live"}>
            <h3>Running</h3>
            <p>No operation has run yet: the program has not reached its first operation.</p>
          </Match>
          <Match when={props.advice}>{(advice) => <AdviceCard advice={advice()} />}</Match>
          <Match when={true}>
            <h3>An empty run</h3>
            <p>It ended before any nodescope operation ran. Its output is in the console.</p>
          </Match>
        </Switch>
      </div>
    </Show>
  );
}

/** A handful of nodes: the user may not know that the graph grows as the program runs. */
const FEW_NODES = 6;

/** At the first stop with a few nodes: what to press next. Never shown again once closed. */
export function NextHint(props: { readonly store: Store }): JSX.Element {
  const [closed, setClosed] = createSignal(false);
  const shown = () => {
    const nodes = props.store.model()?.graph.count ?? 0;
    return (
      !closed() &&
      nodes > 0 &&
      nodes <= FEW_NODES &&
      props.store.stop() !== undefined &&
      props.store.step() <= 1 &&
      props.store.cursor().kind === "live"
    );
  };
  return (
    <Show when={shown()}>
      <div class="next-hint" data-testid="next-hint">
        <span>
          The graph grows as the program runs. <kbd>F8</kbd> runs one training step, <kbd>F11</kbd>{" "}
          one node.
        </span>
        <IconButton small icon="close" label="Close this hint" onClick={() => setClosed(true)} />
      </div>
    </Show>
  );
}
