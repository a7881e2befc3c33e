/**
 * The function as a whole, while nothing is picked: times, matches, errors, what takes long.
 *
 * Invariant: what is listed can be picked.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { formatCount, formatDuration, formatNumber, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { badness, errorWords, worstOf } from "@/store/history/compare";
import { Fact, Name, ratio } from "@/views/compare/facts";
import type { CompareState } from "@/views/compare/state";
import { isLeaf } from "@/wire/roles";
import type { ComparedFunction } from "@/wire/types.gen";

const SHOWN = 6;

export function Whole(props: {
  readonly fn: ComparedFunction;
  readonly state: CompareState;
}): JSX.Element {
  const inner = createMemo(() => props.fn.nodes.filter((node) => !isLeaf(node)));
  const errors = createMemo(() =>
    inner()
      .flatMap((node) => {
        const worst = worstOf(node);
        return worst === undefined ? [] : [{ node, worst }];
      })
      .sort((a, b) => badness(b.worst) - badness(a.worst)),
  );
  const off = () => errors().filter(({ worst }) => !worst.equal);
  const slow = createMemo(() =>
    [...props.fn.kernels].sort((a, b) => (b.ns ?? 0) - (a.ns ?? 0)).slice(0, SHOWN),
  );
  const timing = () =>
    props.state
      .comparison()
      ?.timings?.functions.find((timing) => timing.name === props.fn.owner.replace(/(#\d+)+$/, ""));
  const runs = () => props.state.comparison()?.timings?.runs ?? 0;
  const matched = () => inner().filter((node) => node.eager > 0).length;
  return (
    <>
      <section class="cmp-block">
        <h3 class="lab ell" title={printable(props.fn.owner, 10_000)}>
          <bdi dir="ltr">{printable(props.fn.owner)}</bdi>
        </h3>
        <Show
          when={timing()}
          fallback={
            <>
              <p class="cmp-verdict" data-testid="whole-verdict">
                {props.fn.kernels.length > 0 ? "Not timed unobserved" : nothingLeft(inner().length)}
              </p>
              <Show when={props.fn.kernels.length > 0}>
                <p class="t3 small">
                  <code>nodescope compare train.py</code> measures it; these recordings were made
                  without timing.
                </p>
              </Show>
            </>
          }
        >
          {(both) => (
            <>
              <p class="cmp-verdict" data-testid="whole-verdict">
                {ratio(both().eager.median_ns, both().compiled.median_ns)}
              </p>
              <p class="small t2" data-testid="whole-unobserved">
                Unobserved, per call: {formatDuration(both().eager.median_ns)} eager,{" "}
                {formatDuration(both().compiled.median_ns)} compiled
                {spread(both().pairs)}.
              </p>
              <p class="t3 small">
                Medians of {formatCount(both().eager.calls)} and{" "}
                {formatCount(both().compiled.calls)} calls in {plural(runs(), "run")} each, taken in
                turns; the first {formatCount(props.state.comparison()?.timings?.warm_up ?? 0)}{" "}
                calls of a run, tracing included, are left out.
              </p>
            </>
          )}
        </Show>
        <For each={props.state.comparison()?.notes ?? []}>
          {(note) => (
            <p class="small now cmp-note" data-testid="note">
              {printable(note)}
            </p>
          )}
        </For>
        <dl class="cmp-facts">
          <Fact name="eager nodes, observed" value={formatDuration(props.fn.eager_ns)} />
          <Fact name="compiled nodes, observed" value={formatDuration(props.fn.compiled_ns)} />
          <Fact name="compiled in" value={formatDuration(props.fn.compile_ns)} />
          <Fact name="back end" value={props.fn.backend || "–"} />
          <Fact name="ran in" value={plural(props.fn.steps.length, "step")} />
        </dl>
        <p class="t3 small">
          Times of single nodes are as observed, node by node; unobserved, the compiled function
          runs as one plan.
        </p>
        <Show when={props.fn.fallback}>
          <p class="small now">{printable(props.fn.fallback)}</p>
        </Show>
      </section>
      <section class="cmp-block">
        <h3 class="lab">Matched</h3>
        <p class="cmp-verdict">
          {formatCount(matched())} of {plural(inner().length, "traced node")}
        </p>
        <p class="t3 small">
          {props.fn.unmatched.length === 0
            ? "All eager nodes of the step were matched."
            : `${plural(props.fn.unmatched.length, "eager node")} of the step ${props.fn.unmatched.length === 1 ? "lies" : "lie"} outside it.`}
        </p>
        <p class="t3 small">
          Pick a node on either side, or press <kbd>N</kbd> for the largest error.
        </p>
        <Show when={props.fn.unfused.length > 0}>
          <h3 class="lab cmp-apart">Not fused</h3>
          <For each={props.fn.unfused.slice(0, SHOWN)}>
            {(note) => (
              <p class="t2 small ell" title={printable(note, 10_000)}>
                {printable(note)}
              </p>
            )}
          </For>
          <Show when={props.fn.unfused.length > SHOWN}>
            <p class="t3 small">and {formatCount(props.fn.unfused.length - SHOWN)} more</p>
          </Show>
        </Show>
      </section>
      <section class="cmp-block">
        <h3 class="lab">Largest errors</h3>
        <Show
          when={off().length > 0}
          fallback={
            <p class="cmp-verdict">
              {errors().length === 0
                ? "Nothing was measured: no node has a value in both recordings."
                : errors().length === 1
                  ? "The measured value is equal."
                  : `All ${formatCount(errors().length)} measured values are equal.`}
            </p>
          }
        >
          <ul class="cmp-list">
            <For each={off().slice(0, SHOWN)}>
              {({ node }) => (
                <li>
                  <button
                    type="button"
                    class="cmp-item"
                    onClick={() => props.state.pick({ side: "eager", id: node.eager })}
                  >
                    <Name text={node.name} />
                    <span class="sp" />
                    <span class="mi t2">{errorWords(node)}</span>
                  </button>
                </li>
              )}
            </For>
          </ul>
        </Show>
      </section>
      <section class="cmp-block">
        <h3 class="lab">Longest to run</h3>
        <Show when={slow().length === 0}>
          <p class="t3 small">Nothing to run.</p>
        </Show>
        <ul class="cmp-list">
          <For each={slow()}>
            {(kernel) => (
              <li>
                <button
                  type="button"
                  class="cmp-item"
                  onClick={() => props.state.pick({ side: "compiled", id: kernel.id })}
                >
                  <Name text={kernel.name} />
                  <span class="sp" />
                  <span class="mi t2">
                    {kernel.ns === null ? "not recorded" : formatDuration(kernel.ns)}
                  </span>
                </button>
              </li>
            )}
          </For>
        </ul>
      </section>
    </>
  );
}

/** The range over pairs of runs: one eager, one compiled. */
export function spread(pairs: readonly number[]): string {
  if (pairs.length < 2) return "";
  const low = formatNumber(Math.min(...pairs), 3);
  const high = formatNumber(Math.max(...pairs), 3);
  return low === high ? "" : `; ${low}× to ${high}× over ${pairs.length} pairs of runs`;
}

function nothingLeft(traced: number): string {
  return traced === 0
    ? "Nothing to compute."
    : `${plural(traced, "traced node")}, nothing left to run.`;
}
