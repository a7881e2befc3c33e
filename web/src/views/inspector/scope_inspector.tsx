/**
 * A selected scope: its module, its contents, its cost, and where its time goes.
 *
 * Invariant: sums are over the last execution of each member, at the moment shown.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { formatCount, formatDuration, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import type { Stack } from "@/base/repeats";
import { leafName } from "@/base/scopes";
import { isSection } from "@/base/sections";
import { createQuery } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { Item } from "@/store/page/url";
import { flagsOf, scopeCounts } from "@/store/run/counts";
import { familyColour } from "@/store/run/node_text";
import { seenStep } from "@/store/run/run_model";
import { type GetScope, HAS_INF, HAS_NAN } from "@/wire/types.gen";

/** A name and its text that together are longer get a whole line, not half of one. */
const BROAD = 18;

/** The scopes of a stack: how long each took, and whether it has NaN or Inf. */
function Members(props: {
  readonly store: Store;
  readonly stack: Stack;
  go(item: Item): void;
}): JSX.Element {
  const beat = throttled(() => props.store.tick(), 250);
  const rows = createMemo(() => {
    beat();
    const { store } = props;
    const nodes = store.model()?.graph.nodes;
    const columns = store.shown();
    const step = seenStep(store);
    return props.stack.members.map((path) => {
      const ids = store.tree()?.scopes.get(path)?.members ?? [];
      const flags = ids.reduce((all, id) => all | flagsOf(nodes?.[id], columns, step), 0);
      const { ns } = scopeCounts(store.model()?.graph, ids, columns, step);
      return { path, flags, ns };
    });
  });
  const most = () => Math.max(1, ...rows().map(({ ns }) => ns));
  return (
    <section class="sec" data-testid="stack-members">
      <div class="h">
        <span class="lab">One by one</span>
      </div>
      <For each={rows()}>
        {({ path, flags, ns }) => (
          <button
            type="button"
            class="share named"
            onClick={() => {
              props.store.disclose({ kind: "scope", path: `${path}/` });
              props.go({ kind: "scope", path });
            }}
          >
            <span class="share-name ell">{printable(leafName(path))}</span>
            <span class="share-bar">
              <span class="grey" style={{ width: `${(ns / most()) * 100}%` }} />
            </span>
            <span class="mi">
              {(flags & HAS_NAN) !== 0 ? <b class="nan">NaN </b> : ""}
              {(flags & HAS_INF) !== 0 ? <b class="inf">Inf </b> : ""}
              {formatDuration(ns)}
            </span>
          </button>
        )}
      </For>
    </section>
  );
}

export interface ScopeInspectorProps {
  readonly store: Store;
  readonly path: string;
  go(item: Item): void;
}

export function ScopeInspector(props: ScopeInspectorProps): JSX.Element {
  const beat = throttled(() => props.store.tick(), 250);
  const entry = () => props.store.tree()?.scopes.get(props.path);
  const members = createMemo(() => entry()?.members ?? []);
  const stack = () => entry()?.stack;
  /** The scope whose facts are shown; for a stack, the first scope represents all. */
  const scope = () => stack()?.first ?? props.path;
  const facts = createMemo(() => {
    beat();
    const { store } = props;
    return scopeCounts(store.model()?.graph, members(), store.shown(), seenStep(store));
  });
  const slowest = createMemo(() => {
    beat();
    const columns = props.store.shown();
    return [...facts().operations]
      .sort((a, b) => (columns.durationNs[b] ?? 0) - (columns.durationNs[a] ?? 0))
      .slice(0, 8);
  });
  const answer = createQuery(props.store, "scope_facts", (): GetScope | undefined => {
    const run = props.store.runId();
    return run === undefined || isSection(scope())
      ? undefined
      : { type: "get_scope", run, scope: scope() };
  });
  const known = createMemo(() => {
    const now = answer();
    return now.kind === "ready" && now.value.scope === scope() && now.value.kind !== ""
      ? now.value
      : undefined;
  });
  return (
    <>
      <header class="insp-head">
        <div class="insp-names">
          <div class="row insp-first">
            <h2 class="ell" data-testid="inspector-title">
              {printable(stack()?.name ?? leafName(props.path))}
            </h2>
            <span class="insp-family t3" data-testid="scope-kind">
              {printable(known()?.kind ?? "scope")}
              {stack() === undefined ? "" : ` ×${stack()?.members.length}`},{" "}
              {plural(facts().operations.length, "op")}
            </span>
          </div>
          <div class="mi t3 ell" title={scope()}>
            {isSection(scope())
              ? "Grouped by nodescope: the program has no scope here"
              : stack() === undefined
                ? props.path
                : `alike, from ${scope()}`}
          </div>
        </div>
      </header>
      <div class="insp-body">
        <Show when={Object.keys(known()?.attrs ?? {}).length > 0}>
          <section class="sec" data-testid="scope-settings">
            <div class="h">
              <span class="lab">Settings</span>
            </div>
            <dl class="kv wide2">
              <For each={Object.entries(known()?.attrs ?? {})}>
                {([name, text]) => (
                  <div classList={{ broad: name.length + text.length > BROAD }}>
                    <dt>{printable(name)}</dt>
                    <dd class="ell" title={printable(text)}>
                      {printable(text)}
                    </dd>
                  </div>
                )}
              </For>
            </dl>
          </section>
        </Show>
        <section class="sec">
          <div class="h">
            <span class="lab">Last execution</span>
            <span class="sp" />
            <span class="mi t3">
              {formatCount(facts().ran)} of {formatCount(facts().operations.length)} ran in step{" "}
              {formatCount(seenStep(props.store))}
            </span>
          </div>
          <div class="scalar m">{formatDuration(facts().ns)}</div>
        </section>
        <Show when={stack()}>
          {(shownStack) => <Members store={props.store} stack={shownStack()} go={props.go} />}
        </Show>
        <section class="sec">
          <div class="h">
            <span class="lab">By family</span>
          </div>
          <For each={facts().families}>
            {(family) => (
              <div class="share">
                <span class="sw" style={{ background: `var(${familyColour(family.family)})` }} />
                <span class="share-name">{family.family}</span>
                <span class="share-bar">
                  <span
                    style={{
                      width: `${(family.ns / Math.max(1, facts().ns)) * 100}%`,
                      background: `var(${familyColour(family.family)})`,
                    }}
                  />
                </span>
                <span class="mi t3">{plural(family.operations, "op")}</span>
                <span class="mi">{formatDuration(family.ns)}</span>
              </div>
            )}
          </For>
        </section>
        <section class="sec">
          <div class="h">
            <span class="lab">Slowest nodes</span>
          </div>
          <For each={slowest()}>
            {(id) => (
              <button
                type="button"
                class="input two"
                onClick={() => props.go({ kind: "node", id })}
              >
                <span class="ell input-name">
                  {props.store
                    .model()
                    ?.graph.nodes[id]?.name.slice(
                      stack() === undefined ? props.path.length + 1 : 0,
                    )}
                </span>
                <span class="mi">{formatDuration(durationOf(id))}</span>
              </button>
            )}
          </For>
        </section>
      </div>
    </>
  );

  function durationOf(id: number): number {
    beat();
    return props.store.shown().durationNs[id] ?? 0;
  }
}
