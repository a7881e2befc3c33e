/**
 * Problems in a run: non-finite values, nodes that raised, losses of data.
 *
 * Invariant: only actual problems are listed; an empty list says that the run was checked.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { formatCount, formatIndex, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { inWords } from "@/store/history/why";
import { pictured } from "@/store/page/first_picture";
import { answered, createQuery } from "@/store/page/query";
import { lossEnding, outcomeOf } from "@/store/page/recordings_list";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import { lossWords } from "@/store/run/keeping";
import type { AskSpread, GetProblems, Governed, NodeProblem, ProblemList } from "@/wire/types.gen";

const REFRESH_MS = 400;

/** All problems in the recording, requested again a few times a second while it grows. */
export function createProblems(store: Store): () => ProblemList | undefined {
  const beat = throttled(
    () => [store.tick(), store.stops(), store.model()?.info.state, store.link().kind],
    REFRESH_MS,
  );
  const answer = createQuery(
    store,
    "problems",
    (): GetProblems | undefined => {
      const run = store.runId();
      const readable = pictured(store) && (store.model()?.seq ?? 0) > 0;
      return run === undefined || !readable ? undefined : { type: "get_problems", run };
    },
    beat,
    (before, after) =>
      before.type === "get_problems" && after.type === "get_problems" && before.run === after.run,
  );
  return createMemo(() => answered(answer()));
}

/**
 * The error that stopped or ended the program, unless a node's row shows it. Ctrl-C is not an
 * error.
 */
export function errorBesides(
  store: Pick<Store, "model" | "stop">,
  problems: ProblemList | undefined,
): string {
  const info = store.model()?.info;
  if (info !== undefined && outcomeOf(info) === "interrupted") return "";
  const error = store.model()?.info.error || store.stop()?.error || "";
  return problems?.rows.some((row) => row.failed && row.error === error) ? "" : error;
}

/** The number of nodes with a problem, plus one for an error that belongs to none of them. */
export function problemCount(
  store: Pick<Store, "model" | "stop">,
  problems: ProblemList | undefined,
): number {
  return (problems?.nodes ?? 0) + (errorBesides(store, problems) === "" ? 0 : 1);
}

export function Problems(props: {
  readonly store: Store;
  readonly problems: ProblemList | undefined;
  /** Shows a node at a moment. */
  visit(node: number, seq: number): void;
  /** Queries why the node's value was what it was. */
  why(node: number, seq: number): void;
}): JSX.Element {
  const rows = () => props.problems?.rows ?? [];
  const ended = () => errorBesides(props.store, props.problems);
  const cut = () => (props.problems?.nodes ?? 0) - rows().length;
  const nameOf = (node: number) =>
    printable(props.store.model()?.graph.nodes[node]?.name ?? `node ${node}`, 200);
  const losses = () => {
    const now = props.store.model();
    return now === undefined ? [] : lossWords(now.keeping, now.dropped);
  };
  return (
    <div class="problems" data-testid="problems">
      <Show when={ended()}>
        {(error) => (
          <p class="problem bad">
            <span class="brk b">Program</span> {error()}
          </p>
        )}
      </Show>
      <Show when={lossEnding(props.problems?.broken_loss)}>
        {(ending) => (
          <p class="problem" data-testid="problem-loss">
            <span class={props.problems?.broken_loss?.kind === "nan" ? "dia" : "dia inf"} />
            Loss {ending()}
          </p>
        )}
      </Show>
      <SpreadNote store={props.store} enabled={rows().some((row) => row.nan || row.inf)} />
      <For each={rows()}>
        {(row) => (
          <div class="problem-row" data-testid="problem">
            <button
              type="button"
              class="problem"
              classList={{ past: row.healed }}
              title={problemWords(row)}
              onClick={() => props.visit(row.node, row.first_seq)}
            >
              <span class={row.failed ? "bdot enabled" : row.nan ? "dia" : "dia inf"} />
              <span class="ell problem-name">{nameOf(row.node)}</span>
              <Show when={row.first}>
                <span class="problem-first" data-testid="problem-first">
                  first
                </span>
              </Show>
              <span class="ell t3 small problem-note">{noteOf(row)}</span>
              <span
                class="mi"
                classList={{ nan: row.nan, inf: row.inf && !row.nan, brk: row.failed }}
              >
                {[row.failed && "raised", row.nan && "NaN", row.inf && "Inf"]
                  .filter(Boolean)
                  .join(", ")}
              </span>
              <span class="mi t3 problem-count">
                {row.count > 1 ? `×${formatCount(row.count)}` : ""}
              </span>
              <span class="mi t3 problem-steps">{stepsOf(row)}</span>
            </button>
            <Show when={row.nan || row.inf}>
              <button
                type="button"
                class="btn"
                data-testid="problem-why"
                onClick={() => props.why(row.node, row.first_seq)}
              >
                Why?
              </button>
            </Show>
          </div>
        )}
      </For>
      <Show when={cut() > 0}>
        <p class="problem t2">And {plural(cut(), "more node")}, all later.</p>
      </Show>
      <Show when={unobservedWords(rows(), props.store.model()?.governed)}>
        {(text) => (
          <p class="problem t2" data-testid="problem-unobserved">
            {text()}
          </p>
        )}
      </Show>
      <For each={losses()}>{(text) => <p class="problem t2">{text}</p>}</For>
      <Show
        when={
          props.problems?.nodes === 0 &&
          !props.problems.broken_loss &&
          losses().length === 0 &&
          ended() === ""
        }
      >
        <p class="empty">{noProblems(props.problems?.masks ?? 0)}</p>
      </Show>
    </div>
  );
}

/** The text of an empty list. Args: masks: Number of nodes whose Inf the program itself wrote. */
export function noProblems(masks: number): string {
  if (masks === 0) return "No NaN, no Inf, no failed node, nothing lost.";
  const nodes = plural(masks, "node");
  return `No NaN, no failed node, nothing lost. Inf only as the program wrote it: in ${nodes}.`;
}

/**
 * The steps that the rows cover, if not all were observed; else "". An operation that raises is
 * observed in every step.
 */
export function unobservedWords(
  rows: readonly NodeProblem[],
  governed: Governed | undefined,
): string {
  if (governed === undefined || governed.steps_left_out === 0) return "";
  if (!rows.some((row) => row.nan || row.inf)) return "";
  const observed = formatCount(governed.steps - governed.steps_left_out);
  return (
    `${observed} of ${plural(governed.steps, "training step")} were observed: the counts and steps ` +
    "above are of these, and it may have gone on in the others."
  );
}

/** "step 3", or "steps 3–6". */
export function stepsOf(row: NodeProblem): string {
  const { first_step: first, last_step: last } = row;
  return first === last
    ? `step ${formatCount(first)}`
    : `steps ${formatCount(first)}–${formatCount(last)}`;
}

/** What else is known about a problem, in a few words, or "". */
export function noteOf(row: NodeProblem): string {
  return [
    row.failed ? printable(row.error, 120) : "",
    row.edited ? "set by hand" : row.edits.length > 0 ? "edited" : "",
    row.healed ? "finite again" : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

function problemWords(row: NodeProblem): string {
  const times = row.count > 0 ? `${plural(row.count, "execution")}, ${stepsOf(row)}` : "";
  return [
    times,
    row.failed ? printable(row.error, 400) : "",
    ...row.edits.map((edit) => `edited: ${printable(edit, 200)}`),
    row.healed ? "Later executions were finite." : "",
    "Click to go to the first one.",
  ]
    .filter(Boolean)
    .join("\n");
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The spread of NaN and Inf in the step shown, in a line or two; empty while the program runs. */
function SpreadNote(props: { readonly store: Store; readonly enabled: boolean }): JSX.Element {
  const answer = createQuery(props.store, "spread", (): AskSpread | undefined => {
    const run = props.store.runId();
    // Known problems stay after nodescope has ended.
    const running = props.store.link().kind === "open" && !props.store.recorded();
    if (!props.enabled || run === undefined || running) return undefined;
    return { type: "ask_spread", run, step: props.store.step() };
  });
  const problems = () => {
    const now = answer();
    return now.kind === "ready" && now.value.touched + now.value.born > 0 ? now.value : undefined;
  };
  const first = () => problems()?.births[0];
  return (
    <Show when={problems()}>
      {(now) => (
        <div class="spread-note" data-testid="spread">
          Step {formatCount(now().step)}: {formatCount(now().touched)} of{" "}
          {plural(now().executions, "operation")} produced NaN or Inf.{" "}
          <Show when={first()}>
            {(born) => (
              <>
                {printable(capitalised(born().label), 40)}: <b>{printable(born().name, 160)}</b>
                {(born().at?.length ?? 0) > 0 ? ` at ${formatIndex(born().at ?? [])}` : ""}:{" "}
                {printable(inWords(born().words), 300)}; it {printable(born().reached, 300)}.{" "}
                {now().others === "" ? "" : `${printable(now().others, 120)}. `}
              </>
            )}
          </Show>
          <Show when={now().heals[0]}>
            {(healed) => (
              <span class="t3">
                Healed by {printable(healed().name, 160)}: {printable(healed().words, 200)}
                {now().healed > 1 ? `, and ${formatCount(now().healed - 1)} more` : ""}.
              </span>
            )}
          </Show>
        </div>
      )}
    </Show>
  );
}
