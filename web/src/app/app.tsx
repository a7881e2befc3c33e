/**
 * The page: its panes in their grid, and the connections between them.
 *
 * Invariant: views know the store but not each other; everything that joins two of them is here.
 */

import {
  createEffect,
  createMemo,
  createRenderEffect,
  createSignal,
  type JSX,
  Match,
  onCleanup,
  onMount,
  Show,
  Switch,
} from "solid-js";
import { pageCommands } from "@/app/commands";
import { exportCommands, fileName, save } from "@/app/exports";
import { fontFaces } from "@/app/font_faces";
import { listen } from "@/app/keyboard";
import { createNarrow } from "@/app/narrow";
import { isSection } from "@/base/sections";
import type { GraphView } from "@/render/scene/types";
import { unbreakable } from "@/store/debugger/abilities";
import { toggled } from "@/store/debugger/breakpoints";
import { createWatches } from "@/store/debugger/watches";
import { createBranches } from "@/store/debugger/what_if";
import { createChanges } from "@/store/history/changes_query";
import { createMoments } from "@/store/history/value_diff";
import { createWhy } from "@/store/history/why";
import { stopOpening } from "@/store/page/breaking_off";
import { createNewRun } from "@/store/page/new_run";
import { createOverlays } from "@/store/page/overlays";
import { PANES, type Pane, type Preferences } from "@/store/page/preferences";
import { createSearching } from "@/store/page/searching";
import type { Store } from "@/store/page/store";
import { createTracing } from "@/store/page/tracing";
import type { DockTab, OutlineTab, Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import { createViews } from "@/store/page/views";
import { createZoomFolds } from "@/store/page/zoom_folds";
import { offers } from "@/store/run/capabilities";
import { pictureTitle } from "@/store/run/picture_title";
import { hasCourse, neverRuns } from "@/store/run/run_model";
import { createSummary, withoutPlace } from "@/store/run/summary";
import { AddBreakpoint, Breakpoints } from "@/views/breakpoints/breakpoints";
import { Console, CopyConsole } from "@/views/console";
import { DebuggerBar } from "@/views/debugger_bar";
import { EmptyState, NextHint } from "@/views/empty_state";
import { ExportMenu } from "@/views/export_menu";
import { GraphPane, momentOf, type SeenValue } from "@/views/graph/graph_pane";
import { TraceChip } from "@/views/graph/trace_chip";
import { Inspector } from "@/views/inspector/inspector";
import { SummaryPanel } from "@/views/inspector/summary_panel";
import { type KeyGroup, KeysHelp } from "@/views/keys_help";
import { LinkBanner, LostRun, NewRunOffer, Notices, RecordingTrouble } from "@/views/notices";
import { Outline } from "@/views/outline";
import { Palette } from "@/views/palette";
import { createProblems, Problems, problemCount } from "@/views/problems";
import { Retention } from "@/views/retention";
import { RunList, RunSelect } from "@/views/runs";
import { Scrubber } from "@/views/scrubber";
import { SearchBox } from "@/views/search_box";
import { StateStrip } from "@/views/state_strip";
import { StatusBar } from "@/views/status_bar";
import { TimelineKey } from "@/views/timeline/key";
import { Timeline } from "@/views/timeline/timeline";
import { Watches } from "@/views/watches/watches";
import { WhatIf } from "@/views/what_if";
import { Splitter, type Tab, Tabs } from "@/widgets/controls";
import { Icon, IconButton } from "@/widgets/icon";
import { Logo } from "@/widgets/logo";
import { StoppedElsewhere } from "@/widgets/stopped_elsewhere";

export interface AppProps {
  readonly store: Store;
  readonly ui: Ui;
  readonly preferences: Preferences;
  retry(): void;
  /** Shows the list of all runs. */
  showRuns(): void;
  onView(view: GraphView | undefined): void;
}

/** How the program of the run computes, with explanations. */
const MODES = {
  compiled: "Compiled functions ran as graphs; each kernel lists the nodes it covers",
  eager: "Eager: each call runs immediately",
  exported: "Exported: the whole graph was read from the file; it runs node by node",
  graph: "A graph that was read from a file, and not run",
  tasks: "Tasks: each call runs in another process while the program goes on",
} as const;

export function App(props: AppProps): JSX.Element {
  const { store, ui, preferences } = props;
  const [view, setView] = createSignal<GraphView | undefined>();
  const [slice, setSlice] = createSignal<SeenValue>();
  const narrow = createNarrow();
  const dockTab = (): DockTab =>
    dockTabs().some((tab) => tab.id === ui.dockTab()) ? ui.dockTab() : "timeline";
  const problems = createProblems(store);
  const compiled = createMemo(() =>
    (store.model()?.graph.nodes ?? []).some((node) => (node?.graph ?? 0) > 0),
  );
  const hasTasks = createMemo(() =>
    (store.model()?.graph.nodes ?? []).some((node) => node?.role === "task"),
  );
  const mode = () => {
    if (compiled()) return "compiled";
    if (neverRuns(store.model(), store.live)) return "graph";
    if (hasTasks()) return "tasks";
    return store.model()?.info.name.endsWith(".pt2") === true ? "exported" : "eager";
  };
  const docked = createMemo(() => hasCourse(store.model(), store.live));
  const changes = createChanges(store);
  const branches = createBranches(store, ui);
  const why = createWhy(store, ui, branches.valuesOf);
  const searching = createSearching(store, ui);
  const tracing = createTracing(store);
  const zoomFolds = createZoomFolds(store, preferences.zoomOpens);
  const newRun = createNewRun(store);
  const watches = createWatches(store, ui);
  const moments = createMoments(store, ui);
  const summing = createSummary(store, ui);
  let root!: HTMLDivElement;
  let searchField!: HTMLInputElement;

  const overlays = createOverlays(store, ui);
  const views = createViews(store, ui, view, globalThis.localStorage);
  const go = (item: Item): void => {
    views.mark();
    store.disclose(item);
    store.select(item);
    view()?.reveal(item);
  };
  const visit = (node: number, seq: number): void => {
    go({ kind: "node", id: node });
    if (store.stop()?.seq === seq) store.backToLive();
    else void store.seek(seq);
  };
  const point = (node: number | undefined): void => {
    view()?.setLinked(new Set(node === undefined ? [] : [node]));
    if (node !== undefined) view()?.reveal({ kind: "node", id: node });
  };
  const askWhy = (node: number, seq: number): void => {
    const value = store.model()?.graph.nodes[node]?.outputs[0];
    go({ kind: "node", id: node });
    if (value !== undefined) why.ask(value, null, seq);
  };
  const toggle = (target: string | undefined, kind: "node" | "scope"): void => {
    if (target === undefined) return;
    if (!store.breakable()) {
      store.notify("info", unbreakable(store));
      return;
    }
    void store.setBreakpoints(toggled(store.session()?.breakpoints ?? [], target, kind));
  };
  const toggleBreakpoint = (node: number): void =>
    toggle(store.model()?.graph.nodes[node]?.name, "node");
  const toggleScopeBreakpoint = (path: string): void => {
    // A stack is not a scope of the program, but its first scope is.
    const scope = store.tree()?.repeats.byPath.get(path)?.first ?? path;
    if (isSection(scope))
      store.notify("info", "The program has no such scope: choose a node in it.");
    else toggle(scope, "scope");
  };
  const exportSvg = async (what: "screen" | "whole"): Promise<void> => {
    const fonts = await fontFaces();
    const svg = view()?.toSvg(what, { title: pictureTitle(store), fonts });
    if (svg === undefined) return;
    const name = fileName(store);
    save(`${name}.svg`, new Blob([svg], { type: "image/svg+xml" }));
    const words = what === "screen" ? "the visible graph" : "the whole graph";
    store.notify("ok", `${name}.svg saved: ${words}.`);
  };
  const leave = (): void => {
    stopOpening(store);
    props.showRuns();
  };
  const page = {
    store,
    ui,
    preferences,
    why,
    watches,
    moments,
    view,
    changes,
    searching,
    tracing,
    views,
    overlays,
    go,
    toggleBreakpoint,
    toggleScopeBreakpoint,
    exportSvg,
    showRuns: () => props.showRuns(),
    stopOpening: leave,
    showBreakpoints: () => {
      if (narrow()) ui.setDockTab("breakpoints");
      // The gallery of rules has taken the breakpoints' place, for lack of room: close it.
      else if (root.querySelector<HTMLElement>("#bp")?.offsetWidth === 0) watches.setGallery(false);
    },
    focusBreakpoints: () => {
      const wanted = ui.adding() ? "breakpoint-target" : "breakpoint-new";
      queueMicrotask(() => root.querySelector<HTMLElement>(`[data-testid=${wanted}]`)?.focus());
    },
    focusSearch: () => {
      ui.setOutlineTab("outline");
      ui.setOutlineOpen(true);
      queueMicrotask(() => searchField.focus());
    },
  };
  const commands = pageCommands(page);
  onMount(() => onCleanup(listen(window, commands, page)));

  // This runs before the effects that draw, which read the theme's colours from the document.
  createRenderEffect(() => {
    document.documentElement.dataset.theme = preferences.theme();
  });
  createEffect(() => {
    for (const pane of Object.keys(PANES) as Pane[]) {
      const px = preferences.size(pane);
      const { variable } = PANES[pane];
      if (px === undefined) root.style.removeProperty(variable);
      else root.style.setProperty(variable, `${px}px`);
    }
  });
  // If there is room, the outline is always shown and need not be opened.
  createEffect(() => {
    if (ui.outlineOpen() && !narrow()) ui.setOutlineOpen(false);
  });
  createEffect(() => {
    const name = store.model()?.info.name;
    const stopped = store.stop() !== undefined ? `step ${store.step()}: stopped` : "";
    document.title =
      [name, stopped].filter(Boolean).join(", ") +
      (name === undefined ? "nodescope" : " · nodescope");
  });

  const outlineTabs = (): readonly Tab<OutlineTab>[] => [
    { id: "outline", title: "Outline" },
    { id: "runs", title: "Runs", count: store.runs().length },
  ];
  const dockTabs = (): readonly Tab<DockTab>[] => [
    { id: "timeline", title: "Timeline" },
    { id: "console", title: "Console" },
    { id: "problems", title: "Problems", count: problemCount(store, problems()), tone: "nan" },
    { id: "watches", title: "Watches", count: watches.statuses().length },
    ...(offers(store, "rerun")
      ? [{ id: "branches" as const, title: "What if", count: branches.rows().length }]
      : []),
    ...(narrow()
      ? [
          {
            id: "breakpoints" as const,
            title: "Breakpoints",
            count: store.session()?.breakpoints.length ?? 0,
          },
        ]
      : []),
  ];
  const keyGroups = (): readonly KeyGroup[] => [
    ...(["Debugger", "Graph", "Page"] as const).map((title) => ({
      title,
      keys: commands
        .filter((command) => command.group === title && command.keys !== "")
        .map((command) => ({ keys: command.keys, does: command.title })),
    })),
    {
      title: "Everywhere",
      keys: [
        { keys: "← → ↑ ↓", does: "Move along edges and through the outline" },
        { keys: "Enter", does: "Fold or open the selected scope" },
        { keys: "Enter", does: "In a grid of numbers: explain this element" },
        { keys: "+ −", does: "Zoom" },
        { keys: "⇧Click", does: "On a chart over executions: mark that moment as A" },
        { keys: "Esc", does: "Close the open menu, form or dialog" },
      ],
    },
    {
      title: "In the palette, by name",
      keys: commands
        .filter((command) => command.keys === "" && command.unlisted !== true)
        .map((command) => ({ keys: "", does: command.title })),
    },
  ];
  const measure = (selector: string, axis: "width" | "height") => (): number =>
    root.querySelector(selector)?.getBoundingClientRect()[axis] ?? 0;

  return (
    <div
      class="app"
      ref={root}
      classList={{ "outline-open": ui.outlineOpen(), undocked: !docked() }}
      onPointerDown={(event) => {
        // In a narrow window, the outline covers the graph: a press outside of it closes it.
        if (event.target.closest("#left") === null) ui.setOutlineOpen(false);
      }}
    >
      <div class="banners">
        <LinkBanner store={store} onRetry={() => props.retry()} />
        <LostRun store={store} />
        <RecordingTrouble store={store} />
        <NewRunOffer newRun={newRun} />
        <StoppedElsewhere store={store} openRun={(run) => store.openRun(run)} />
      </div>
      <header class="top">
        <button
          type="button"
          class="brand"
          title="All runs and recordings"
          data-testid="all-runs"
          onClick={() => props.showRuns()}
        >
          <Logo />
          <span class="brand-name">nodescope</span>
        </button>
        <span class="vr" aria-hidden="true" />
        <RunSelect store={store} />
        <span class="seg mode wide" title={MODES[mode()]} data-testid="mode">
          <span class="on">{mode()}</span>
        </span>
        <span class="vr wide" aria-hidden="true" />
        <DebuggerBar store={store} />
        <StateStrip store={store} />
        <span class="sp" />
        <button
          type="button"
          class="palette-open"
          onClick={() => ui.setOverlay("palette")}
          title="Find node or command (Ctrl K)"
          aria-keyshortcuts="Control+K"
        >
          <Icon name="search" size={13} />
          <span class="ell wide palette-long">Find node or command</span>
          <span class="wide palette-short">Find</span>
          <span class="sp" />
          <kbd>Ctrl K</kbd>
        </button>
        <ExportMenu entries={exportCommands(page)} />
        <IconButton
          icon="theme"
          label="Light or dark theme"
          testid="theme"
          onClick={() => preferences.setTheme(preferences.theme() === "dark" ? "light" : "dark")}
        />
        <IconButton
          icon="help"
          label="Keyboard shortcuts (?)"
          testid="help"
          onClick={() => ui.setOverlay("keys")}
        />
      </header>

      <aside class="panel left" id="left" aria-label="Outline and runs">
        <div class="head">
          <button
            type="button"
            class="rail-open"
            aria-label="Show or hide the outline"
            title="Outline"
            onClick={() => ui.setOutlineOpen(!ui.outlineOpen())}
          >
            <Icon name="tree" />
          </button>
          <Tabs
            label="Outline and runs"
            tabs={outlineTabs()}
            active={ui.outlineTab()}
            onSelect={ui.setOutlineTab}
          />
        </div>
        <Switch>
          <Match when={ui.outlineTab() === "outline"}>
            <SearchBox
              ui={ui}
              searching={searching}
              go={go}
              ref={(field) => {
                searchField = field;
              }}
            />
            <Outline
              store={store}
              ui={ui}
              changes={ui.showChanges() || ui.peekChanges() ? changes() : undefined}
              marked={watches.marked()}
              found={searching.result()?.rows}
              toggleBreakpoint={toggleBreakpoint}
              toggleScopeBreakpoint={toggleScopeBreakpoint}
              leave={views.mark}
              reveal={(row) =>
                view()?.reveal(
                  row.entry.kind === "node"
                    ? { kind: "node", id: row.entry.id }
                    : { kind: "scope", path: row.entry.path },
                )
              }
            />
          </Match>
          <Match when={ui.outlineTab() === "runs"}>
            <RunList store={store} showAll={() => props.showRuns()} />
          </Match>
        </Switch>
        <Splitter
          label="Width of the outline"
          axis="x"
          direction={1}
          measure={measure("#left", "width")}
          onResize={(px) => preferences.setSize("outline", px)}
        />
      </aside>

      <main class="panel mid">
        <GraphPane
          store={store}
          ui={ui}
          theme={preferences.theme()}
          slice={slice()}
          changes={changes()}
          marked={watches.marked()}
          matches={searching.ids() ?? tracing.shown()?.ids}
          views={views}
          overlays={overlays}
          trace={tracing.shown()?.path}
          path={why.path() ?? branches.cone()}
          head={<TraceChip tracing={tracing} />}
          notes={
            <>
              <NextHint store={store} />
              <Notices store={store} />
            </>
          }
          toggleBreakpoint={toggleBreakpoint}
          zoomed={zoomFolds.zoomed}
          onView={(made) => {
            setView(() => made);
            props.onView(made);
          }}
        />
        <EmptyState
          store={store}
          advice={
            summing.summary()?.run.id === store.runId()
              ? (summing.summary()?.summary.advice ?? undefined)
              : undefined
          }
          stopOpening={leave}
        />
      </main>

      <aside class="panel insp" id="insp" data-testid="inspector">
        <Splitter
          label="Width of the inspector"
          axis="x"
          direction={-1}
          measure={measure("#insp", "width")}
          onResize={(px) => preferences.setSize("inspector", px)}
        />
        <Show
          when={!summing.shown() && !(summing.over() && store.subject() === undefined)}
          fallback={
            <SummaryPanel
              store={store}
              summing={summing}
              theme={preferences.theme()}
              go={go}
              visit={visit}
            />
          }
        >
          <Show when={summing.over()}>
            <button
              type="button"
              class="sum-open"
              data-testid="summary-open"
              onClick={() => summing.show(true)}
            >
              <Icon name="left" size={12} /> Summary of the run
            </button>
          </Show>
          <Inspector
            store={store}
            ui={ui}
            why={why}
            branches={branches}
            moments={moments}
            marked={watches.marked()}
            errorOf={(node) =>
              withoutPlace(
                problems()?.rows.find((row) => row.node === node)?.error ||
                  (store.failure() === node ? (store.model()?.info.error ?? "") : ""),
                store.model()?.graph.nodes[node]?.source,
              )
            }
            askWatch={(text) => {
              ui.setDockTab("watches");
              void watches.ask(text);
            }}
            theme={preferences.theme()}
            go={go}
            visit={visit}
            point={point}
            onSlice={(node, part) => setSlice({ node, slice: part, seq: momentOf(store) })}
          />
        </Show>
      </aside>

      <Show when={docked()}>
        <section class="dock" id="dock" aria-label="Timeline, console and breakpoints">
          <Splitter
            label="Height of the dock"
            axis="y"
            direction={-1}
            measure={measure("#dock", "height")}
            onResize={(px) => preferences.setSize("dock", px)}
          />
          <Scrubber store={store} theme={preferences.theme()} />
          <div class="dock-panes">
            <div class="panel dock-left">
              <div class="head">
                <Tabs label="Dock" tabs={dockTabs()} active={dockTab()} onSelect={ui.setDockTab} />
                <span class="sp" />
                <Show when={dockTab() === "timeline"}>
                  <TimelineKey store={store} />
                </Show>
                <Show when={dockTab() === "console"}>
                  <CopyConsole store={store} />
                </Show>
                <Show when={dockTab() === "breakpoints"}>
                  <AddBreakpoint store={store} ui={ui} />
                </Show>
              </div>
              <Switch>
                <Match when={dockTab() === "timeline"}>
                  <Timeline store={store} ui={ui} theme={preferences.theme()} go={go} />
                </Match>
                <Match when={dockTab() === "console"}>
                  <Console store={store} />
                </Match>
                <Match when={dockTab() === "problems"}>
                  <Problems store={store} problems={problems()} visit={visit} why={askWhy} />
                </Match>
                <Match when={dockTab() === "watches"}>
                  <Watches watches={watches} here={store.watchHere()?.id ?? 0} visit={visit} />
                </Match>
                <Match when={dockTab() === "branches"}>
                  <WhatIf store={store} branches={branches} visit={visit} />
                </Match>
                <Match when={dockTab() === "breakpoints"}>
                  <Breakpoints store={store} adding={ui.adding()} onAdding={ui.setAdding} />
                </Match>
              </Switch>
            </div>
            <Show when={!narrow()}>
              <div class="panel dock-right" id="bp">
                <Splitter
                  label="Width of the breakpoints"
                  axis="x"
                  direction={-1}
                  measure={measure("#bp", "width")}
                  onResize={(px) => preferences.setSize("breakpoints", px)}
                />
                <div class="head">
                  <span class="tab-title">Breakpoints</span>
                  <Show when={(store.session()?.breakpoints.length ?? 0) > 0}>
                    <b class="cnt">{store.session()?.breakpoints.length}</b>
                  </Show>
                  <span class="sp" />
                  <AddBreakpoint store={store} ui={ui} />
                </div>
                <Breakpoints store={store} adding={ui.adding()} onAdding={ui.setAdding} />
              </div>
            </Show>
          </div>
        </section>
      </Show>

      <StatusBar
        store={store}
        kept={<Retention store={store} />}
        onKeys={() => ui.setOverlay("keys")}
      />
      <Show when={ui.overlay() === "palette"}>
        <Palette store={store} ui={ui} commands={commands} go={go} />
      </Show>
      <Show when={ui.overlay() === "keys"}>
        <KeysHelp groups={keyGroups()} onClose={() => ui.setOverlay("none")} />
      </Show>
    </div>
  );
}
