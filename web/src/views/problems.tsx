/**
 * What is wrong at the moment shown: values that are not finite, nodes that raised, what was lost.
 *
 * Invariant: nothing is listed that is not so; an empty list says that it was looked for.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { formatCount, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import type { NodeColumns } from "@/store/columns";
import type { RunGraph } from "@/store/run_model";
import { inWords } from "@/store/reasons";
import type { Store } from "@/store/store";
import { createQuery } from "@/store/query";
import { throttled } from "@/store/throttled";
import type { Item } from "@/store/url";
import { type AskSpread, FAILED, HAS_INF, HAS_NAN } from "@/wire/types.gen";

export interface Problem {
  readonly id: number;
  readonly name: string;
  readonly seq: number;
  readonly step: number;
  readonly failed: boolean;
  readonly nan: boolean;
  readonly inf: boolean;
}

const MOST = 200;

/** Nodes with a problem, in order of execution: the first is where it began. */
export function problemsOf(graph: RunGraph | undefined, columns: NodeColumns): readonly Problem[] {
  const found: Problem[] = [];
  for (const node of graph?.nodes ?? []) {
    const flags = node === undefined ? 0 : (columns.flags[node.id] ?? 0);
    if (node === undefined || (flags & (HAS_NAN | HAS_INF | FAILED)) === 0) continue;
    found.push({
      id: node.id,
      name: node.name,
      seq: columns.seq[node.id] ?? 0,
      step: columns.step[node.id] ?? 0,
      failed: (flags & FAILED) !== 0,
      nan: (flags & HAS_NAN) !== 0,
      inf: (flags & HAS_INF) !== 0,
    });
  }
  return found.sort((a, b) => a.seq - b.seq);
}

/** The problems shown by this store, refreshed a few times a second. */
export function createProblems(store: Store): () => readonly Problem[] {
  const beat = throttled(store.tick, 250);
  return createMemo(() => {
    beat();
    store.cursor();
    return problemsOf(store.model()?.graph, store.shown());
  });
}

export function Problems(props: {
  readonly store: Store;
  readonly problems: readonly Problem[];
  go(item: Item): void;
  /** Asks why the node's value was what it was. */
  why(node: number, seq: number): void;
}): JSX.Element {
  const dropped = () => props.store.model()?.dropped;
  const losses = () => {
    const now = dropped();
    if (now === undefined) return [];
    return [
      now.blobs > 0
        ? `${formatCount(now.blobs)} values not kept (byte budget; statistics are there). ` +
          "Raise it or narrow the selection."
        : "",
      now.summaries > 0
        ? `${formatCount(now.summaries)} outputs without statistics: the recorder was behind.`
        : "",
      now.executions > 0
        ? `${formatCount(now.executions)} executions lost: the recorder could not keep up.`
        : "",
    ].filter(Boolean);
  };
  return (
    <div class="problems" data-testid="problems">
      <Show when={props.store.model()?.info.error}>
        {(error) => (
          <p class="problem bad">
            <span class="brk b">Program</span> {error()}
          </p>
        )}
      </Show>
      <SpreadNote store={props.store} asked={props.problems.some((each) => each.nan || each.inf)} />
      <For each={props.problems.slice(0, MOST)}>
        {(each, i) => (
          <div class="problem-row">
            <button
              type="button"
              class="problem"
              onClick={() => props.go({ kind: "node", id: each.id })}
            >
              <span class={each.failed ? "bdot enabled" : each.nan ? "dia" : "dia inf"} />
              <span class="ell problem-name">{each.name}</span>
              <span class="t3 small">{i() === 0 && !each.failed ? "first" : ""}</span>
              <span
                class="mi"
                classList={{ nan: each.nan, inf: each.inf && !each.nan, brk: each.failed }}
              >
                {[each.failed && "raised", each.nan && "NaN", each.inf && "Inf"]
                  .filter(Boolean)
                  .join(", ")}
              </span>
              <span class="mi t3">step {formatCount(each.step)}</span>
            </button>
            <Show when={each.nan || each.inf}>
              <button
                type="button"
                class="btn"
                data-testid="problem-why"
                onClick={() => props.why(each.id, each.seq)}
              >
                Why?
              </button>
            </Show>
          </div>
        )}
      </For>
      <For each={losses()}>{(text) => <p class="problem t2">{text}</p>}</For>
      <Show
        when={
          props.problems.length === 0 && losses().length === 0 && !props.store.model()?.info.error
        }
      >
        <p class="empty">No NaN, no Inf, no failed node, nothing dropped.</p>
      </Show>
    </div>
  );
}

/** What NaN and Inf did in the step shown, in a line or two; not while the program runs. */
function SpreadNote(props: { readonly store: Store; readonly asked: boolean }): JSX.Element {
  const answer = createQuery(props.store, "spread", (): AskSpread | undefined => {
    const run = props.store.runId();
    if (!props.asked || run === undefined || !props.store.forkable()) return undefined;
    return { type: "ask_spread", run, step: props.store.step() };
  });
  const found = () => {
    const now = answer();
    return now.kind === "ready" && now.value.touched > 0 ? now.value : undefined;
  };
  const first = () => found()?.births[0];
  return (
    <Show when={found()}>
      {(now) => (
        <div class="spread-note" data-testid="spread">
          Step {formatCount(now().step)}: {formatCount(now().touched)} of{" "}
          {plural(now().executions, "execution")} gave NaN or Inf.{" "}
          <Show when={first()}>
            {(born) => (
              <>
                It began at <b>{printable(born().name, 160)}</b>
                {(born().at?.length ?? 0) > 0 ? ` at [${born().at?.join(", ")}]` : ""}:{" "}
                {printable(inWords(born().words), 300)}, and reached{" "}
                {plural(born().reached, "node")}.{" "}
                {now().born > 1 ? `${plural(now().born - 1, "further birth")}. ` : ""}
              </>
            )}
          </Show>
          <Show when={now().heals[0]}>
            {(healed) => (
              <span class="t3">
                Healed by {printable(healed().name, 160)}: {printable(healed().words, 200)}
                {now().healed > 1 ? `, and by ${formatCount(now().healed - 1)} more` : ""}.
              </span>
            )}
          </Show>
        </div>
      )}
    </Show>
  );
}
