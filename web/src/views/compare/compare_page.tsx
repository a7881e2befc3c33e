/**
 * The comparison: the eager graph and the compiled one side by side, linked by origin.
 *
 * Invariant: a node picked or hovered on one side is marked on the other; everything that the
 * colours say is in the tables as well.
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
import { formatCount, formatDuration, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { ancestors } from "@/base/scopes";
import type { GraphView, Tints } from "@/render/scene/types";
import { counterparts, linksOf, type Side } from "@/store/history/compare";
import type { Preferences } from "@/store/page/preferences";
import { FateLegend } from "@/views/compare/fate_legend";
import {
  eagerModel,
  eagerStates,
  eagerTints,
  kernelStates,
  stageModel,
  stageTints,
} from "@/views/compare/models";
import { PairPanel } from "@/views/compare/pair_panel";
import { PassSlider } from "@/views/compare/pass_slider";
import { SideCanvas } from "@/views/compare/side_canvas";
import { type CompareState, type CompareTab, withFate } from "@/views/compare/state";
import { KernelTable, NodeTable, PassTable } from "@/views/compare/tables";
import { SUM_OF_NODES } from "@/views/compare/whole_times";
import { type Tab, Tabs } from "@/widgets/controls";
import { IconButton } from "@/widgets/icon";
import { Logo } from "@/widgets/logo";
import { isLeaf } from "@/wire/roles";
import type { ComparedNode } from "@/wire/types.gen";

// All scopes are open at first, as far as the picture stays readable.
const MOST_OPEN = 400;

export interface ComparePageProps {
  readonly state: CompareState;
  readonly preferences: Preferences;
  /** The name of the program. */
  readonly name: string;
  openRun(run: string): void;
  onViews(views: Readonly<Partial<Record<Side, GraphView>>>): void;
}

export function ComparePage(props: ComparePageProps): JSX.Element {
  const { state, preferences } = props;
  const [views, setViews] = createSignal<Readonly<Partial<Record<Side, GraphView>>>>({});
  const [open, setOpen] = createSignal<ReadonlySet<string>>(new Set());
  const setView = (side: Side, view: GraphView | undefined): void => {
    setViews({ ...views(), [side]: view });
    props.onViews(views());
  };
  // The eager side does not depend on the stage.
  const eagerLinks = createMemo(() => {
    const fn = state.fn();
    return fn === undefined ? undefined : linksOf(fn, []);
  });
  const left = createMemo(() => {
    const run = state.eager();
    const fn = state.fn();
    const links = eagerLinks();
    return run === undefined || fn === undefined || links === undefined
      ? undefined
      : eagerModel(run, fn, links);
  });
  const right = createMemo(() => {
    const graph = state.graph();
    return graph === undefined ? undefined : stageModel(graph);
  });
  createEffect(
    on([() => state.fn()?.owner, () => left() !== undefined], ([, ready]) => {
      const nodes = left()?.nodes ?? [];
      if (!ready || nodes.length > MOST_OPEN) return;
      setOpen(new Set(nodes.flatMap((node) => ancestors(node.scope))));
    }),
  );
  const final = () => state.stageIndex() === (state.fn()?.stages.length ?? 0) - 1;
  const leftTints = createMemo((): Tints => {
    const links = eagerLinks();
    return links === undefined ? new Map() : eagerTints(links);
  });
  const leftStates = createMemo(() => {
    const fn = state.fn();
    return fn === undefined ? undefined : eagerStates(fn);
  });
  const rightTints = createMemo((): Tints => {
    const links = state.links();
    const graph = state.graph();
    return links === undefined || graph === undefined ? new Map() : stageTints(graph, links);
  });
  // Only the final graph runs and has times.
  const rightStates = createMemo(() => {
    const links = state.links();
    const graph = state.graph();
    if (links === undefined || graph === undefined) return undefined;
    return kernelStates(graph, final() ? links.kernels : new Map());
  });
  const matches = createMemo(() => {
    const fn = state.fn();
    const links = state.links();
    const fate = state.fate();
    return fn === undefined || links === undefined || fate === undefined
      ? undefined
      : withFate(fn, links, fate);
  });
  const linked = (side: Side) => {
    const links = state.links();
    if (links === undefined) return new Set<number>();
    const hovered = counterparts(links, state.hovered(), side);
    return new Set([...counterparts(links, state.picked(), side), ...hovered]);
  };
  const fitBoth = (): void => {
    views().eager?.fit();
    views().compiled?.fit();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.defaultPrevented) return;
    if (event.target instanceof HTMLElement && event.target.matches("select, input[type=text]")) {
      return;
    }
    if (event.key === "[") state.setStage(state.stageIndex() - 1);
    else if (event.key === "]") state.setStage(state.stageIndex() + 1);
    else if (event.key === "f") fitBoth();
    else if (event.key === "n") state.nextError();
    else if (event.key === "Escape") state.pick(undefined);
    else return;
    event.preventDefault();
  };
  onMount(() => {
    window.addEventListener("keydown", onKey);
    onCleanup(() => window.removeEventListener("keydown", onKey));
  });
  const tabs = (): readonly Tab<CompareTab>[] => [
    { id: "pair", title: state.picked() === undefined ? "Overview" : "Selected" },
    { id: "nodes", title: "Nodes", count: state.fn()?.nodes.filter(computed).length },
    { id: "kernels", title: "Compiled nodes", count: state.fn()?.kernels.length },
    { id: "passes", title: "Rewrites", count: state.stage()?.changes.length },
  ];
  return (
    <div class="cmp" data-testid="compare">
      <header class="top">
        <div class="brand">
          <Logo />
          <span class="brand-name">nodescope</span>
        </div>
        <span class="vr" aria-hidden="true" />
        <b class="ell" title={printable(props.name, 10_000)}>
          <bdi dir="ltr">{printable(props.name)}</bdi>
        </b>
        <span class="t3 cmp-kind">eager and compiled</span>
        <Show when={(state.comparison()?.functions.length ?? 0) > 1}>
          <label class="cmp-choose">
            <span class="sr">Compiled function</span>
            <select
              data-testid="function-select"
              value={state.fn()?.owner ?? ""}
              title={printable(state.fn()?.owner ?? "", 10_000)}
              onChange={(event) => state.setOwner(event.currentTarget.value)}
            >
              <For each={state.comparison()?.functions ?? []}>
                {(call) => (
                  <option value={call.owner} selected={call.owner === state.fn()?.owner}>
                    {printable(call.owner, 60)} · {plural(call.steps.length, "step")}
                  </option>
                )}
              </For>
            </select>
          </label>
        </Show>
        <span class="sp" />
        <Show when={state.fn()}>
          {(fn) => <FateLegend fn={fn()} active={state.fate()} onSelect={state.setFate} />}
        </Show>
        <IconButton
          icon="theme"
          label="Light or dark theme"
          testid="theme"
          onClick={() => preferences.setTheme(preferences.theme() === "dark" ? "light" : "dark")}
        />
      </header>
      <Show when={state.comparison()?.verdict}>
        {(verdict) => (
          <div class={`cmp-outcome ${verdict().outcome}`} data-testid="verdict" role="status">
            <span class="cmp-outcome-text" title={printable(verdict().text, 10_000)}>
              {printable(verdict().text, 1_000)}
            </span>
            <Show when={verdict().function !== ""}>
              <button
                type="button"
                class="btn"
                data-testid="show-verdict"
                title="Select the node where the runs first differ"
                onClick={() => state.showVerdict()}
              >
                Show
              </button>
            </Show>
          </div>
        )}
      </Show>
      <Show
        when={state.problem() === ""}
        fallback={
          <div class="cmp-problem" role="alert" data-testid="compare-problem">
            <h2>These runs cannot be compared</h2>
            <p class="t2">{state.problem()}</p>
          </div>
        }
      >
        <Show when={state.fn()}>
          {(fn) => (
            <PassSlider
              stages={fn().stages}
              index={state.stageIndex()}
              onSelect={(index) => state.setStage(index)}
            />
          )}
        </Show>
        <div class="cmp-sides">
          <SideCanvas
            side="eager"
            title="Eager"
            words={leftWords(state)}
            theme={preferences.theme()}
            model={left()}
            open={open()}
            tints={leftTints()}
            states={leftStates()}
            matches={matches()?.eager}
            picked={state.picked()}
            linked={linked("eager")}
            pick={state.pick}
            hover={state.setHovered}
            refold={setOpen}
            onView={(view) => setView("eager", view)}
          />
          <SideCanvas
            side="compiled"
            title="Compiled"
            words={rightWords(state, final())}
            theme={preferences.theme()}
            model={right()}
            open={open()}
            tints={rightTints()}
            states={rightStates()}
            matches={matches()?.compiled}
            picked={state.picked()}
            linked={linked("compiled")}
            pick={state.pick}
            hover={state.setHovered}
            refold={setOpen}
            onView={(view) => setView("compiled", view)}
          />
        </div>
        <section class="cmp-dock panel" aria-label="Details">
          <div class="head">
            <Tabs label="Comparison" tabs={tabs()} active={state.tab()} onSelect={state.setTab} />
            <span class="sp" />
            <Show when={state.comparison()}>
              {(both) => (
                <>
                  <button
                    type="button"
                    class="btn"
                    onClick={() => props.openRun(both().eager)}
                    data-testid="open-eager"
                  >
                    Eager run
                  </button>
                  <button
                    type="button"
                    class="btn"
                    onClick={() => props.openRun(both().compiled)}
                    data-testid="open-compiled"
                  >
                    Compiled run
                  </button>
                </>
              )}
            </Show>
          </div>
          <Show when={state.fn()} fallback={<p class="empty">Comparing the two runs…</p>}>
            <Show when={state.tab() === "pair"}>
              <PairPanel state={state} />
            </Show>
            <Show when={state.tab() === "nodes"}>
              <NodeTable state={state} />
            </Show>
            <Show when={state.tab() === "kernels"}>
              <KernelTable state={state} />
            </Show>
            <Show when={state.tab() === "passes"}>
              <PassTable state={state} />
            </Show>
          </Show>
        </section>
      </Show>
    </div>
  );
}

function computed(node: ComparedNode): boolean {
  return !isLeaf(node);
}

function leftWords(state: CompareState): string {
  const fn = state.fn();
  if (fn === undefined) return "";
  const step = fn.steps[0];
  const matched = fn.nodes.filter((node) => computed(node) && node.eager > 0).length;
  const nodes = plural(fn.unmatched.length + matched, "node");
  const when = step === undefined || step === 0 ? "" : `step ${step} · `;
  const rest = fn.unmatched.length > 0 ? ` in the ${formatCount(matched)} that are compared` : "";
  return `${when}${nodes} · ${SUM_OF_NODES} ${formatDuration(fn.eager_ns)}${rest}`;
}

function rightWords(state: CompareState, final: boolean): string {
  const fn = state.fn();
  const stage = state.stage();
  if (fn === undefined || stage === undefined) return "";
  if (state.loading()) return "loading the graph…";
  const nodes = plural(stage.nodes, "node");
  if (final) return `final graph · ${nodes} · ${SUM_OF_NODES} ${formatDuration(fn.compiled_ns)}`;
  return `${state.stageIndex() === 0 ? "as traced" : `after ${stage.name}`} · ${nodes}`;
}
