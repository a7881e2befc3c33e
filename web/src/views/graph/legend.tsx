/**
 * The legend: what colours, borders and signs on the canvas mean.
 *
 * Invariant: names only what occurs.
 */

import { createMemo, For, type JSX, onCleanup, Show } from "solid-js";
import { tensorBytes } from "@/base/dtypes";
import { formatBytes, formatDuration, plural } from "@/base/numbers";
import type { ColourBy, Corner, GraphPath } from "@/render/types";
import type { StepChanges } from "@/store/changes";
import { familyColour } from "@/store/node_words";
import type { Store } from "@/store/store";
import { throttled } from "@/store/throttled";
import { ChangesKey } from "@/views/graph/changes_chip";
import { HAS_INF, HAS_NAN } from "@/wire/types.gen";

export function Legend(props: {
  readonly mode: ColourBy;
  readonly store: Store;
  /** What is marked on the canvas. */
  readonly changes: StepChanges | undefined;
  readonly path: GraphPath | undefined;
  /** Whether watches have marked nodes. */
  readonly watched: boolean;
  /** How much of the left bottom corner it takes, in CSS px; nothing when it goes. */
  onSize(size: Corner): void;
}): JSX.Element {
  const measured = new ResizeObserver(([entry]) => {
    const box = entry?.target as HTMLElement | undefined;
    if (box !== undefined) props.onSize({ width: box.offsetWidth, height: box.offsetHeight });
  });
  onCleanup(() => {
    measured.disconnect();
    props.onSize({ width: 0, height: 0 });
  });
  const families = createMemo(
    () => {
      const found = new Set<string>();
      for (const node of props.store.model()?.graph.nodes ?? []) if (node) found.add(node.family);
      return [...found].filter((each) => each !== "leaf").sort();
    },
    undefined,
    { equals: (a, b) => a.join() === b.join() },
  );
  const beat = throttled(() => props.store.tick(), 500);
  const most = createMemo(() => {
    beat();
    const graph = props.store.model()?.graph;
    const columns = props.store.shown();
    let found = 0;
    for (const node of graph?.nodes ?? []) {
      if (node === undefined || node.family === "leaf") continue;
      const bytes = (value: number): number => {
        const spec = graph?.values.get(value)?.value.spec;
        return spec === undefined ? 0 : tensorBytes(spec.shape, spec.dtype);
      };
      const size =
        props.mode === "time"
          ? (columns.durationNs[node.id] ?? 0)
          : node.outputs.reduce((sum, value) => sum + bytes(value), 0);
      found = Math.max(found, size);
    }
    return found;
  });
  const amount = (size: number) =>
    props.mode === "time" ? formatDuration(size) : formatBytes(Math.ceil(size));
  const counts = createMemo(() => {
    beat();
    let nan = 0;
    let inf = 0;
    for (const flags of props.store.shown().flags) {
      if ((flags & HAS_NAN) !== 0) nan += 1;
      if ((flags & HAS_INF) !== 0) inf += 1;
    }
    return { nan, inf };
  });
  return (
    <Show when={families().length > 0}>
      <aside
        class="legend"
        data-testid="legend"
        aria-label="Legend"
        ref={(element) => measured.observe(element)}
      >
        <Show when={props.mode === "family"}>
          <h4>Op family</h4>
          <For each={families()}>
            {(each) => (
              <div>
                <span class="sw" style={{ background: `var(${familyColour(each)})` }} />
                {each}
              </div>
            )}
          </For>
        </Show>
        <Show when={props.mode === "time" || props.mode === "memory"}>
          <h4>{props.mode === "time" ? "Time of one execution" : "Memory of the outputs"}</h4>
          <div class="legend-scale" />
          <div class="legend-ends mi">
            <span>≤ {amount(most() / 1000)}</span>
            <span>{amount(most())}</span>
          </div>
          <div class="t3">logarithmic</div>
        </Show>
        <Show when={props.mode === "finite"}>
          <h4>Values</h4>
          <div>
            <span class="sw ok" />
            all finite
          </div>
          <div>
            <span class="dia" />
            NaN, {plural(counts().nan, "node")}
          </div>
          <div>
            <span class="dia inf" />
            Inf, {plural(counts().inf, "node")}
          </div>
        </Show>
        <h4>State</h4>
        <div>
          <span class="key-box done" />
          executed
        </div>
        <div>
          <span class="key-box here" />
          here
        </div>
        <div>
          <span class="key-box not" />
          not yet
        </div>
        <div>
          <span class="bdot enabled" />
          breakpoint
        </div>
        <Show when={props.watched}>
          <div>
            <span class="wmark" />
            found by a watch
          </div>
        </Show>
        <Show when={props.changes}>{(changes) => <ChangesKey changes={changes()} />}</Show>
        <Show when={props.path}>{(path) => <PathKey path={path()} />}</Show>
      </aside>
    </Show>
  );
}

function PathKey(props: { readonly path: GraphPath }): JSX.Element {
  const sign = () => `key-sign ${props.path.tone}`;
  return (
    <Show
      when={props.path.tone === "change"}
      fallback={
        <>
          <h4>Why</h4>
          <div>
            <span class={sign()}>1</span>
            asked about
          </div>
          <div>
            <span class={sign()}>2</span>
            comes from
          </div>
        </>
      }
    >
      <h4>What if</h4>
      <div>
        <span class={sign()}>≠</span>
        another value
      </div>
      <Show when={[...props.path.nodes.values()].includes("?")}>
        <div>
          <span class={sign()}>?</span>
          not run again
        </div>
      </Show>
    </Show>
  );
}
