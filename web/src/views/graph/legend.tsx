/**
 * The legend: what colours, borders and signs on the canvas mean.
 *
 * Invariant: lists only what occurs.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { formatBytes, formatDuration, plural } from "@/base/numbers";
import { familyOf } from "@/render/draw/palette";
import { pathKey } from "@/render/scene/path";
import type { GraphPath } from "@/render/scene/types";
import type { StepChanges } from "@/store/history/changes";
import type { NumberOverlay } from "@/store/overlays/overlay";
import type { Overlays } from "@/store/page/overlays";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { ColourMode } from "@/store/page/ui";
import { notFinite } from "@/store/run/counts";
import { familyColour } from "@/store/run/node_text";
import { neverRuns, seenStep } from "@/store/run/run_model";
import { ChangesKey } from "@/views/graph/changes_chip";
import { isLeaf } from "@/wire/roles";

export function Legend(props: {
  readonly mode: ColourMode;
  readonly overlays: Overlays;
  readonly store: Store;
  /** Marks on the canvas. */
  readonly changes: StepChanges | undefined;
  readonly path: GraphPath | undefined;
  /** Whether watches have marked nodes. */
  readonly watched: boolean;
  /** The top of the colour scale, in ns or bytes. */
  readonly most: number;
}): JSX.Element {
  const families = createMemo(
    () => {
      const paths = new Set<string>();
      for (const node of props.store.model()?.graph.nodes ?? []) {
        if (node && !isLeaf(node)) paths.add(familyOf(node));
      }
      return [...paths].sort();
    },
    undefined,
    { equals: (a, b) => a.join() === b.join() },
  );
  const backward = createMemo(() =>
    (props.store.model()?.graph.nodes ?? []).some((node) => node?.phase === "backward"),
  );
  const selected = () => props.overlays.of(props.store.selection());
  const words = (overlay: NumberOverlay): string => {
    const item = props.store.selection();
    return item?.kind === "node" ? (overlay.words?.(item.id) ?? "") : "";
  };
  const beat = throttled(() => props.store.tick(), 500);
  const amount = (size: number) =>
    props.mode === "time" ? formatDuration(size) : formatBytes(Math.ceil(size));
  const counts = createMemo(() => {
    beat();
    return notFinite(props.store.model()?.graph, props.store.shown(), seenStep(props.store));
  });
  const structure = () => {
    beat();
    return neverRuns(props.store.model(), props.store.live);
  };
  return (
    <Show when={families().length > 0}>
      <aside class="legend" data-testid="legend" aria-label="Legend">
        <Show when={props.mode === "family"}>
          <Group title="Op family">
            <For each={families()}>
              {(family) => (
                <div>
                  <span class="sw" style={{ background: `var(${familyColour(family)})` }} />
                  {family}
                </div>
              )}
            </For>
          </Group>
        </Show>
        <Show when={props.mode === "time" || props.mode === "memory"}>
          <Group title={props.mode === "time" ? "Time of one execution" : "Memory of the outputs"}>
            <div class="mi" data-testid="legend-scale">
              ≤ {amount(props.most / 1000)}
              <span class="legend-scale" />
              {amount(props.most)}
            </div>
            <div class="t3">logarithmic · a folded scope shows its total</div>
          </Group>
        </Show>
        <Show when={props.overlays.shown()}>
          {(overlay) => (
            <Group title={overlay().title}>
              <Show when={overlay().numbers.values.size > 0}>
                <div class="mi" data-testid="legend-numbers">
                  {overlay().numbers.least === undefined ? "≤ " : ""}
                  {overlay().format(overlay().numbers.least ?? overlay().numbers.most / 1000)}
                  <Show when={overlay().numbers.colour === undefined} fallback=" – ">
                    <span class="legend-scale" />
                  </Show>
                  {overlay().format(overlay().numbers.most)}
                </div>
                <div class="t3">a folded scope: {overlay().folded}</div>
              </Show>
              <Show when={selected() !== undefined}>
                <div class="mi" data-testid="legend-selected">
                  <span class="t3">selected</span> {overlay().format(selected() ?? 0)}
                </div>
                <Show when={words(overlay())}>{(more) => <div class="t3">{more()}</div>}</Show>
              </Show>
              <Show when={overlay().note !== ""}>
                <div class="t3">{overlay().note}</div>
              </Show>
            </Group>
          )}
        </Show>
        <Show when={props.mode === "finite"}>
          <Group title="Values">
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
          </Group>
        </Show>
        <Show when={!structure() || props.watched}>
          <Group title="State">
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
            <Show when={backward()}>
              <div title="The name of a backward node follows a triangle, ∇: it computes the gradient of its forward node">
                <svg class="icon" viewBox="0 0 10 10" width="9" height="9" aria-hidden="true">
                  <path class="icon-line" d="M1 1.500h8L5 9z" />
                </svg>
                gradient of
              </div>
            </Show>
            <Show when={props.watched}>
              <div>
                <span class="wmark" />
                found by a watch
              </div>
            </Show>
          </Group>
        </Show>
        <Show when={props.changes}>{(changes) => <ChangesKey changes={changes()} />}</Show>
        <Show when={props.path}>{(path) => <PathKey path={path()} />}</Show>
      </aside>
    </Show>
  );
}

/** Signs of one kind, which stay together if they fit on one line. */
function Group(props: {
  readonly title: string;
  readonly hint?: string;
  readonly children: JSX.Element;
}): JSX.Element {
  return (
    <div class="legend-group" data-testid="legend-group">
      <h4 title={props.hint}>{props.title}</h4>
      {props.children}
    </div>
  );
}

function PathKey(props: { readonly path: GraphPath }): JSX.Element {
  return (
    <Show
      when={props.path.tone === "change"}
      fallback={
        <Group
          title="Why"
          hint="Each node has its place in the chain, from the one asked about back to the cause"
        >
          <For each={pathKey(props.path)}>
            {(row) => (
              <div data-testid="legend-why">
                <span class={`key-sign ${row.tone}`}>{row.sign}</span>
                {row.words}
              </div>
            )}
          </For>
        </Group>
      }
    >
      <Group title="What if">
        <div>
          <span class="key-sign change">≠</span>
          value changed
        </div>
        <Show when={[...props.path.nodes.values()].includes("?")}>
          <div>
            <span class="key-sign change">?</span>
            not re-run
          </div>
        </Show>
      </Group>
    </Show>
  );
}
