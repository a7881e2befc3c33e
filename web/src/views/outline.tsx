/**
 * The outline: the program's scopes and nodes as a tree, which also makes the canvas accessible.
 *
 * Invariant: one tab stop; the focused row is the selection; only visible rows exist.
 */

import { createEffect, createMemo, createSignal, For, type JSX, on, Show } from "solid-js";
import { formatCount, formatDuration } from "@/base/numbers";
import { markOf, nodeMarks } from "@/store/debugger/breakpoints";
import { shownMember, stackState } from "@/store/debugger/stacks";
import type { MarkedNodes } from "@/store/debugger/watch_marks";
import {
  CHANGE_KINDS,
  type ChangeKind,
  countsByScope,
  type StepChanges,
} from "@/store/history/changes";
import { spreadStack, turnStack } from "@/store/page/stack_turns";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import { flagsOf, isDone, scopeCounts } from "@/store/run/counts";
import { seenStep } from "@/store/run/run_model";
import { type Row, type TreeEntry, visibleRows } from "@/store/run/tree";
import { ChangeSign } from "@/widgets/change_sign";
import { Icon } from "@/widgets/icon";
import { VirtualList, type VirtualListHandle } from "@/widgets/virtual_list";
import { FAILED, HAS_INF, HAS_NAN } from "@/wire/types.gen";

export interface OutlineProps {
  readonly store: Store;
  readonly ui: Ui;
  /** The step's changes, while they are marked. */
  readonly changes: StepChanges | undefined;
  /** Hits of watches, by node. */
  readonly marked: MarkedNodes;
  /** Rows of the matches so far; undefined = no search. */
  readonly found: readonly Row[] | undefined;
  toggleBreakpoint(node: number): void;
  toggleScopeBreakpoint(path: string): void;
  /** Called before another item is selected. */
  leave(): void;
  /** Brings an item into view on the canvas. */
  reveal(row: Row): void;
}

const ROW = 22;
const INDENT = 11;
/** From this depth on, rows are indented less, so that names have room. */
const DEEP = 6;
const DEEP_INDENT = 3;
/** The number at the end of a section's name: similar sections differ only in this number. */
const SECTION_NUMBER = / \d+(–\d+)?›$/;
const LATEST_TIME = "Time of its latest execution";
const LATEST_TIMES =
  "Time of the latest execution of each operation inside, added up. The summary of a run adds up all executions.";

function indentOf(depth: number): number {
  return Math.min(depth, DEEP) * INDENT + Math.max(0, depth - DEEP) * DEEP_INDENT;
}

export function Outline(props: OutlineProps): JSX.Element {
  let list: VirtualListHandle | undefined;
  const [focused, setFocused] = createSignal(false);
  const beat = throttled(props.store.tick, 120);
  const rows = createMemo(() => {
    const tree = props.store.tree();
    if (!props.store.first.there()) return [];
    if (tree === undefined) return [];
    return props.found ?? visibleRows(tree, props.store.folds().open);
  });
  const marks = createMemo(() => {
    const model = props.store.model();
    return nodeMarks(model?.session?.breakpoints ?? [], model?.graph.byName ?? new Map());
  });
  const scopeMarks = createMemo(
    () =>
      new Map(
        (props.store.session()?.breakpoints ?? [])
          .filter((status) => status.breakpoint.kind === "scope")
          .map((status) => [status.breakpoint.target, markOf(status)] as const),
      ),
  );
  const inside = createMemo(() => {
    const graph = props.store.model()?.graph;
    return graph === undefined || props.changes === undefined
      ? undefined
      : countsByScope(graph, props.changes);
  });
  const current = createMemo(() => {
    beat();
    const cursor = props.store.cursor();
    return cursor.kind === "live" ? (props.store.stop()?.node ?? 0) : props.store.past.lastNode;
  });
  const currentName = createMemo(() => props.store.model()?.graph.nodes[current()]?.name);
  const selectedIndex = createMemo(() => {
    const item = props.store.selection();
    return item === undefined ? -1 : rows().findIndex((row) => isAt(row, item));
  });

  function isSelected(row: Row): boolean {
    const item = props.store.selection();
    return item !== undefined && isAt(row, item);
  }

  function isAt(row: Row, item: Item): boolean {
    return item.kind === "node"
      ? row.entry.kind === "node" && row.entry.id === item.id
      : row.entry.kind === "scope" && row.entry.path === item.path;
  }

  const pick = (row: Row): void => {
    props.leave();
    props.store.select(
      row.entry.kind === "node"
        ? { kind: "node", id: row.entry.id }
        : { kind: "scope", path: row.entry.path },
    );
    props.reveal(row);
  };

  createEffect(
    on([props.store.stops, selectedIndex], () => {
      if (selectedIndex() >= 0) list?.reveal(selectedIndex());
    }),
  );

  const keys = (event: KeyboardEvent): void => {
    if (event.altKey) return;
    const at = selectedIndex();
    const row = rows()[at];
    const go = (index: number): void => {
      const next = rows()[Math.max(0, Math.min(rows().length - 1, index))];
      if (next !== undefined) pick(next);
    };
    switch (event.key) {
      case "ArrowDown":
        go(at + 1);
        break;
      case "ArrowUp":
        go(at - 1);
        break;
      case "Home":
        go(0);
        break;
      case "End":
        go(rows().length - 1);
        break;
      case "PageDown":
        go(at + 15);
        break;
      case "PageUp":
        go(at - 15);
        break;
      case "ArrowRight":
        if (row?.entry.kind === "scope" && !row.open) props.store.toggleScope(row.entry.path);
        else go(at + 1);
        break;
      case "ArrowLeft":
        if (row?.entry.kind === "scope" && row.open) props.store.toggleScope(row.entry.path);
        else if (row !== undefined) {
          go(rows().findLastIndex((other, i) => i < at && other.depth < row.depth));
        }
        break;
      case "Enter":
      case " ":
        if (row?.entry.kind === "scope") props.store.toggleScope(row.entry.path);
        break;
      default:
        return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <VirtualList<Row>
      class="tree"
      items={rows()}
      rowHeight={ROW}
      ref={(handle) => {
        list = handle;
        handle.element.addEventListener("focus", () => setFocused(true));
        handle.element.addEventListener("blur", () => setFocused(false));
      }}
      attrs={{
        role: "tree",
        tabindex: 0,
        "aria-label": "Outline of the program",
        "aria-activedescendant": selectedIndex() >= 0 ? `row-${selectedIndex()}` : undefined,
        // The layout may still choose which scopes are open.
        "aria-busy": props.ui.choiceAhead() && props.store.first.choosing() ? "true" : undefined,
        "data-testid": "outline",
      }}
      onKeyDown={keys}
      empty={
        <p class="empty">
          {props.ui.search() !== ""
            ? "Nothing matches. Try op:matmul, nan:true or a part of a name."
            : props.store.model()?.info.state === "live"
              ? "No operation has run yet."
              : "No nodes ran."}
        </p>
      }
      row={(row, index) => {
        // When the rows change, many still show the same entry, whose counts are then kept.
        const shown = createMemo(() => row().entry);
        const node = () => {
          const entry = shown();
          return entry.kind === "node" ? entry.id : 0;
        };
        const flags = createMemo(() => {
          beat();
          const { store } = props;
          return flagsOf(store.model()?.graph.nodes[node()], store.shown(), seenStep(store));
        });
        const counts = createMemo(() => {
          beat();
          const entry = shown();
          const graph = props.store.model()?.graph;
          const columns = props.store.shown();
          const step = seenStep(props.store);
          if (entry.kind === "scope") return scopeCounts(graph, entry.members, columns, step);
          const ran = isDone(graph?.nodes[entry.id], columns, step) ? 1 : 0;
          return { ran, ns: columns.durationNs[entry.id] ?? 0 };
        });
        const done = () => counts().ran > 0;
        const time = () => counts().ns;
        /** Kinds of change; for a scope, with the number of changes inside. */
        const signs = createMemo((): readonly (readonly [ChangeKind, string])[] => {
          const entry = shown();
          if (props.changes === undefined) return [];
          if (entry.kind === "node") {
            const kind = props.changes.marks.get(entry.id);
            return kind === undefined ? [] : [[kind, ""]];
          }
          const counts = inside()?.get(entry.path);
          return counts === undefined
            ? []
            : CHANGE_KINDS.filter((kind) => counts[kind] > 0).map((kind) => [
                kind,
                formatCount(counts[kind]),
              ]);
        });
        const mark = () => {
          const entry = shown();
          return entry.kind === "node" ? marks().get(entry.id) : scopeMarks().get(entry.path);
        };
        const hits = createMemo(() => {
          const entry = shown();
          if (props.marked.size === 0) return [];
          const ids = entry.kind === "node" ? [entry.id] : row().open ? [] : entry.members;
          return ids.flatMap((id) => props.marked.get(id)?.hits ?? []);
        });
        const total = () => hits().length;
        const foundTitle = () => hits()[0]?.text ?? "";
        const end = () => SECTION_NUMBER.exec(row().label)?.[0] ?? "";
        const isCurrent = () => node() > 0 && node() === current();
        const holds = () => {
          const entry = shown();
          return (
            entry.kind === "scope" &&
            !isCurrent() &&
            (currentName()?.startsWith(`${entry.path}/`) ?? false)
          );
        };
        return (
          <div
            class="tr"
            role="treeitem"
            tabindex={-1}
            id={`row-${index()}`}
            data-testid="outline-row"
            data-name={row().entry.path}
            data-kind={row().entry.kind}
            aria-level={row().depth + 1}
            aria-selected={isSelected(row())}
            aria-expanded={row().entry.kind === "scope" ? row().open : undefined}
            aria-current={isCurrent() ? "step" : undefined}
            classList={{
              cur: isCurrent(),
              in: holds(),
              no: !done(),
              sel: isSelected(row()),
              focus: focused() && isSelected(row()),
              leaf: row().entry.kind === "node",
            }}
            title={row().entry.path}
            onClick={() => {
              pick(row());
              list?.element.focus({ preventScroll: true });
            }}
            onDblClick={() => {
              const entry = row().entry;
              if (entry.kind === "scope") props.store.toggleScope(entry.path);
            }}
          >
            <button
              type="button"
              class="gut"
              tabindex={-1}
              data-testid="gutter"
              aria-label={mark() === undefined ? "Set a breakpoint" : "Remove the breakpoint"}
              title={
                mark() !== undefined
                  ? "Remove the breakpoint"
                  : node() > 0
                    ? "Stop after this node"
                    : "Stop after the first node inside, each time this scope is entered"
              }
              onClick={(event) => {
                event.stopPropagation();
                if (node() > 0) props.toggleBreakpoint(node());
                else props.toggleScopeBreakpoint(row().entry.path);
              }}
            >
              <span class={`bdot ${mark() ?? "none"}`} />
            </button>
            <span class="indent" style={{ width: `${indentOf(row().depth)}px` }} />
            <Show when={row().entry.kind === "scope"} fallback={<span class="tw" />}>
              <button
                type="button"
                class="tw"
                tabindex={-1}
                aria-label={row().open ? "Fold" : "Open"}
                onClick={(event) => {
                  event.stopPropagation();
                  props.store.toggleScope(row().entry.path);
                }}
              >
                <Icon name={row().open ? "down" : "right"} size={12} />
              </button>
            </Show>
            <span class="ell tr-name">
              {row().label.slice(0, row().label.length - end().length)}
            </span>
            <Show when={end() !== ""}>
              <span class="tr-name tr-end">{end()}</span>
            </Show>
            <StackControls store={props.store} entry={row().entry} />
            <span class="sp" />
            <For each={signs()}>
              {([kind, count]) => (
                <span class={`tr-change mi ${kind}`} data-testid={`outline-${kind}`} title={kind}>
                  <ChangeSign kind={kind} title={kind} />
                  {count}
                </span>
              )}
            </For>
            <Show when={total() > 0}>
              <span
                class="tr-watch mi"
                data-testid="outline-marked"
                title={`Watches found something here: ${foundTitle()}`}
              >
                <span class="wmark" />
                {total() > 1 ? formatCount(total()) : ""}
              </span>
            </Show>
            <Show when={(flags() & FAILED) !== 0}>
              <span class="mi brk">raised</span>
            </Show>
            <Show when={(flags() & HAS_NAN) !== 0}>
              <span class="mi nan">NaN</span>
            </Show>
            <Show when={(flags() & HAS_INF) !== 0}>
              <span class="mi inf">Inf</span>
            </Show>
            {/* A node that raised has no time; its mark takes the place. */}
            <Show when={(flags() & FAILED) === 0}>
              <span class="tr-time" title={node() > 0 ? LATEST_TIME : LATEST_TIMES}>
                {time() > 0 ? formatDuration(time()) : ""}
              </span>
            </Show>
          </div>
        );
      }}
    />
  );
}

/** Buttons: on a stack, to show all its scopes; on the one scope it shows, to turn to another. */
function StackControls(props: { readonly store: Store; readonly entry: TreeEntry }): JSX.Element {
  const stack = () => (props.entry.kind === "scope" ? props.entry.stack : undefined);
  const around = () => props.store.tree()?.repeats.stackOf.get(props.entry.path);
  const open = () => props.store.folds().open;
  const place = () => {
    const stacked = around();
    return stacked !== undefined && shownMember(open(), stacked) === props.entry.path
      ? stacked
      : undefined;
  };
  const turn = (act: "previous" | "next") => (event: MouseEvent) => {
    event.stopPropagation();
    const stacked = place();
    if (stacked !== undefined) turnStack(props.store, stacked, act);
  };
  return (
    <>
      <Show when={stack()}>
        {(stacked) => (
          <button
            type="button"
            class="tr-count mi"
            tabindex={-1}
            data-testid="outline-count"
            title={
              stackState(open(), stacked()) === "all"
                ? "Show only one of these scopes, which are alike"
                : `Show all ${stacked().members.length} of these scopes, which are alike`
            }
            onClick={(event) => {
              event.stopPropagation();
              spreadStack(props.store, stacked());
            }}
          >
            ×{stacked().members.length}
          </button>
        )}
      </Show>
      <Show when={place()}>
        {(stacked) => (
          <span class="tr-place mi t3">
            <button
              type="button"
              tabindex={-1}
              aria-label="Previous scope of the stack"
              title="Previous scope of the stack ({)"
              onClick={turn("previous")}
            >
              <Icon name="left" size={10} />
            </button>
            {stacked().members.indexOf(props.entry.path) + 1}/{stacked().members.length}
            <button
              type="button"
              tabindex={-1}
              aria-label="Next scope of the stack"
              title="Next scope of the stack (})"
              onClick={turn("next")}
            >
              <Icon name="right" size={10} />
            </button>
          </span>
        )}
      </Show>
    </>
  );
}
