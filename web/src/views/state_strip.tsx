/**
 * The program's state in one line: state, step, node, phase and progress through the step.
 *
 * Invariant: the text alone says everything; lamp and strip repeat it in colour.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { formatCount, plural } from "@/base/numbers";
import { stopWords } from "@/store/debugger/stop_words";
import { lossEnding, outcomeOf } from "@/store/page/recordings_list";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import { operationsCounted } from "@/store/run/counts";
import { leftOutWords } from "@/store/run/keeping";
import { progressOf } from "@/store/run/progress";
import {
  lastObserved,
  ranAfterStep,
  seenStep,
  standsAfter,
  stepShown,
} from "@/store/run/run_model";

interface Words {
  readonly text: string;
  readonly tone: "now" | "ok" | "off" | "bad" | "watch";
  readonly more: string;
}

export function describe(store: Store): Words {
  const model = store.model();
  if (model === undefined) return { text: "Waiting", tone: "off", more: "" };
  const { info } = model;
  if (store.cursor().kind === "past") {
    return { text: "In the past", tone: "now", more: "a recorded moment, not the live state" };
  }
  if (info.state === "lost") {
    return { text: "Killed", tone: "bad", more: "the program was killed or crashed" };
  }
  if (info.state === "recorded") return { text: "Recording", tone: "off", more: "" };
  if (info.state === "finished") {
    const outcome = outcomeOf(info);
    if (outcome === "interrupted") return { text: "Interrupted", tone: "off", more: "by Ctrl-C" };
    if (outcome === "failed") {
      const more = info.error || `exit status ${info.status}`;
      return { text: "Failed", tone: "bad", more };
    }
    const more = lossEnding(info.broken_loss);
    return { text: "Finished", tone: more ? "bad" : "ok", more: more && `the loss is ${more}` };
  }
  switch (model.session?.phase) {
    case "stopped":
      if (store.awaited() === "continue") return { text: "Resuming", tone: "ok", more: "" };
      if (store.arriving() > 0) {
        const more = `${plural(store.arriving(), "event")} before the stop still to be read`;
        return { text: "Stopping", tone: "now", more };
      }
      if (model.session.stop?.reason === "watch") {
        return { text: "Stopped by a watch", tone: "watch", more: model.session.stop.text };
      }
      if (model.session.stop?.reason === "exception") {
        return { text: "Stopped by an error", tone: "bad", more: model.session.stop.text };
      }
      return { text: "Stopped", tone: "now", more: "" };
    case "detached":
      return { text: "Detached", tone: "off", more: "running to its end" };
    case "finished":
      return { text: "Finishing", tone: "ok", more: "" };
    default:
      if (store.awaited() === "pause") {
        return { text: "Pausing", tone: "now", more: "the program stops at its next node" };
      }
      return { text: "Running", tone: "ok", more: "" };
  }
}

export function StateStrip(props: { readonly store: Store }): JSX.Element {
  const words = createMemo(() => describe(props.store));
  // A stop is shown at once; while running, ten updates a second are enough for counting.
  const beat = throttled(() => [props.store.tick(), props.store.stops()] as const, 100);
  const progress = createMemo(() => {
    beat();
    props.store.cursor();
    props.store.stop();
    const graph = props.store.model()?.graph;
    const now = graph && progressOf(graph, props.store.shown(), seenStep(props.store));
    return now !== undefined && now.total > 0 ? now : undefined;
  });
  const after = createMemo(() => {
    beat();
    props.store.cursor();
    return standsAfter(props.store);
  });
  /** For an unobserved step, no operations are known, except for one that raised. */
  const observed = createMemo(() => {
    beat();
    props.store.cursor();
    const step = stepShown(props.store);
    return lastObserved(props.store.model()?.steps ?? [], step) === step;
  });
  /** Whether operations ran after an unobserved step, as in an evaluation: those are observed. */
  const beyond = createMemo(() => {
    beat();
    props.store.cursor();
    return !observed() && after() && ranAfterStep(props.store);
  });
  const unobserved = () => !observed() && !beyond();
  const running = () => {
    const { store } = props;
    const live = store.model()?.info.state === "live" && store.stop() === undefined;
    return live && store.cursor().kind === "live";
  };
  /** The progress shown. Unobserved steps have none, but a running program keeps its place. */
  const counted = () => (observed() || (running() && !beyond()) ? progress() : undefined);
  /** Why the step is unobserved; "" while the program runs, when there is no time to read it. */
  const because = createMemo(() => {
    beat();
    if (!unobserved() || running()) return "";
    return leftOutWords(props.store.model()?.governed);
  });
  const phase = createMemo(() => {
    beat();
    if (unobserved()) return "unobserved";
    const graph = props.store.model()?.graph;
    const cursor = props.store.cursor();
    const stop = cursor.kind === "live" ? props.store.stop() : undefined;
    const node = graph?.nodes[stop?.node ?? props.store.shown().lastNode];
    return node?.phase ?? "";
  });
  // Announcing counts ten times a second would drown everything else: only changes of state are
  // announced.
  const spoken = createMemo(() => {
    const stop = props.store.cursor().kind === "live" ? props.store.stop() : undefined;
    return stop === undefined
      ? words().text
      : `${stopWords(stop)}${stop.error === "" ? ` ${stop.node_name}` : ""}, step ${stop.step}`;
  });
  return (
    <>
      <span class="sr" role="status" aria-live="polite">
        {spoken()}
      </span>
      <div class="lcd" data-testid="state">
        <span class={`lamp ${words().tone}`} aria-hidden="true" />
        <span class={`lcd-state ${words().tone}`} title={words().more}>
          {words().text}
        </span>
        <Show when={props.store.step() > 0}>
          <span class="vr" aria-hidden="true" />
          <span class="lcd-part">
            <span class="k">{after() ? "after step" : "step"}</span>{" "}
            <span class="v">{formatCount(stepShown(props.store))}</span>
          </span>
        </Show>
        <Show when={counted()}>
          {(now) => (
            <span class="lcd-part" title={`Ran in this step, of ${operationsCounted(now().total)}`}>
              <span class="k">op</span>{" "}
              <span class="v">{observed() ? formatCount(now().done) : "–"}</span>
            </span>
          )}
        </Show>
        <Show when={counted()}>
          {(now) => <span class="v t3 lcd-total"> / {formatCount(now().total)}</span>}
        </Show>
        <Show when={phase()}>
          <span class="vr wide" aria-hidden="true" />
          <span class="k lcd-phase" title={because()}>
            {phase()}
            <Show when={because()}>
              <span class="lcd-why">, {because()}</span>
            </Show>
          </span>
        </Show>
        <Show when={progress()}>
          <span class="lcd-strip wide" aria-hidden="true">
            <For each={progress()?.phases ?? []}>
              {(phase) => (
                <span
                  class="lcd-lane"
                  style={{ "flex-grow": phase.total }}
                  title={`${phase.phase}: ${phase.done} of ${plural(phase.total, "operation")}`}
                >
                  <span
                    class={`lcd-fill ph-${phase.phase}`}
                    style={{ width: `${(phase.done / Math.max(1, phase.total)) * 100}%` }}
                  />
                </span>
              )}
            </For>
          </span>
        </Show>
      </div>
    </>
  );
}
