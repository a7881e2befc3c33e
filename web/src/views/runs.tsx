/**
 * The server's runs, as a list and as the selector in the top bar.
 *
 * Invariant: a run's state is shown in words as well as by its lamp.
 */

import { For, type JSX, Show } from "solid-js";
import { formatClock } from "@/base/dates";
import { printable } from "@/base/printable";
import { argumentsOf, outcomeOf, outcomeTone, runWords } from "@/store/page/recordings_list";
import type { Store } from "@/store/page/store";
import type { RunInfo } from "@/wire/types.gen";

function startedAt(run: RunInfo): string {
  if (run.started_unix_ns === 0) return "";
  return formatClock(run.started_unix_ns / 1e6, { seconds: true });
}

function tone(run: RunInfo): string {
  if (run.state === "live") return "ok";
  const outcome = outcomeOf(run);
  if (run.state === "recorded" && outcome === "killed") return "off"; // it may still run
  return outcomeTone(outcome, run.broken_loss) === "bad" ? "bad" : "off";
}

function newestFirst(runs: readonly RunInfo[]): readonly RunInfo[] {
  return [...runs].sort((a, b) => b.started_unix_ns - a.started_unix_ns);
}

/**
 * The outcome of a run; for a live one, the strip beside it says whether it is running or stopped.
 */
function ended(run: RunInfo): string {
  return run.state === "live" ? "" : runWords(run);
}

export function RunSelect(props: { readonly store: Store }): JSX.Element {
  const current = () => props.store.runs().find((run) => run.id === props.store.runId());
  const title = () => {
    const run = current();
    return run === undefined ? "" : printable(`${run.name} ${argumentsOf(run)}`.trim(), 10_000);
  };
  return (
    <label class="runsel" title={title()}>
      <span class={`lamp ${current() ? tone(current() as RunInfo) : "off"}`} aria-hidden="true" />
      <span class="runsel-name ell">{current()?.name ?? "no run"}</span>
      <Show when={current()}>
        {(run) => <span class="m t3 ell runsel-args">{printable(argumentsOf(run()), 60)}</span>}
      </Show>
      <Show when={current()}>{(run) => <span class="t3 runsel-state">{ended(run())}</span>}</Show>
      <span class="runsel-arrow" aria-hidden="true">
        ⌄
      </span>
      <select
        data-testid="run-select"
        aria-label="Run"
        value={props.store.runId() ?? ""}
        onChange={(event) => props.store.openRun(event.currentTarget.value)}
      >
        <For each={newestFirst(props.store.runs())}>
          {(run) => (
            <option value={run.id} selected={run.id === props.store.runId()}>
              {printable(`${run.name} ${argumentsOf(run)}`.trim(), 80)} · {runWords(run)} ·{" "}
              {startedAt(run)}
            </option>
          )}
        </For>
      </select>
    </label>
  );
}

/** The arguments; a line never breaks at a hyphen inside one of them. */
function Words(props: { readonly text: string }): JSX.Element {
  return (
    <span class="m t2">
      <For each={props.text.split(" ")}>
        {(word) => (
          <>
            <span class="run-word">{word}</span>{" "}
          </>
        )}
      </For>
    </span>
  );
}

export function RunList(props: {
  readonly store: Store;
  /** Shows the list of all recordings. */
  showAll(): void;
}): JSX.Element {
  return (
    <div class="runs" data-testid="runs">
      <button
        type="button"
        class="run-all link"
        data-testid="runs-all"
        onClick={() => props.showAll()}
      >
        All recordings in this folder, and recent ones…
      </button>
      <For
        each={newestFirst(props.store.runs())}
        fallback={
          <p class="empty">
            No run yet. <code>nodescope run train.py</code> starts one.
          </p>
        }
      >
        {(run) => (
          <button
            type="button"
            class="run"
            classList={{ on: run.id === props.store.runId() }}
            aria-current={run.id === props.store.runId()}
            onClick={() => props.store.openRun(run.id)}
          >
            <span class={`lamp ${tone(run)}`} aria-hidden="true" />
            <span class="run-name" title={run.argv.join(" ")}>
              {printable(run.name, 80)} <Words text={printable(argumentsOf(run), 120)} />
            </span>
            <span class="mi t3">{startedAt(run)}</span>
            <span class="run-more mi t3">
              {runWords(run)} · {run.level}
              {run.pid > 0 ? ` · pid\u00a0${run.pid}` : ""}
            </span>
            <Show when={outcomeOf(run) === "interrupted" ? "" : run.error}>
              <span class="run-more small brk ell" title={run.error}>
                {run.error}
              </span>
            </Show>
          </button>
        )}
      </For>
    </div>
  );
}
