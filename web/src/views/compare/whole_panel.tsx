/**
 * The function as a whole, while nothing is picked: times, matches, errors, slowest nodes.
 *
 * Invariant: every listed node can be picked.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { formatCount, formatDuration, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { errorWords, worseFirst, worstOf } from "@/store/history/compare";
import { Fact, Name, ratio } from "@/views/compare/facts";
import type { CompareState } from "@/views/compare/state";
import { seldomWords, timeRows, timingOf, WholeTimes } from "@/views/compare/whole_times";
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
      .sort((a, b) => worseFirst(a.worst, b.worst)),
  );
  const off = () => errors().filter(({ worst }) => !worst.equal);
  const slow = createMemo(() =>
    [...props.fn.kernels].sort((a, b) => (b.ns ?? 0) - (a.ns ?? 0)).slice(0, SHOWN),
  );
  const timings = () => props.state.comparison()?.timings ?? undefined;
  const timing = () => timingOf(props.fn, timings());
  const matched = () => inner().filter((node) => node.eager > 0).length;
  return (
    <>
      <section class="cmp-block">
        <h3 class="lab ell" title={printable(props.fn.owner, 10_000)}>
          <bdi dir="ltr">{printable(props.fn.owner)}</bdi>
        </h3>
        <p class="cmp-verdict" data-testid="whole-verdict">
          <Show
            when={timing()}
            fallback={props.fn.kernels.length > 0 ? "Calls not timed" : nothingLeft(inner().length)}
          >
            {(both) => ratio(both().eager.median_ns, both().compiled.median_ns)}
          </Show>
        </p>
        <Show when={timing() === undefined && props.fn.kernels.length > 0}>
          <p class="t3 small">
            <Show
              when={timings()}
              fallback={
                <>
                  <code>nodescope compare train.py</code> times them; these recordings were made
                  without.
                </>
              }
            >
              {(tried) => seldomWords(tried())}
            </Show>
          </p>
        </Show>
        <WholeTimes rows={timeRows(props.fn, timings())} />
        <For each={props.state.comparison()?.notes ?? []}>
          {(note) => (
            <p class="small now cmp-note" data-testid="note">
              {printable(note)}
            </p>
          )}
        </For>
        <dl class="cmp-facts">
          <Fact name="compiled in" value={formatDuration(props.fn.compile_ns)} />
          <Fact name="back end" value={props.fn.backend || "–"} />
          <Fact name="ran in" value={plural(props.fn.steps.length, "step")} />
        </dl>
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
          Pick a node on either side
          <Show when={off().length > 0}>
            , or press <kbd>N</kbd> for the largest error
          </Show>
          .
        </p>
        <Show when={props.fn.unfused.length > 0}>
          <h3 class="lab cmp-apart">Not fused</h3>
          <For each={props.fn.unfused.slice(0, SHOWN)}>
            {(note) => <p class="t2 small cmp-wrap">{printable(note, 400)}</p>}
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
        <h3 class="lab">Longest compiled nodes</h3>
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

function nothingLeft(traced: number): string {
  return traced === 0
    ? "Nothing to compute."
    : `${plural(traced, "traced node")}, nothing left to run.`;
}
