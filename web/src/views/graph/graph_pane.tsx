/**
 * The canvas's pane: breadcrumb, colouring, zoom, legend, the graph itself and its overview.
 *
 * Invariant: only the effects here pass the store's state to the canvas; the canvas answers through
 * its events.
 */

import {
  createEffect,
  createMemo,
  createSignal,
  For,
  type JSX,
  on,
  onCleanup,
  onMount,
  Show,
} from "solid-js";
import { elementCount } from "@/base/dtypes";
import { formatCount, formatNumber } from "@/base/numbers";
import type { ColourBy, CurrentMark, GraphPath, GraphView, NodeBadge } from "@/render/scene/types";
import { createGraphView } from "@/render/view/graph_view";
import { nodeMarks } from "@/store/debugger/breakpoints";
import type { MarkedNodes } from "@/store/debugger/watch_marks";
import type { StepChanges } from "@/store/history/changes";
import { breakOff } from "@/store/page/breaking_off";
import type { Overlays } from "@/store/page/overlays";
import { spreadStack, turnStack } from "@/store/page/stack_turns";
import type { Store } from "@/store/page/store";
import type { ColourMode, Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import type { Views } from "@/store/page/views";
import { offers } from "@/store/run/capabilities";
import { operationsCounted, operationsOf } from "@/store/run/counts";
import { graphWith } from "@/store/run/past_values";
import {
  earlierStep,
  hasControlEdges,
  neverRuns,
  ranAfterStep,
  seenStep,
} from "@/store/run/run_model";
import { Bookmarks } from "@/views/graph/bookmarks";
import { ChangesChip } from "@/views/graph/changes_chip";
import { graphModel } from "@/views/graph/graph_model";
import { LayoutChip } from "@/views/graph/layout_chip";
import { Legend } from "@/views/graph/legend";
import { MarkTip } from "@/views/graph/mark_tip";
import { Segmented } from "@/widgets/controls";
import { IconButton } from "@/widgets/icon";
import type { ValueSlice } from "@/wire/types.gen";

/** The value last seen in the inspector, and its moment. */
export interface SeenValue {
  readonly node: number;
  readonly slice: ValueSlice | undefined;
  readonly seq: number | undefined;
}

/** The moment being viewed: in the past, or where the program is stopped. */
export function momentOf(store: Store): number | undefined {
  return store.seq() ?? store.stop()?.seq;
}

export interface GraphPaneProps {
  readonly store: Store;
  readonly ui: Ui;
  readonly theme: string;
  /** For the badge in the current node. */
  readonly slice: SeenValue | undefined;
  /** Changes of the step shown; undefined if there are none. */
  readonly changes: StepChanges | undefined;
  /** A chain of causes, or the dependents of an edit. */
  readonly path: GraphPath | undefined;
  /** A trace, which is shown instead of `path`. */
  readonly trace: GraphPath | undefined;
  /** Hits of watches, by node. */
  readonly marked: MarkedNodes;
  /** Nodes that a search or a trace found, dimming the others; undefined = neither. */
  readonly matches: ReadonlySet<number> | undefined;
  readonly views: Views;
  readonly overlays: Overlays;
  /** A line above the graph. */
  readonly head?: JSX.Element;
  /** Overlays on the graph, above the legend. */
  readonly notes?: JSX.Element;
  toggleBreakpoint(node: number): void;
  zoomed(zoom: number, into: string | undefined): void;
  onView(view: GraphView | undefined): void;
}

export const COLOURINGS: readonly { readonly id: ColourMode; readonly title: string }[] = [
  { id: "family", title: "Op family" },
  { id: "time", title: "Time" },
  { id: "self", title: "Self time" },
  { id: "memory", title: "Memory" },
  { id: "flops", title: "FLOP" },
  { id: "roofline", title: "Roofline" },
  { id: "finite", title: "Finite" },
  { id: "zeros", title: "Zeros" },
  { id: "gradient", title: "Gradient" },
  { id: "file", title: "File" },
];

const DIM_MS = 40;

/** Whether the run has data for a colouring. */
export function coloured(store: Store, overlays: Overlays, mode: ColourMode): boolean {
  if (mode === "time" || mode === "self" || mode === "roofline") {
    return offers(store, "timing") && !neverRuns(store.model(), store.live);
  }
  if (mode === "gradient") return offers(store, "gradients");
  return mode !== "file" || overlays.file() !== undefined;
}

/** The chosen colouring, if there is data for it. */
function colouring({ store, ui, overlays }: GraphPaneProps): ColourMode {
  return coloured(store, overlays, ui.colourBy()) ? ui.colourBy() : "family";
}

export function GraphPane(props: GraphPaneProps): JSX.Element {
  const operations = createMemo(() => operationsOf(props.store.model()?.graph));
  const graph = createMemo(() => props.store.model()?.graph);
  const controlled = createMemo(() => hasControlEdges(graph()));
  let host!: HTMLDivElement;
  let strip!: HTMLDivElement;
  const [view, setView] = createSignal<GraphView | undefined>();
  const [most, setMost] = createSignal(0);
  const [hovered, setHovered] = createSignal<number | undefined>();
  const marked = () =>
    props.ui.showChanges() || props.ui.peekChanges() ? props.changes : undefined;
  onMount(() => {
    const created = createGraphView(host, {
      select: (item) => {
        props.views.mark();
        props.store.select(item);
      },
      toggleScope: (path) => props.store.toggleScope(path),
      turnStack: (stack, act) =>
        act === "all" ? spreadStack(props.store, stack) : turnStack(props.store, stack, act),
      chosen: (open) => props.store.first.choose(open),
      choosing: props.ui.setChoiceAhead,
      toggleBreakpoint: (node) => props.toggleBreakpoint(node),
      hover: (item) => setHovered(item?.kind === "node" ? item.id : undefined),
      camera: (zoom, byHand) => {
        props.ui.setZoom(zoom);
        props.ui.setPlaced(byHand ? props.ui.placed() + 1 : 0);
      },
      zoomed: (zoom, into) => props.zoomed(zoom, into),
      scale: setMost,
      progress: (share) => props.ui.setLayoutShare(share),
      layout: (busy) => {
        props.ui.setLayoutShare(0);
        props.ui.setLayoutBusy(busy);
        if (!busy) props.store.first.arrived();
      },
    });
    strip.append(created.overview);
    setView(created);
    props.onView(created);
    onCleanup(() => {
      props.onView(undefined);
      created.dispose();
      props.ui.setChoiceAhead(false);
    });
  });
  const colourings = () => COLOURINGS.filter(({ id }) => coloured(props.store, props.overlays, id));
  const after = () => {
    props.store.tick();
    return props.changes?.step === props.store.step() && ranAfterStep(props.store);
  };
  return (
    <>
      <div class="head canvas-head">
        <span class="trail" role="group" aria-label="Views">
          <IconButton
            small
            icon="left"
            label="Back to the last view (Alt ←)"
            testid="view-back"
            disabled={!props.views.canGo().back}
            onClick={() => props.views.go("back")}
          />
          <IconButton
            small
            icon="right"
            label="Forward to the next view (Alt →)"
            testid="view-forward"
            disabled={!props.views.canGo().forward}
            onClick={() => props.views.go("forward")}
          />
        </span>
        <Breadcrumb
          store={props.store}
          select={(item) => {
            props.views.mark();
            props.store.select(item);
          }}
        />
        <Show when={earlierStep(props.store)}>
          {(step) => (
            <span
              class="t3 small as-of"
              data-testid="as-of"
              title="Shapes, times and values in the graph are of the last observed step."
            >
              as in step {formatCount(step())}
            </span>
          )}
        </Show>
        <span class="sp" />
        <ChangesChip ui={props.ui} changes={props.changes} after={after()} />
        <Show when={controlled()}>
          <button
            type="button"
            class="control-edges t2"
            data-testid="control-edges"
            aria-pressed={props.ui.controlEdges()}
            title="Lines for an order of nodes without a value passing"
            onClick={() => props.ui.setControlEdges(!props.ui.controlEdges())}
          >
            Control edges
          </button>
        </Show>
        <span class="t3 small wide">Colour</span>
        <Segmented
          label="Colour by"
          options={colourings()}
          active={colouring(props)}
          onSelect={props.ui.setColourBy}
        />
        {/* Replaces the buttons where there is little room. */}
        <select
          class="colour-by"
          aria-label="Colour by"
          value={colouring(props)}
          onChange={(event) => props.ui.setColourBy(event.currentTarget.value as ColourMode)}
        >
          <For each={colourings()}>{({ id, title }) => <option value={id}>{title}</option>}</For>
        </select>
        <button
          type="button"
          class="zoom m t2"
          title="Back to 100 %"
          onClick={() => view()?.zoomTo(1)}
        >
          {Math.round(props.ui.zoom() * 100)} %
        </button>
        <span class="bookmarks-place">
          <IconButton
            icon="hold"
            label="Bookmarks of views (V)"
            testid="bookmarks-open"
            onClick={() => props.ui.setBookmarks(!props.ui.bookmarks())}
          />
          <Show when={props.ui.bookmarks()}>
            <Bookmarks views={props.views} onClose={() => props.ui.setBookmarks(false)} />
          </Show>
        </span>
        <IconButton
          icon="fit"
          label="Fit the whole graph (F)"
          testid="fit"
          onClick={() => view()?.fit()}
        />
      </div>
      <div class="canvas-area">
        <div class="graph-column">
          {props.head}
          <div
            class="graph-room"
            onDragOver={(event) => {
              if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
            }}
            onDrop={(event) => {
              const file = [...(event.dataTransfer?.files ?? [])].find(({ name }) =>
                name.toLowerCase().endsWith(".json"),
              );
              if (file === undefined) return;
              event.preventDefault();
              event.stopPropagation();
              void file.text().then((text) => props.overlays.take(file.name, text));
            }}
          >
            <div class="graph-host" ref={host} data-testid="graph" />
            {props.notes}
            <LayoutChip ui={props.ui} breakOff={() => breakOff(props.store, view())} />
          </div>
          <Show when={props.ui.legend()}>
            <Legend
              most={most()}
              watched={props.marked.size > 0}
              mode={colouring(props)}
              overlays={props.overlays}
              store={props.store}
              changes={marked()}
              path={props.trace === undefined ? props.path : undefined}
            />
          </Show>
        </div>
        <div class="overview" ref={strip}>
          <span
            class="overview-count mi t3"
            title={`The graph has ${operationsCounted(operations())}`}
          >
            {formatCount(operations())}
            {operations() === 1 ? " op" : " ops"}
          </span>
        </div>
        <Show when={view()}>
          {(now) => <MarkTip view={now()} node={hovered()} marked={props.marked} />}
        </Show>
        <Show when={view()}>{(now) => <Feed {...props} changed={marked()} view={now()} />}</Show>
      </div>
    </>
  );
}

/** Passes the store's state to the canvas; draws nothing itself. */
function Feed(
  props: GraphPaneProps & {
    readonly view: GraphView;
    readonly changed: StepChanges | undefined;
  },
): JSX.Element {
  const { store } = props;
  const view = props.view;
  const past = createMemo(() => store.cursor().kind === "past");
  const model = createMemo(() => {
    const graph = store.model()?.graph;
    return graph !== undefined && past() ? graphWith(graph, store.pastValues()) : graph;
  });
  createEffect(() => view.setChoosing(store.first.choosing()));
  createEffect(() => {
    const graph = model();
    if (graph !== undefined)
      view.setGraph(graphModel(graph, store.tree(), props.ui.controlEdges()));
    else view.setGraph({ nodes: [], values: new Map(), version: 0 });
  });
  createEffect(() => view.setExpanded(store.folds().open));
  createEffect(() => {
    store.tick();
    model();
    const states = neverRuns(store.model(), store.live) ? undefined : store.shown();
    view.setStates(states, seenStep(store));
  });
  createEffect(() => {
    view.setBreakpoints(
      nodeMarks(store.session()?.breakpoints ?? [], model()?.byName ?? new Map()),
    );
  });
  createEffect(() => {
    view.setWatchMarks(
      new Map([...props.marked].map(([node, marked]) => [node, marked.hits.length])),
    );
  });
  const mark = createMemo(
    (): CurrentMark | undefined => {
      store.tick();
      if (store.cursor().kind === "past") {
        const node = store.past.lastNode;
        return node > 0 ? { node, when: "after", live: false } : undefined;
      }
      const stop = store.stop();
      const failed = store.failure();
      if (failed > 0) return { node: failed, when: "after", live: false };
      return stop === undefined || stop.node === 0
        ? undefined
        : { node: stop.node, when: stop.when, live: true };
    },
    undefined,
    { equals: (a, b) => a?.node === b?.node && a?.when === b?.when && a?.live === b?.live },
  );
  createEffect(on([mark, store.stops], ([now]) => view.setCurrent(now, true)));
  createEffect(() => view.setSelection(store.selection()));
  createEffect(() => view.setChanges(props.changed));
  createEffect(() => view.setPath(props.trace ?? props.path));
  createEffect(() => {
    const mode = colouring(props);
    const overlay = props.overlays.shown();
    if (overlay !== undefined) view.setAmounts({ ...overlay.numbers, scale: overlay });
    view.setColourBy(canvasColour(mode));
  });
  createEffect(
    on(
      () => props.theme,
      () => view.themeChanged(),
      { defer: true },
    ),
  );
  // The outline answers each key at once; the canvas follows in a later frame.
  createEffect(() => {
    const { matches } = props;
    const later = setTimeout(() => view.setMatches(matches), DIM_MS);
    onCleanup(() => clearTimeout(later));
  });
  // The value seen in the inspector counts only at its own moment.
  const seen = () => (props.slice?.seq === momentOf(store) ? props.slice : undefined);
  createEffect(() => {
    const node = store.raised();
    view.setBadge(node > 0 ? raisedBadge(node) : badge(mark(), seen()));
  });
  return undefined;
}

function canvasColour(mode: ColourMode): ColourBy {
  switch (mode) {
    case "family":
    case "time":
    case "memory":
    case "finite":
      return mode;
    default:
      return "amount";
  }
}

function raisedBadge(node: number): NodeBadge {
  return { node, histogram: [], nanCount: 0, infCount: 0, text: "✕ raised", raised: true };
}

function badge(mark: CurrentMark | undefined, seen: SeenValue | undefined): NodeBadge | undefined {
  const summary = seen?.slice?.summary;
  if (mark === undefined || seen?.node !== mark.node || !summary) return undefined;
  return {
    node: mark.node,
    histogram: summary.histogram,
    nanCount: summary.nan_count,
    infCount: summary.inf_count,
    text:
      elementCount(summary.spec.shape) === 1
        ? formatNumber(summary.preview[0] ?? summary.mean)
        : "",
  };
}

function Breadcrumb(props: { readonly store: Store; select(item: Item): void }): JSX.Element {
  const parts = createMemo(() => {
    const item = props.store.selection();
    const path =
      item === undefined
        ? ""
        : item.kind === "scope"
          ? item.path
          : (props.store.model()?.graph.nodes[item.id]?.name ?? "");
    const names = path.split("/").filter(Boolean);
    const scopes = props.store.tree()?.scopes;
    return names.map((last, i) => {
      const path = names.slice(0, i + 1).join("/");
      return { name: scopes?.get(path)?.stack?.name ?? last, path };
    });
  });
  return (
    <nav class="crumbs ell" aria-label="Selection">
      <span class="t3 wide">{props.store.model()?.info.name ?? ""}</span>
      <For each={parts()}>
        {(part, i) => (
          <>
            <span class="t3 crumb-sep" classList={{ wide: i() === 0 }}>
              ›
            </span>
            <Show when={i() < parts().length - 1} fallback={<b title={part.path}>{part.name}</b>}>
              <button
                type="button"
                class="t3"
                classList={{ short: part.name.length < 3 }}
                title={part.path}
                onClick={() => props.select({ kind: "scope", path: part.path })}
              >
                {part.name}
              </button>
            </Show>
          </>
        )}
      </For>
    </nav>
  );
}
