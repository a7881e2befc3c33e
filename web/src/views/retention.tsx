/**
 * Retention: what is kept of the run, in one line of the status bar, with links to more.
 *
 * Invariant: settings that can be changed while the program runs are buttons, others are commands
 * to copy.
 */

import {
  createEffect,
  createMemo,
  createSignal,
  For,
  type JSX,
  on,
  onCleanup,
  Show,
} from "solid-js";
import { formatBytes } from "@/base/numbers";
import type { Store } from "@/store/page/store";
import { operationsOf } from "@/store/run/counts";
import {
  costWords,
  keptWords,
  lookedAt,
  nothingWords,
  reasonWords,
  waysToMore,
} from "@/store/run/keeping";
import { Icon } from "@/widgets/icon";

export function Retention(props: { readonly store: Store }): JSX.Element {
  const store = props.store;
  const [open, setOpen] = createSignal(false);
  let host!: HTMLSpanElement;
  let button!: HTMLButtonElement;
  const keeping = () => store.model()?.keeping;
  const governed = () => store.model()?.governed;
  const trouble = () => store.model()?.info.trouble ?? "";
  const live = () => store.model()?.info.state === "live";
  const stepCount = createMemo(() => store.model()?.steps.length ?? 0);
  const empty = createMemo(() => operationsOf(store.model()?.graph) === 0);

  const ways = createMemo(() => {
    const now = keeping();
    return now === undefined ? [] : waysToMore(now, store.model()?.info.argv ?? []);
  });

  // Every element of viewed nodes is kept.
  const looked = createMemo(() => lookedAt([store.pinned(), store.selection()]), [], {
    equals: (a, b) => a.join() === b.join(),
  });
  const change = (everything: boolean): void => {
    void store.refusal({ type: "set_keeping", everything, nodes: looked() });
  };
  /** The run that accepts settings; "" while none does. */
  const runState = createMemo(() =>
    store.link().kind === "open" && live() && (keeping()?.newest_steps ?? 0) > 0
      ? (store.runId() ?? "")
      : "",
  );
  let sent: string | undefined;
  // Not sent at each answer: two pages that view different nodes would never stop.
  createEffect(
    on([looked, runState], ([nodes, run], before) => {
      if (run !== before?.[1]) sent = undefined;
      const now = keeping();
      if (run === "" || now === undefined) return;
      if (nodes.join() === (sent ?? now.nodes.join())) return;
      sent = nodes.join();
      change(now.everything);
    }),
  );

  const close = (event: PointerEvent): void => {
    if (event.target instanceof Node && !host.contains(event.target)) setOpen(false);
  };
  createEffect(() => {
    if (!open()) return;
    document.addEventListener("pointerdown", close);
    onCleanup(() => document.removeEventListener("pointerdown", close));
  });
  return (
    <Show when={keeping()}>
      {(now) => (
        <span
          class="kept"
          ref={host}
          onKeyDown={(event) => {
            if (event.key !== "Escape" || !open()) return;
            event.stopPropagation();
            setOpen(false);
            button.focus();
          }}
        >
          <button
            type="button"
            class="kept-line"
            data-testid="kept"
            aria-expanded={open()}
            aria-haspopup="dialog"
            title="What is recorded of this run, and what is not"
            ref={button}
            onClick={() => setOpen(!open())}
          >
            <span class="ell">
              {empty()
                ? nothingWords(live())
                : keptWords(now(), governed(), trouble(), stepCount())}
            </span>
            <Show when={costWords(governed())}>
              {(words) => (
                <span class="m" classList={{ now: over(governed()) }}>
                  · {words()}
                </span>
              )}
            </Show>
            <Show when={ways().length > 0} fallback={<span class="kept-more">Details…</span>}>
              <span class="kept-more">{live() ? "Keep more…" : "Details…"}</span>
            </Show>
          </button>
          <Show when={open()}>
            <div class="kept-pop" role="dialog" aria-label="What is kept" data-testid="kept-ways">
              <For each={reasonWords(now(), governed(), !live())}>
                {(line) => <p class="t2">{line}</p>}
              </For>
              <Show when={live() && (now().limit !== null || now().level !== "values")}>
                <button
                  type="button"
                  class="btn"
                  data-testid="kept-everything"
                  onClick={() => change(!now().everything)}
                >
                  {now().everything ? "Keep less again" : "Keep every value from now on"}
                </button>
              </Show>
              <Show when={now().newest_steps > 0 && !now().everything}>
                <p class="t3">
                  Whole values in the recording: the selected node and a pinned one; around each
                  stop the last {now().newest_steps} observed steps, which are also written every 2
                  seconds. Earlier ones stay until newer ones need their place, up to{" "}
                  {formatBytes(now().budget_bytes)} in all. Statistics, times and the graph come on
                  top.
                </p>
              </Show>
              <Show when={ways().length > 0} fallback={<p class="t2">Nothing is left out.</p>}>
                <h4>{live() ? "Next time" : "To keep more next time"}</h4>
              </Show>
              <For each={ways()}>
                {(way) => (
                  <div class="kept-way">
                    <span class="t3">{way.what}</span>
                    <code class="m ell" title={way.command}>
                      {way.command}
                    </code>
                    <button
                      type="button"
                      class="icon-btn"
                      aria-label={`Copy: ${way.command}`}
                      onClick={() =>
                        void navigator.clipboard?.writeText(way.command).then(
                          () => store.notify("ok", "Copied."),
                          () => store.notify("error", "The browser did not allow copying."),
                        )
                      }
                    >
                      <Icon name="copy" size={14} />
                    </button>
                  </div>
                )}
              </For>
            </div>
          </Show>
        </span>
      )}
    </Show>
  );
}

function over(
  governed: { readonly slowdown: number; readonly limit: number } | undefined,
): boolean {
  return governed !== undefined && governed.slowdown > governed.limit;
}
