/**
 * A node over its executions: time and value, as lines and as a table.
 *
 * Invariant: a thinned history says so; choosing a row moves the whole page to that moment.
 */

import { type Accessor, createMemo, For, type JSX, Show } from "solid-js";
import { elementCount } from "@/base/dtypes";
import { keepKey } from "@/base/keys";
import { formatCount, formatDuration, formatNumber, median, plural } from "@/base/numbers";
import type { Moment } from "@/store/history/value_diff";
import { type Answer, createQuery } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import { Sparkline } from "@/widgets/charts";
import { decodeExecutions } from "@/wire/decode";
import type { EditRow, GetHistory, History } from "@/wire/types.gen";

const LIMIT = 400;
const TABLE_ROWS = 120;

export interface HistoryData {
  readonly total: number;
  readonly seq: readonly number[];
  readonly step: readonly number[];
  readonly durationNs: readonly number[];
  readonly measure: readonly (number | undefined)[];
  readonly mean: readonly (number | null | undefined)[];
  /** Number of NaN or Inf elements; undefined for an execution without statistics. */
  readonly notFinite: readonly (number | undefined)[];
  /** The meaning of `measure`: the value itself for a scalar, the norm for a tensor. */
  readonly measured: "value" | "norm";
  /** The user's edits of its outputs. */
  readonly edits: readonly EditRow[];
}

/** The execution before the last known one. */
export function executionBefore(history: HistoryData | undefined): Moment | undefined {
  const seq = history?.seq.at(-2);
  const step = history?.step.at(-2);
  return seq === undefined || step === undefined ? undefined : { seq, step };
}

/** A count, or a dash if unknown. */
export function notFiniteText(count: number | undefined): string {
  return count === undefined ? "–" : formatCount(count);
}

/** The history of a node, requested again when it has run again. */
export function createHistory(
  store: Store,
  node: Accessor<number | undefined>,
  refresh: Accessor<unknown>,
): Accessor<HistoryData | undefined> {
  const answer = createQuery(
    store,
    "history",
    (): GetHistory | undefined => {
      const run = store.runId();
      const id = node();
      if (run === undefined || id === undefined) return undefined;
      return { type: "get_history", run, node: id, until_seq: store.seq(), limit: LIMIT };
    },
    refresh,
    (before, after) =>
      before.type === "get_history" && after.type === "get_history" && before.node === after.node,
  );
  return createMemo(() => historyData(answer()));
}

function historyData(answer: Answer<History>): HistoryData | undefined {
  if (answer.kind !== "ready") return undefined;
  const rows = decodeExecutions(answer.value.executions);
  const bySeq = new Map(answer.value.points.map((point) => [point.seq, point.summary]));
  const seq = Array.from(rows.seq);
  const summaries = seq.map((position) => bySeq.get(position) ?? undefined);
  const scalar = summaries.some((summary) => summary && elementCount(summary.spec.shape) === 1);
  return {
    total: answer.value.total,
    seq,
    step: Array.from(rows.step),
    durationNs: Array.from(rows.durationNs),
    measure: summaries.map((summary) => {
      if (summary === undefined || summary === null) return undefined;
      if (summary.nan_count > 0) return Number.NaN;
      return (scalar ? (summary.preview[0] ?? summary.mean) : summary.norm) ?? undefined;
    }),
    mean: summaries.map((summary) => summary?.mean),
    notFinite: summaries.map((summary) =>
      summary ? summary.nan_count + summary.inf_count : undefined,
    ),
    measured: scalar ? "value" : "norm",
    edits: answer.value.edits,
  };
}

export function TimePanel(props: {
  readonly history: HistoryData | undefined;
  readonly theme: string;
  onPick(seq: number): void;
  onHold(seq: number, step: number): void;
}): JSX.Element {
  return (
    <Show when={(props.history?.total ?? 0) > 0 ? props.history : undefined}>
      {(now) => (
        <section class="sec">
          <div class="h">
            <span class="lab">Time</span>
            <span class="sp" />
            <span class="mi t3">
              {plural(now().total, "execution")}, {now().total > 1 ? "median " : ""}
              {formatDuration(median(now().durationNs))}
            </span>
          </div>
          <div class="row spark-row">
            <Sparkline
              values={now().durationNs}
              label="Time over executions"
              theme={props.theme}
              marked={now().durationNs.length - 1}
              onPick={(i) => props.onPick(now().seq[i] ?? 0)}
              onHold={(i) => props.onHold(now().seq[i] ?? 0, now().step[i] ?? 0)}
            />
            <span class="m spark-last">
              {formatDuration(now().durationNs.at(-1) ?? Number.NaN)}
            </span>
          </div>
        </section>
      )}
    </Show>
  );
}

export function StepsPanel(props: {
  readonly history: HistoryData | undefined;
  readonly theme: string;
  readonly seq: number | null;
  /** Whether the framework measures times. */
  readonly timed: boolean;
  /** The held moment, A. */
  readonly held: number | undefined;
  onPick(seq: number): void;
  onHold(seq: number, step: number): void;
}): JSX.Element {
  const order = createMemo(() => {
    const count = props.history?.seq.length ?? 0;
    return Array.from({ length: Math.min(count, TABLE_ROWS) }, (_, i) => count - 1 - i);
  });
  const faulty = () => props.history?.notFinite.some((count) => (count ?? 0) > 0) ?? false;
  return (
    <Show
      when={(props.history?.total ?? 0) > 0 ? props.history : undefined}
      fallback={<p class="empty">Not run yet.</p>}
    >
      {(now) => (
        <div class="steps">
          <div class="h">
            <span class="lab">{now().measured === "value" ? "Value" : "Norm"} over executions</span>
            <span class="sp" />
            <span class="mi t3">{plural(now().total, "execution")}</span>
          </div>
          <Sparkline
            values={now().measure}
            label="Value over executions"
            theme={props.theme}
            marked={now().measure.length - 1}
            onPick={(i) => props.onPick(now().seq[i] ?? 0)}
            onHold={(i) => props.onHold(now().seq[i] ?? 0, now().step[i] ?? 0)}
          />
          <table class="steps-table">
            <thead>
              <tr>
                <th class="r">Step</th>
                <th class="r">{now().measured === "value" ? "Value" : "Norm"}</th>
                <Show when={now().measured === "norm"}>
                  <th class="r">Mean</th>
                </Show>
                <Show when={faulty()}>
                  <th class="r">NaN, Inf</th>
                </Show>
                <Show when={props.timed}>
                  <th class="r">Time</th>
                </Show>
                <th class="steps-a">
                  <span class="sr">Compare</span>
                </th>
              </tr>
            </thead>
            <tbody>
              <For each={order()}>
                {(i) => (
                  <tr
                    classList={{ here: now().seq[i] === props.seq }}
                    tabindex={0}
                    title="Go to this moment"
                    onClick={() => props.onPick(now().seq[i] ?? 0)}
                    onKeyDown={(event) => {
                      if (event.key === "Enter") props.onPick(now().seq[i] ?? 0);
                    }}
                  >
                    <td class="r m">{formatCount(now().step[i] ?? 0)}</td>
                    <td class="r m" classList={{ nan: Number.isNaN(now().measure[i] ?? 0) }}>
                      {formatNumber(now().measure[i])}
                    </td>
                    <Show when={now().measured === "norm"}>
                      <td class="r m">{formatNumber(now().mean[i])}</td>
                    </Show>
                    <Show when={faulty()}>
                      <td class="r m" classList={{ nan: (now().notFinite[i] ?? 0) > 0 }}>
                        {notFiniteText(now().notFinite[i])}
                      </td>
                    </Show>
                    <Show when={props.timed}>
                      <td class="r m">{formatDuration(now().durationNs[i] ?? Number.NaN)}</td>
                    </Show>
                    <td class="steps-a">
                      <button
                        type="button"
                        class="moment-a"
                        classList={{ off: now().seq[i] !== props.held }}
                        title="Mark this moment as A for comparison"
                        aria-label={`Mark step ${now().step[i] ?? 0} as A`}
                        data-testid="step-hold"
                        onClick={(event) => {
                          event.stopPropagation();
                          props.onHold(now().seq[i] ?? 0, now().step[i] ?? 0);
                        }}
                        onKeyDown={keepKey}
                      >
                        A
                      </button>
                    </td>
                  </tr>
                )}
              </For>
            </tbody>
          </table>
        </div>
      )}
    </Show>
  );
}
