/**
 * The bottom line: connection, rates, what was dropped, where the recording is.
 *
 * Invariant: every number has its unit; nothing here is the only place where a fault is said.
 */

import { createMemo, createSignal, For, type JSX, onCleanup, Show } from "solid-js";
import { formatCount } from "@/base/numbers";
import { progressOf } from "@/store/progress";
import type { Store } from "@/store/store";
import { throttled } from "@/store/throttled";
import type { Governed } from "@/wire/types.gen";

export function StatusBar(props: { readonly store: Store; onKeys(): void }): JSX.Element {
  const store = props.store;
  const [rate, setRate] = createSignal(0);
  let seen = store.ring.total;
  const timer = setInterval(() => {
    setRate(store.ring.total - seen);
    seen = store.ring.total;
  }, 1000);
  onCleanup(() => clearInterval(timer));
  const link = createMemo(() => {
    switch (store.link().kind) {
      case "open":
        return { text: "Connected", tone: "ok" };
      case "connecting":
        return { text: "Connecting…", tone: "now" };
      case "lost":
        return { text: "Connection lost, reconnecting…", tone: "bad" };
      case "ended":
        return { text: "Ended", tone: "off" };
      case "refused":
        return { text: "Refused", tone: "bad" };
      case "skew":
        return { text: "Versions differ", tone: "bad" };
    }
  });
  const model = () => store.model();
  const beat = throttled(store.tick, 500);
  const phases = createMemo(() => {
    beat();
    const graph = model()?.graph;
    return graph === undefined ? [] : progressOf(graph, store.shown(), store.step()).phases;
  });
  const dropped = () => {
    const now = model()?.dropped;
    return now === undefined ? 0 : now.blobs + now.summaries + now.executions;
  };
  /** Quiet when nothing was left out. */
  const governed = () => {
    const now = model()?.governed;
    const any = now && (now.steps_left_out || now.executions || now.summaries || now.arrays);
    return any || (now && now.slowdown > now.limit) ? now : undefined;
  };
  return (
    <footer class="status">
      <span class="row status-link">
        <span class={`lamp ${link().tone}`} aria-hidden="true" />
        <span data-testid="link">{link().text}</span>
        <Show when={(model()?.info.pid ?? 0) > 0}>
          <i>pid {model()?.info.pid}</i>
        </Show>
      </span>
      <span>
        <span class="m">{formatCount(rate())}</span> events/s{" "}
        <i>
          last <span class="m">{formatCount(model()?.seq ?? 0)}</span>
        </i>
      </span>
      <span title="Values, statistics and executions that were not kept">
        dropped{" "}
        <span class="m" classList={{ brk: dropped() > 0 }}>
          {formatCount(dropped())}
        </span>
      </span>
      <Show when={governed()}>
        {(now) => (
          <span title={governedWords(now())} data-testid="governed">
            left out{" "}
            <span class="m" classList={{ now: now().slowdown > now().limit }}>
              {now().steps_left_out > 0
                ? `${formatCount(now().steps_left_out)} of ${formatCount(now().steps)} steps`
                : `${formatCount(now().executions + now().summaries + now().arrays)}`}
            </span>
          </span>
        )}
      </Show>
      <Show when={(model()?.skipped ?? 0) > 0}>
        <span class="wide" title="Executions recorded, but left out of this page's live stream">
          skipped live <span class="m">{formatCount(model()?.skipped ?? 0)}</span>
        </span>
      </Show>
      <Show when={model()}>
        {(now) => (
          <span class="wide">
            capture <b>{now().info.level}</b>
          </span>
        )}
      </Show>
      <Show
        when={model()?.session && model()?.info.state === "live" && !model()?.session?.attended}
      >
        <span class="now">unattended: breakpoints do not stop</span>
      </Show>
      <span class="sp" />
      <Show when={model()?.info.recording}>
        {(path) => (
          <span class="wide ell" title={path()}>
            <i>{path().split(/[\\/]/).at(-1)}</i>
          </span>
        )}
      </Show>
      <span class="wide">
        <For each={phases()}>
          {(each) => (
            <span class="status-phase">
              <i>{each.phase}</i> <span class="m">{formatCount(each.total)}</span>
            </span>
          )}
        </For>
      </span>
      <button type="button" class="status-keys" onClick={() => props.onKeys()}>
        <kbd>?</kbd> keys
      </button>
    </footer>
  );
}

/** What the governor left out, in a few lines. */
function governedWords(now: Governed): string {
  const how = now.measured ? "measured against steps that were left out" : "estimated";
  const counts: [number, string][] = [
    [now.arrays, "outputs without elements"],
    [now.summaries, "outputs without statistics"],
    [now.executions, "executions without a row"],
  ];
  return [
    `Slowdown ${now.slowdown.toFixed(2)}x (${how}), limit ${now.limit}x`,
    now.slowdown > now.limit ? `Over the limit${now.because && `: ${now.because}`}` : "",
    now.steps_left_out > 0
      ? `${formatCount(now.steps_left_out)} of ${formatCount(now.steps)} training steps not observed`
      : "",
    ...counts.map(([count, what]) => (count > 0 ? `${formatCount(count)} ${what}` : "")),
  ]
    .filter((line) => line !== "")
    .join("\n");
}
