/**
 * The start page: running programs, recordings of this folder, and recent ones elsewhere.
 *
 * Invariant: everything can be done by keyboard; nothing is deleted without confirmation.
 */

import {
  createEffect,
  createMemo,
  createSignal,
  For,
  type JSX,
  onCleanup,
  onMount,
  Show,
} from "solid-js";
import { formatClock, formatDay } from "@/base/dates";
import { formatBytes, formatCount, formatDuration, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import type { Preferences } from "@/store/page/preferences";
import {
  ago,
  argumentsOf,
  clock,
  type Group,
  outcomeTone,
  outcomeWords,
  type SortBy,
  startedAt,
  type Which,
} from "@/store/page/recordings_list";
import type { Store } from "@/store/page/store";
import { Begin } from "@/views/start/begin";
import { createShelf, GROUPS, type ShelfState } from "@/views/start/shelf";
import { Segmented } from "@/widgets/controls";
import { Icon, IconButton } from "@/widgets/icon";
import { Logo } from "@/widgets/logo";
import { StoppedElsewhere } from "@/widgets/stopped_elsewhere";
import type { Entry } from "@/wire/types.gen";

const FILTERS: readonly { readonly id: Which; readonly title: string }[] = [
  { id: "all", title: "All" },
  { id: "running", title: "Running" },
  { id: "finished", title: "Finished" },
  { id: "trouble", title: "Problems" },
];

const COLUMNS: readonly { readonly by: SortBy; readonly title: string; readonly class: string }[] =
  [
    { by: "program", title: "Program", class: "start-program" },
    { by: "started", title: "Started", class: "start-when" },
    { by: "duration", title: "Run time", class: "start-num" },
    { by: "steps", title: "Steps", class: "start-num" },
    { by: "outcome", title: "Outcome", class: "start-outcome" },
    { by: "size", title: "Size", class: "start-num" },
  ];

export interface StartPageProps {
  readonly store: Store;
  readonly preferences: Preferences;
  openRun(run: string): void;
  openComparison(eager: string, compiled: string): void;
}

export function StartPage(props: StartPageProps): JSX.Element {
  const state = createShelf(() => props.store.runs());
  let search!: HTMLInputElement;
  let list!: HTMLDivElement;

  const open = async (entry: Entry): Promise<void> => {
    if (entry.glance?.outcome === "unreadable") return;
    const run = await state.open(entry);
    if (run !== undefined) props.openRun(run);
  };
  const compare = async (): Promise<void> => {
    const both = await state.compare();
    if (both !== undefined) props.openComparison(both[0], both[1]);
  };
  const [over, setOver] = createSignal(false);
  const take = async (file: File | undefined): Promise<void> => {
    setOver(false);
    const run = file === undefined ? undefined : await state.take(file);
    if (run !== undefined) props.openRun(run);
  };
  const move = (by: number): void => {
    const rows = state.rows();
    const at = rows.findIndex((row) => row.id === state.focused());
    const next = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
    state.focus(next?.id);
    queueMicrotask(() =>
      list.querySelector<HTMLElement>(`[data-entry="${next?.id ?? ""}"]`)?.focus(),
    );
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const typing = event.target === search;
    const entry = state.rows().find((row) => row.id === state.focused());
    if (event.key === "ArrowDown") move(1);
    else if (event.key === "ArrowUp") move(-1);
    else if (event.key === "Escape") {
      if (state.doomed().length > 0) state.keep();
      else if (typing && state.search() !== "") state.setSearch("");
      else state.clear();
    } else if (typing) {
      if (event.key !== "Enter") return;
      const first = state.rows()[0];
      if (first !== undefined) void open(first);
    } else if (event.key === "/") search.focus();
    else if (event.target instanceof HTMLButtonElement) return;
    else if (event.key === "Enter" && entry !== undefined) void open(entry);
    else if (event.key === " " && entry !== undefined) state.mark(entry.id);
    else if (event.key === "Delete") state.askToDelete();
    else if (event.key === "c" && state.marked().size === 2) void compare();
    else return;
    event.preventDefault();
  };
  onMount(() => {
    window.addEventListener("keydown", onKey);
    onCleanup(() => window.removeEventListener("keydown", onKey));
    document.title = "Runs · nodescope";
  });
  createEffect(() => {
    document.documentElement.dataset.theme = props.preferences.theme();
  });
  const total = () => state.shelf()?.entries.length ?? 0;

  return (
    <div
      class="start"
      classList={{ dropping: over() }}
      data-testid="start"
      onDragOver={(event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
      }}
      onDrop={(event) => {
        event.preventDefault();
        void take(event.dataTransfer?.files[0]);
      }}
    >
      <header class="top">
        <div class="brand">
          <Logo />
          <span class="brand-name">nodescope</span>
        </div>
        <span class="vr" aria-hidden="true" />
        <b>Runs</b>
        <span class="sp" />
        <Show when={props.store.runId()}>
          {(run) => (
            <button type="button" class="btn" onClick={() => props.openRun(run())}>
              <Icon name="left" size={12} /> Back to{" "}
              {printable(
                props.store.runs().find((candidate) => candidate.id === run())?.name ?? "the run",
                40,
              )}
            </button>
          )}
        </Show>
        <IconButton
          icon="theme"
          label="Light or dark theme"
          testid="theme"
          onClick={() =>
            props.preferences.setTheme(props.preferences.theme() === "dark" ? "light" : "dark")
          }
        />
      </header>
      <div class="banners">
        <StoppedElsewhere store={props.store} openRun={(run) => props.openRun(run)} />
      </div>
      <main class="start-main">
        <div class="start-column">
          <div class="start-head">
            <div class="start-titles">
              <h1>Runs</h1>
              <p class="t3 ell" title={state.shelf()?.folder}>
                {total() > 0 ? `${plural(total(), "recording")} · ` : ""}
                {state.shelf()?.folder ?? ""}
              </p>
            </div>
            <Show when={total() > 0}>
              <label class="search start-search">
                <Icon name="search" size={13} />
                <input
                  ref={search}
                  type="text"
                  placeholder="Program, arguments, error…"
                  aria-label="Search the runs"
                  data-testid="start-search"
                  value={state.search()}
                  onInput={(event) => state.setSearch(event.currentTarget.value)}
                />
                <kbd>/</kbd>
              </label>
              <Segmented
                label="Which runs"
                options={FILTERS}
                active={state.which()}
                onSelect={state.setWhich}
              />
            </Show>
          </div>
          <Actions state={state} compare={() => void compare()} />
          <div class="start-list" ref={list}>
            <Show when={state.rows().length > 0}>
              <div role="grid" aria-label="Recordings" aria-multiselectable="true">
                <div class="start-row start-columns" role="row">
                  <span role="columnheader" aria-label="Selected" />
                  <For each={COLUMNS}>
                    {(column) => (
                      <span
                        class={column.class}
                        role="columnheader"
                        aria-sort={sortOf(state, column.by)}
                      >
                        <button
                          type="button"
                          class="start-sort"
                          onClick={() => state.sortBy(column.by)}
                        >
                          {column.title}
                          <Show when={state.sorting().by === column.by}>
                            <span aria-hidden="true">{state.sorting().up ? " ↑" : " ↓"}</span>
                          </Show>
                        </button>
                      </span>
                    )}
                  </For>
                </div>
                <For each={GROUPS}>
                  {(group) => (
                    <Rows group={group} state={state} open={(entry) => void open(entry)} />
                  )}
                </For>
              </div>
            </Show>
            <Show when={state.shelf() !== undefined && state.rows().length === 0 && total() > 0}>
              <p class="empty start-none">
                No run matches.{" "}
                <button
                  type="button"
                  class="link"
                  onClick={() => {
                    state.setSearch("");
                    state.setWhich("all");
                  }}
                >
                  Show all
                </button>
              </p>
            </Show>
            <Show when={(state.shelf()?.left_out ?? 0) > 0}>
              <p class="empty">
                {formatCount(state.shelf()?.left_out ?? 0)} older recordings are not listed.
              </p>
            </Show>
          </div>
          <Show when={state.shelf()}>
            {(shelf) => (
              <Begin
                waits={shelf().waits}
                first={total() === 0}
                busy={state.busy()}
                take={(file) => void take(file)}
              />
            )}
          </Show>
        </div>
      </main>
    </div>
  );
}

function sortOf(state: ShelfState, by: SortBy): "ascending" | "descending" | "none" {
  const now = state.sorting();
  if (now.by !== by) return "none";
  return now.up ? "ascending" : "descending";
}

function Rows(props: {
  readonly group: Group;
  readonly state: ShelfState;
  open(entry: Entry): void;
}): JSX.Element {
  const rows = () => props.state.rowsOf(props.group);
  // By id: an updated list must not take the focus away.
  const ids = createMemo(() => rows().map((entry) => entry.id), [], {
    equals: (a, b) => a.join() === b.join(),
  });
  return (
    <Show when={ids().length > 0}>
      <div role="rowgroup" aria-label={groupTitle(props.group, props.state)}>
        <div role="row">
          <div role="gridcell">
            <h2 class="start-group">
              {groupTitle(props.group, props.state)}
              <span class="cnt">{formatCount(ids().length)}</span>
            </h2>
          </div>
        </div>
        <For each={ids()}>
          {(id) => (
            <Show when={rows().find((entry) => entry.id === id)}>
              {(entry) => (
                <Row entry={entry()} state={props.state} open={() => props.open(entry())} />
              )}
            </Show>
          )}
        </For>
      </div>
    </Show>
  );
}

function groupTitle(group: Group, state: ShelfState): string {
  if (group === "running") return "Running";
  return group === "here" ? `In ${state.shelf()?.folder ?? "this folder"}` : "Elsewhere";
}

function Actions(props: { readonly state: ShelfState; compare(): void }): JSX.Element {
  const { state } = props;
  const many = () => state.marked().size;
  const bytes = () =>
    state.doomed().reduce((sum, recording) => sum + (recording.glance?.nbytes ?? 0), 0);
  return (
    <>
      <Show when={state.problem()}>
        {(text) => (
          <p class="start-note bad" role="alert" data-testid="start-problem">
            {text()}
          </p>
        )}
      </Show>
      <Show
        when={state.doomed().length > 0}
        fallback={
          <Show when={many() > 0}>
            <div class="start-note" data-testid="start-actions">
              <b>{formatCount(many())} selected</b>
              <button
                type="button"
                class="btn"
                disabled={many() !== 2 || state.busy()}
                title={many() === 2 ? "" : "Select two: an eager and a compiled run"}
                data-testid="start-compare"
                onClick={() => props.compare()}
              >
                Compare <kbd>C</kbd>
              </button>
              <button
                type="button"
                class="btn"
                disabled={state.busy()}
                data-testid="start-delete"
                onClick={() => state.askToDelete()}
              >
                Delete… <kbd>Del</kbd>
              </button>
              <span class="sp" />
              <button type="button" class="link" onClick={() => state.clear()}>
                Clear
              </button>
            </div>
          </Show>
        }
      >
        <div class="start-note bad" role="alertdialog" aria-label="Delete recordings">
          <span>
            Delete {plural(state.doomed().length, "recording")} ({formatBytes(bytes())}) from the
            disk? This cannot be undone.
          </span>
          <span class="sp" />
          <button
            type="button"
            class="btn start-danger"
            disabled={state.busy()}
            data-testid="start-delete-confirm"
            onClick={() => void state.deleteThem()}
          >
            Delete
          </button>
          <button type="button" class="btn" onClick={() => state.keep()}>
            Keep <kbd>Esc</kbd>
          </button>
        </div>
      </Show>
    </>
  );
}

function Row(props: {
  readonly entry: Entry;
  readonly state: ShelfState;
  open(): void;
}): JSX.Element {
  const glance = () => props.entry.glance;
  const marked = () => props.state.marked().has(props.entry.id);
  const at = () => startedAt(glance());
  const lost = () => glance()?.outcome === "unreadable";
  /** Whether Tab stops at this row: the one that had the focus last, or the first. */
  const reached = () => {
    const rows = props.state.rows();
    const last = rows.find((entry) => entry.id === props.state.focused());
    return (last ?? rows[0])?.id === props.entry.id;
  };
  const args = () => {
    const now = glance();
    return now === null ? "" : argumentsOf(now);
  };
  return (
    <div
      class="start-row start-entry"
      classList={{ on: marked(), lost: lost() }}
      role="row"
      tabIndex={reached() ? 0 : -1}
      aria-selected={marked()}
      data-entry={props.entry.id}
      data-testid="start-entry"
      title={`${props.entry.folder}/${props.entry.file}`}
      onFocus={() => props.state.focus(props.entry.id)}
      onClick={() => props.open()}
    >
      <span role="gridcell">
        <button
          type="button"
          class="start-mark"
          classList={{ on: marked() }}
          role="checkbox"
          aria-checked={marked()}
          aria-label={`Select ${glance()?.name ?? props.entry.file}`}
          tabIndex={-1}
          onClick={(event) => {
            event.stopPropagation();
            props.state.mark(props.entry.id);
          }}
        >
          <Show when={marked()}>
            <svg viewBox="0 0 12 12" width="10" height="10" aria-hidden="true">
              <path d="m2 6.300 2.600 2.700L10 3.400" class="icon-line" />
            </svg>
          </Show>
        </button>
      </span>
      <span role="gridcell" class="start-program">
        <b class="ell">
          <bdi dir="ltr">{printable(glance()?.name ?? props.entry.file, 80)}</bdi>
        </b>
        <Show when={args() !== ""}>
          <span class="m t2 ell start-args" title={printable(args(), 2000)}>
            {printable(args(), 200)}
          </span>
        </Show>
        <span class="mi t3 ell start-file">
          <Show when={!props.entry.here}>{printable(props.entry.folder, 120)}/</Show>
          {printable(props.entry.file, 120)}
        </span>
      </span>
      <span
        role="gridcell"
        class="start-when"
        title={at() > 0 ? `${formatDay(at())} ${formatClock(at(), { seconds: true })}` : ""}
      >
        <span>{ago(at(), props.state.now())}</span>
        <span class="mi t3">{clock(at(), props.state.now())}</span>
      </span>
      <span role="gridcell" class="start-num m">
        {lost() || glance() === null ? "–" : formatDuration(glance()?.ran_ns ?? 0)}
      </span>
      <span role="gridcell" class="start-num m">
        {lost() || glance() === null ? "–" : formatCount(glance()?.steps ?? 0)}
      </span>
      <span role="gridcell" class="start-outcome">
        <Show when={glance()} fallback={<span class="t3">reading…</span>}>
          {(now) => (
            <>
              <span
                class={`lamp ${outcomeTone(now().outcome, now().broken_loss)}`}
                aria-hidden="true"
              />
              <span
                class="ell"
                classList={{ brk: outcomeTone(now().outcome, now().broken_loss) === "bad" }}
                title={printable(now().fault || now().error || outcomeWords(now()), 400)}
              >
                {outcomeWords(now())}
              </span>
              <Show when={!lost()}>
                <span class="mi t3 start-level" title="How much was recorded of every value">
                  level {now().level}
                </span>
              </Show>
              <Show when={now().fault}>
                <span class="mi t3 ell start-fault">{printable(now().fault, 120)}</span>
              </Show>
            </>
          )}
        </Show>
      </span>
      <span role="gridcell" class="start-num m">
        {formatBytes(glance()?.nbytes ?? 0)}
      </span>
    </div>
  );
}
