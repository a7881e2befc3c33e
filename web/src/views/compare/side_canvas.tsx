/**
 * One side of the comparison: the canvas of the main page, fed with one of two graphs.
 *
 * Invariant: the same painter and layout as everywhere; the picked node comes back as data.
 */

import {
  createEffect,
  createSignal,
  type JSX,
  on,
  onCleanup,
  onMount,
  Show,
  untrack,
} from "solid-js";
import type { GraphModel, GraphView, NodeStates, Tints } from "@/render/scene/types";
import { createGraphView } from "@/render/view/graph_view";
import { toggledPath, turned } from "@/store/debugger/stacks";
import type { Picked, Side } from "@/store/history/compare";
import { IconButton } from "@/widgets/icon";

export interface SideCanvasProps {
  readonly side: Side;
  readonly title: string;
  readonly words: string;
  readonly theme: string;
  readonly model: GraphModel | undefined;
  readonly open: ReadonlySet<string>;
  readonly tints: Tints;
  readonly states: NodeStates | undefined;
  readonly matches: ReadonlySet<number> | undefined;
  readonly picked: Picked | undefined;
  readonly linked: ReadonlySet<number>;
  pick(picked: Picked | undefined): void;
  hover(picked: Picked | undefined): void;
  /** Replaces the set of open scopes. */
  refold(open: ReadonlySet<string>): void;
  onView(view: GraphView | undefined): void;
}

export function SideCanvas(props: SideCanvasProps): JSX.Element {
  let host!: HTMLDivElement;
  const [view, setView] = createSignal<GraphView>();
  const item = (id: number): Picked => ({ side: props.side, id });
  onMount(() => {
    const created = createGraphView(host, {
      select: (hit, stack) => {
        host.focus({ preventScroll: true });
        if (hit?.kind === "scope") props.refold(toggledPath(props.open, hit.path, stack));
        else props.pick(hit === undefined ? undefined : item(hit.id));
      },
      toggleScope: (path, stack) => props.refold(toggledPath(props.open, path, stack)),
      turnStack: (stack, act, repeats) => props.refold(turned(props.open, stack, act, repeats)),
      chosen: () => undefined,
      // There is no program to stop: a click on the gutter picks the node.
      toggleBreakpoint: (id) => props.pick(item(id)),
      hover: (hit) => props.hover(hit?.kind === "node" ? item(hit.id) : undefined),
      camera: () => undefined,
      scale: () => undefined,
      layout: () => undefined,
    });
    created.setColourBy("tint");
    setView(created);
    props.onView(created);
    const resize = new ResizeObserver(() => {
      const id = own() ?? [...props.linked][0];
      if (id !== undefined) created.reveal({ kind: "node", id });
    });
    resize.observe(host);
    onCleanup(() => {
      resize.disconnect();
      props.onView(undefined);
      created.dispose();
    });
  });
  const own = () => (props.picked?.side === props.side ? props.picked.id : undefined);
  const move = (event: KeyboardEvent): void => {
    const direction = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" }[
      event.key
    ] as "up" | "down" | "left" | "right" | undefined;
    if (direction === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    const from = own() ?? props.model?.nodes.find((node) => node.family !== "leaf")?.id;
    if (from === undefined) return;
    event.preventDefault();
    const next =
      own() === undefined
        ? ({ kind: "node", id: from } as const)
        : view()?.neighbour({ kind: "node", id: from }, direction);
    if (next?.kind !== "node") return;
    props.pick(item(next.id));
    view()?.reveal(next);
  };
  return (
    <section class="cmp-side" data-testid={`side-${props.side}`} aria-label={props.title}>
      <div class="head canvas-head">
        <b class="cmp-side-title">{props.title}</b>
        <span class="t3 ell">{props.words}</span>
        <span class="sp" />
        <IconButton icon="fit" label={`Fit ${props.title} (F)`} onClick={() => view()?.fit()} />
      </div>
      <div class="canvas-area">
        <div
          class="graph-host"
          ref={host}
          tabindex={0}
          role="application"
          aria-label={`${props.title}: arrow keys follow the edges`}
          onKeyDown={move}
        />
        <Show when={view()}>{(now) => <Feed {...props} view={now()} />}</Show>
      </div>
    </section>
  );
}

/** The node of this side that is picked, or that corresponds to the one picked on the other. */
function shownId(props: SideCanvasProps): number | undefined {
  if (props.picked === undefined) return undefined;
  return props.picked.side === props.side ? props.picked.id : [...props.linked][0];
}

function firstOf(model: GraphModel, matches: ReadonlySet<number> | undefined): number | undefined {
  return matches === undefined ? undefined : model.nodes.find((node) => matches.has(node.id))?.id;
}

function Feed(props: SideCanvasProps & { readonly view: GraphView }): JSX.Element {
  const { view } = props;
  createEffect(() => view.setExpanded(props.open));
  createEffect(() => view.setTints(props.tints));
  createEffect(() => {
    const model = props.model ?? { nodes: [], values: new Map(), version: 0 };
    const id = untrack(() => shownId(props) ?? firstOf(model, props.matches));
    // Show the whole graph, or the node that is picked or matches the chosen fate.
    view.setGraph(model, id === undefined ? { whole: true } : { reveal: { kind: "node", id } });
    const { states } = props;
    if (states !== undefined) view.setStates(states, 1);
  });
  createEffect(() => view.setMatches(props.matches));
  createEffect(() => view.setLinked(props.linked));
  createEffect(() => {
    const { picked } = props;
    view.setSelection(picked?.side === props.side ? { kind: "node", id: picked.id } : undefined);
  });
  // Bring the first node with the chosen fate into view.
  createEffect(
    on(
      () => props.matches,
      (matches) => {
        const id = props.model === undefined ? undefined : firstOf(props.model, matches);
        if (id !== undefined && props.picked === undefined) view.reveal({ kind: "node", id });
      },
      { defer: true },
    ),
  );
  // Bring the picked node, or its counterpart on this side, into view.
  createEffect(
    on(
      () => props.picked,
      () => {
        const id = shownId(props);
        if (id !== undefined) view.reveal({ kind: "node", id });
      },
    ),
  );
  createEffect(
    on(
      () => props.theme,
      () => view.themeChanged(),
      { defer: true },
    ),
  );
  return undefined;
}
