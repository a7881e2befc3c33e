/**
 * The comparison as tables: every traced node, every kernel, every rewrite of the pass shown.
 *
 * Invariant: the tables say in words and numbers all that the canvases show; rows are reached by
 * keyboard.
 */

import { createMemo, type JSX, Show } from "solid-js";
import { formatCount, formatDuration, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { errorWords, ruleWords, worstOf } from "@/store/history/compare";
import { Name } from "@/views/compare/facts";
import { FateSwatch } from "@/views/compare/fate_legend";
import type { CompareState } from "@/views/compare/state";
import { VirtualList } from "@/widgets/virtual_list";
import { isLeaf } from "@/wire/roles";
import type { ComparedNode, FateKind, Kernel } from "@/wire/types.gen";

const ROW = 22;

export function NodeTable(props: { readonly state: CompareState }): JSX.Element {
  const { state } = props;
  const rows = createMemo(() => {
    const fate = state.fate();
    return (state.fn()?.nodes ?? []).filter(
      (node) => !isLeaf(node) && (fate === undefined || node.fate === fate),
    );
  });
  const names = createMemo(
    () => new Map((state.fn()?.kernels ?? []).map((kernel) => [kernel.id, kernel])),
  );
  const into = (node: ComparedNode): string =>
    node.into
      .flatMap((id) => names().get(id) ?? [])
      .map((kernel) => kernel.name)
      .join(", ");
  return (
    <div class="cmp-table" role="table" aria-label="Traced nodes" data-testid="node-table">
      <div class="cmp-row cmp-nodes cmp-headrow" role="row">
        <span role="columnheader">Node</span>
        <span role="columnheader">Fate</span>
        <span role="columnheader">Runs in</span>
        <span role="columnheader">Error</span>
        <span role="columnheader" class="r">
          Eager
        </span>
        <span role="columnheader">Matched by</span>
      </div>
      <VirtualList
        items={rows()}
        rowHeight={ROW}
        empty={
          <p class="empty">
            {state.fate() === undefined
              ? "The function computes nothing: no node was traced."
              : "No node has this fate."}
          </p>
        }
        row={(node) => {
          const picked = () =>
            state.picked()?.side === "eager" && state.picked()?.id === node().eager;
          return (
            <button
              type="button"
              class="cmp-row cmp-nodes"
              classList={{ sel: picked() }}
              role="row"
              data-testid="node-row"
              data-name={node().name}
              disabled={node().eager === 0}
              onClick={() => state.pick({ side: "eager", id: node().eager })}
            >
              <Name text={node().name} role="cell" />
              <FateCell fate={node().fate} />
              <Name class="t2" text={into(node())} none="–" role="cell" />
              <span
                class="m ell"
                role="cell"
                classList={{ t3: worstOf(node()) === undefined }}
                title={errorWords(node())}
              >
                {errorWords(node())}
              </span>
              <span class="m r" role="cell">
                {node().eager_ns === null ? "–" : formatDuration(node().eager_ns ?? 0)}
              </span>
              <span class="t3" role="cell">
                {matchWords(node())}
              </span>
            </button>
          );
        }}
      />
    </div>
  );
}

function FateCell(props: { readonly fate: FateKind }): JSX.Element {
  return (
    <span class="cmp-cell-fate" role="cell">
      <FateSwatch fate={props.fate} />
      {props.fate}
    </span>
  );
}

export function matchWords(node: ComparedNode): string {
  switch (node.matched) {
    case "name":
      return "name";
    case "order":
      return "order of operations";
    case "inputs":
      return "consumers";
    default:
      return "not found";
  }
}

export function KernelTable(props: { readonly state: CompareState }): JSX.Element {
  const { state } = props;
  const rows = createMemo(() =>
    [...(state.fn()?.kernels ?? [])].sort((a, b) => (b.ns ?? 0) - (a.ns ?? 0)),
  );
  const most = createMemo(() =>
    rows().reduce((slowest, row) => Math.max(slowest, row.ns ?? 0, row.eager_ns ?? 0), 1),
  );
  const pick = (kernel: Kernel): void => {
    const last = (state.fn()?.stages.length ?? 1) - 1;
    if (state.stageIndex() !== last) state.setStage(last);
    state.pick({ side: "compiled", id: kernel.id });
  };
  return (
    <div class="cmp-table" role="table" aria-label="Compiled nodes" data-testid="kernel-table">
      <div class="cmp-row cmp-kernels cmp-headrow" role="row">
        <span role="columnheader">Compiled node</span>
        <span role="columnheader">Pattern</span>
        <span role="columnheader" class="r">
          Covers
        </span>
        <span role="columnheader" class="r">
          Compiled
        </span>
        <span role="columnheader" class="r">
          Eager
        </span>
        <span role="columnheader">Compiled and eager time</span>
      </div>
      <VirtualList
        items={rows()}
        rowHeight={ROW}
        empty={<p class="empty">Nothing to run: the compiled function has no nodes left.</p>}
        row={(kernel) => (
          <button
            type="button"
            class="cmp-row cmp-kernels"
            classList={{
              sel: state.picked()?.side === "compiled" && state.picked()?.id === kernel().id,
            }}
            role="row"
            data-testid="kernel-row"
            data-name={kernel().name}
            onClick={() => pick(kernel())}
          >
            <Name text={kernel().name} role="cell" />
            <span class="t2 ell" role="cell">
              {kernel().pattern || kernel().op}
            </span>
            <span class="m r" role="cell">
              {formatCount(kernel().covers.length)}
            </span>
            <span class="m r" role="cell" data-testid="kernel-time">
              {kernel().ns === null ? "not recorded" : formatDuration(kernel().ns ?? 0)}
            </span>
            <span class="m r t2" role="cell">
              {kernel().eager_ns === null ? "–" : formatDuration(kernel().eager_ns ?? 0)}
            </span>
            <span class="cmp-bars" role="cell" aria-hidden="true">
              <span class="now" style={{ width: `${((kernel().ns ?? 0) / most()) * 100}%` }} />
              <span
                class="was"
                style={{ width: `${((kernel().eager_ns ?? 0) / most()) * 100}%` }}
              />
            </span>
          </button>
        )}
      />
    </div>
  );
}

export function PassTable(props: { readonly state: CompareState }): JSX.Element {
  const stage = () => props.state.stage();
  const rows = createMemo(() => stage()?.changes ?? []);
  return (
    <div class="cmp-table" role="table" aria-label="Rewrites" data-testid="pass-table">
      <div class="cmp-row cmp-rewrites cmp-headrow" role="row">
        <span role="columnheader">Rule</span>
        <span role="columnheader">Change</span>
        <span role="columnheader">Before</span>
        <span role="columnheader">After</span>
      </div>
      <VirtualList
        items={rows()}
        rowHeight={ROW}
        empty={
          <p class="empty">
            {(props.state.fn()?.stages.length ?? 0) > 1 && props.state.stageIndex() === 0
              ? `The graph as traced: ${plural(stage()?.nodes ?? 0, "node")}. Move the slider to see what each pass rewrote.`
              : "No pass rewrote anything: the graph runs as traced."}
          </p>
        }
        row={(change) => (
          <div class="cmp-row cmp-rewrites" role="row" data-testid="rewrite-row">
            <span class="ell" role="cell" title={printable(change().note)}>
              {ruleWords(change().rule)}
              <Show when={change().note}>
                <span class="t3"> ({printable(change().note)})</span>
              </Show>
            </span>
            <span role="cell">{change().kind}</span>
            <Name text={change().before.join(", ")} role="cell" />
            <Name text={change().after.join(", ")} none="–" role="cell" />
          </div>
        )}
      />
    </div>
  );
}
