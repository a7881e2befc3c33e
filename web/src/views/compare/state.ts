/**
 * The state of the comparison: fetched answers and the picked node, as signals.
 *
 * Invariant: the answer to an outdated request is dropped.
 */

import { type Accessor, createEffect, createMemo, createSignal, on } from "solid-js";
import {
  type CompareAddress,
  type Links,
  linksOf,
  type Picked,
  worseFirst,
  worstOf,
} from "@/store/history/compare";
import { get } from "@/wire/rest";
import { isLeaf } from "@/wire/roles";
import { inWords } from "@/wire/socket";
import type {
  CapturedStage,
  ComparedFunction,
  Comparison,
  FateKind,
  Graph,
  RunGraph,
  Stage,
  Verdict,
} from "@/wire/types.gen";

export type CompareTab = "pair" | "nodes" | "kernels" | "passes";
const TABS: readonly CompareTab[] = ["pair", "nodes", "kernels", "passes"];

export interface CompareState {
  readonly comparison: Accessor<Comparison | undefined>;
  readonly eager: Accessor<RunGraph | undefined>;
  readonly problem: Accessor<string>;
  readonly fn: Accessor<ComparedFunction | undefined>;
  readonly owner: Accessor<string | undefined>;
  setOwner(owner: string): void;
  readonly stageIndex: Accessor<number>;
  setStage(index: number): void;
  readonly stage: Accessor<Stage | undefined>;
  /** The graph on the canvas; while another one is loading, the previous one. */
  readonly graph: Accessor<Graph | undefined>;
  readonly loading: Accessor<boolean>;
  readonly links: Accessor<Links | undefined>;
  readonly picked: Accessor<Picked | undefined>;
  pick(picked: Picked | undefined): void;
  readonly hovered: Accessor<Picked | undefined>;
  setHovered(picked: Picked | undefined): void;
  readonly fate: Accessor<FateKind | undefined>;
  setFate(fate: FateKind | undefined): void;
  readonly tab: Accessor<CompareTab>;
  setTab(tab: CompareTab): void;
  readonly address: Accessor<CompareAddress>;
  /** Goes to the node with the next smaller error, starting with the largest. */
  nextError(): void;
  /** Goes to the first difference; does nothing if there is none that has a place. */
  showVerdict(): void;
}

export function createCompare(first: CompareAddress): CompareState {
  const [comparison, setComparison] = createSignal<Comparison>();
  const [eager, setEager] = createSignal<RunGraph>();
  const [problem, setProblem] = createSignal("");
  const [owner, setOwner] = createSignal(first.owner);
  const [wanted, setStage] = createSignal(first.stage);
  const [captured, setCaptured] = createSignal<{ readonly id: number; readonly graph: Graph }>();
  const [picked, setPicked] = createSignal(first.picked);
  const [hovered, setHovered] = createSignal<Picked>();
  const [fate, setFate] = createSignal(first.fate);
  const [tab, setTab] = createSignal<CompareTab>(
    TABS.find((candidate) => candidate === first.tab) ?? "pair",
  );
  const sides = { eager: first.eager, compiled: first.compiled };
  const complain = (error: unknown): void => void setProblem(inWords(error));
  const showVerdict = (): void => {
    const answer = comparison();
    if (!answer?.verdict) return;
    const place = placeOf(answer.verdict, answer.functions);
    if (place === undefined) return;
    setOwner(place.owner);
    setStage(place.stage);
    setPicked(place.picked);
    setTab("pair");
  };
  get<Comparison>("compare", sides).then((answer) => {
    setComparison(answer);
    // An address that names nothing in particular opens at the first difference.
    if (first.owner === undefined && first.picked === undefined) showVerdict();
  }, complain);

  const fn = createMemo(() => {
    const functions = comparison()?.functions ?? [];
    return functions.find((candidate) => candidate.owner === owner()) ?? functions[0];
  });
  // Inputs and shapes change over the steps: those of the step that is compared are shown.
  const step = createMemo(() => fn()?.steps[0]);
  createEffect(
    on([() => fn() !== undefined, step], ([loaded, now]) => {
      if (!loaded) return;
      get<RunGraph>(`runs/${first.eager}/graph`, now === undefined ? {} : { step: now }).then(
        (answer) => {
          if (step() === now) setEager(answer);
        },
        complain,
      );
    }),
  );
  const stageIndex = createMemo(() => {
    const last = Math.max(0, (fn()?.stages.length ?? 1) - 1);
    return Math.min(wanted() ?? last, last);
  });
  const stage = createMemo(() => fn()?.stages[stageIndex()]);
  const known = new Map<number, Graph>();
  let lastAsked = 0;
  createEffect(
    on(stage, (now) => {
      if (now === undefined) return;
      lastAsked = now.graph;
      const cached = known.get(now.graph);
      if (cached !== undefined) {
        setCaptured({ id: now.graph, graph: cached });
        return;
      }
      get<CapturedStage>(`runs/${first.compiled}/captured/${now.graph}`).then((answer) => {
        known.set(now.graph, answer.graph);
        if (lastAsked === now.graph) setCaptured({ id: now.graph, graph: answer.graph });
      }, complain);
    }),
  );
  const graph = () => captured()?.graph;
  const loading = () => stage() !== undefined && captured()?.id !== stage()?.graph;
  const links = createMemo(() => {
    const now = fn();
    const shown = graph();
    return now === undefined || shown === undefined ? undefined : linksOf(now, shown.nodes);
  });
  const pick = (next: Picked | undefined): void => {
    setPicked(next);
    if (next !== undefined && tab() === "passes") setTab("pair");
  };
  const address = createMemo(
    (): CompareAddress => ({
      ...sides,
      owner: owner(),
      stage: wanted(),
      picked: picked(),
      fate: fate(),
      tab: tab() === "pair" ? undefined : tab(),
    }),
  );
  return {
    comparison,
    eager,
    problem,
    fn,
    owner,
    setOwner(next) {
      setOwner(next);
      setStage(undefined);
      setPicked(undefined);
    },
    stageIndex,
    setStage(index) {
      const last = (fn()?.stages.length ?? 1) - 1;
      // A node of one stage's graph need not be in another's.
      if (picked()?.side === "compiled") setPicked(undefined);
      setStage(index >= last ? undefined : Math.max(0, index));
    },
    stage,
    graph,
    loading,
    links,
    picked,
    pick,
    hovered,
    setHovered,
    fate,
    setFate,
    tab,
    setTab,
    address,
    nextError() {
      const ranked = (fn()?.nodes ?? [])
        .flatMap((node) => {
          const worst = worstOf(node);
          return worst === undefined || worst.equal || node.eager === 0 ? [] : [{ node, worst }];
        })
        .sort((a, b) => worseFirst(a.worst, b.worst));
      const now = picked();
      const at = ranked.findIndex(({ node }) => now?.side === "eager" && node.eager === now.id);
      const next = ranked[(at + 1) % Math.max(1, ranked.length)];
      if (next !== undefined) pick({ side: "eager", id: next.node.eager });
    },
    showVerdict,
  };
}

/** Where a verdict points: the function, the stage of the pass, the node; undefined = nowhere. */
export function placeOf(
  verdict: Verdict,
  functions: readonly ComparedFunction[],
):
  | {
      readonly owner: string;
      readonly stage: number | undefined;
      readonly picked: Picked | undefined;
    }
  | undefined {
  const fn = functions.find((candidate) => candidate.owner === verdict.function);
  if (fn === undefined) return undefined;
  const passes = new Set(verdict.rules.map((rule) => rule.split("/", 1)[0]));
  const stage = fn.stages.findLastIndex((candidate) => passes.has(candidate.name));
  const node = fn.nodes.find((candidate) => candidate.id === verdict.node);
  return {
    owner: fn.owner,
    // A kernel belongs to the final graph.
    stage: stage < 0 || verdict.kernel > 0 ? undefined : stage,
    picked:
      node !== undefined && node.eager > 0
        ? { side: "eager", id: node.eager }
        : verdict.kernel > 0
          ? { side: "compiled", id: verdict.kernel }
          : undefined,
  };
}

/** Eager node ids with a fate, and the nodes of the graph shown that stand for them. */
export function withFate(
  fn: ComparedFunction,
  links: Links,
  fate: FateKind,
): { readonly eager: ReadonlySet<number>; readonly compiled: ReadonlySet<number> } {
  const nodes = fn.nodes.filter((node) => node.fate === fate && !isLeaf(node));
  return {
    eager: new Set(nodes.map((node) => node.eager).filter((id) => id > 0)),
    compiled: new Set(nodes.flatMap((node) => links.shown.get(node.id) ?? [])),
  };
}
