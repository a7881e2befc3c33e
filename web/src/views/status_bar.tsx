/**
 * The bottom line: connection, rates, what is kept, where the recording is.
 *
 * Invariant: every number has its unit; no fault is reported only here.
 */

import { createMemo, createSignal, For, type JSX, onCleanup, Show } from "solid-js";
import { formatCount } from "@/base/numbers";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import { operationsCounted } from "@/store/run/counts";
import { progressOf } from "@/store/run/progress";
import { seenStep } from "@/store/run/run_model";
import type { RunInfo } from "@/wire/types.gen";

/** The process of the run, or that it has ended. */
function programWords(run: RunInfo | undefined): string {
  if (run === undefined) return "";
  if (run.state === "recorded") return "recording";
  if (run.state !== "live") return "program ended";
  return run.pid > 0 ? `pid ${run.pid}` : "";
}

export function StatusBar(props: {
  readonly store: Store;
  /** What is kept of the run. */
  readonly kept: JSX.Element;
  onKeys(): void;
}): JSX.Element {
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
    return graph === undefined ? [] : progressOf(graph, store.shown(), seenStep(store)).phases;
  });
  const total = () => phases().reduce((sum, phase) => sum + phase.total, 0);
  /** Records lost because the recorder was too slow. A notice reports the losses of the disk. */
  const lost = () => {
    const now = model();
    if (now === undefined || now.info.trouble !== "") return 0;
    const { summaries, executions } = now.dropped;
    const disk = now.keeping?.unwritten;
    return summaries + executions - (disk ? disk.summaries + disk.executions : 0);
  };
  return (
    <footer class="status">
      <span class="row status-link">
        <span class={`lamp ${link().tone}`} aria-hidden="true" />
        <span data-testid="link">{link().text}</span>
        <i>{programWords(model()?.info)}</i>
      </span>
      <span>
        <span class="m">{formatCount(rate())}</span> events/s{" "}
        <i>
          last <span class="m">{formatCount(model()?.lastEvent ?? 0)}</span>
        </i>
      </span>
      <Show when={lost() > 0}>
        <span title="Statistics and executions that were lost: the recorder fell behind">
          lost <span class="m brk">{formatCount(lost())}</span>
        </span>
      </Show>
      <Show when={(model()?.skipped ?? 0) > 0}>
        <span class="wide" title="Executions recorded, but left out of this page's live stream">
          skipped live <span class="m">{formatCount(model()?.skipped ?? 0)}</span>
        </span>
      </Show>
      {props.kept}
      <Show
        when={model()?.session && model()?.info.state === "live" && !model()?.session?.attended}
      >
        <span class="now">unattended: breakpoints do not stop</span>
      </Show>
      <span class="sp" />
      <Show when={model()?.info.recording}>
        {(path) => (
          <span class="wide ell status-file" title={path()}>
            <i>{path().split(/[\\/]/).at(-1)}</i>
          </span>
        )}
      </Show>
      <span class="wide" title={operationsCounted(total())}>
        <Show when={phases().length > 0}>
          <i>ops</i>{" "}
        </Show>
        <For each={phases()}>
          {(phase) => (
            <span class="status-phase">
              <i>{phase.phase}</i> <span class="m">{formatCount(phase.total)}</span>
            </span>
          )}
        </For>
      </span>
      <button type="button" class="status-keys" onClick={() => props.onKeys()}>
        <kbd>?</kbd> shortcuts
      </button>
    </footer>
  );
}
