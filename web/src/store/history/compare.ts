/**
 * An eager run beside a compiled one: which nodes correspond, and what the address stores.
 *
 * Invariant: pure; `Links` is built once per function and stage, so that every query is a look-up.
 */

import { formatCount, formatNumber } from "@/base/numbers";
import {
  type ComparedFunction,
  type ComparedNode,
  type ErrorHistory,
  FATES,
  type FateKind,
  type Kernel,
  type Measure,
  type Node,
} from "@/wire/types.gen";

export type Side = "eager" | "compiled";

/** A node of a side: of the eager run, or of the captured graph that is shown. */
export interface Picked {
  readonly side: Side;
  readonly id: number;
}

export const FATE_WORDS: Readonly<Record<FateKind, string>> = {
  kept: "runs as traced",
  renamed: "replaced by another value",
  rewritten: "computed differently",
  folded: "computed once, while compiling",
  merged: "merged with an identical node",
  fused: "part of a kernel",
  recomputed: "computed a second time",
  eliminated: "not needed by any result",
};

export interface Links {
  readonly nodes: ReadonlyMap<number, ComparedNode>;
  readonly byEager: ReadonlyMap<number, ComparedNode>;
  readonly kernels: ReadonlyMap<number, Kernel>;
  /** Nodes of the graph that is shown, by the traced node that they stand for. */
  readonly shown: ReadonlyMap<number, readonly number[]>;
  /** Traced nodes by node of the graph that is shown. */
  readonly origins: ReadonlyMap<number, readonly number[]>;
}

export function linksOf(fn: ComparedFunction, stage: readonly Node[]): Links {
  const nodes = new Map(fn.nodes.map((node) => [node.id, node]));
  const shown = new Map<number, number[]>();
  const origins = new Map<number, readonly number[]>();
  for (const node of stage) {
    origins.set(node.id, node.origin);
    for (const traced of node.origin) {
      const list = shown.get(traced);
      if (list === undefined) shown.set(traced, [node.id]);
      else list.push(node.id);
    }
  }
  return {
    nodes,
    byEager: new Map(fn.nodes.filter((node) => node.eager > 0).map((node) => [node.eager, node])),
    kernels: new Map(fn.kernels.map((kernel) => [kernel.id, kernel])),
    shown,
    origins,
  };
}

/** The traced nodes that a node of either side stands for. */
export function tracedOf(links: Links, picked: Picked): readonly ComparedNode[] {
  if (picked.side === "eager") {
    const node = links.byEager.get(picked.id);
    return node === undefined ? [] : [node];
  }
  const ids = links.origins.get(picked.id) ?? [];
  return ids.flatMap((id) => links.nodes.get(id) ?? []);
}

/** Ids of the nodes on a side that correspond to a node picked on the other side. */
export function counterparts(
  links: Links,
  picked: Picked | undefined,
  side: Side,
): ReadonlySet<number> {
  if (picked === undefined || picked.side === side) return new Set();
  const traced = tracedOf(links, picked);
  if (side === "eager") return new Set(traced.map((node) => node.eager).filter((id) => id > 0));
  return new Set(traced.flatMap((node) => links.shown.get(node.id) ?? []));
}

/** The kernels that do the work of traced nodes. */
export function kernelsOf(links: Links, traced: readonly ComparedNode[]): readonly Kernel[] {
  const ids = new Set(traced.flatMap((node) => node.into));
  return [...ids].flatMap((id) => links.kernels.get(id) ?? []);
}

/** The largest error of a node's values. */
export function worstOf(node: ComparedNode): Measure | undefined {
  let worstSoFar: Measure | undefined;
  for (const { worst } of node.values) {
    if (worst === null || worst.source === "none") continue;
    if (worstSoFar === undefined || worseFirst(worst, worstSoFar) < 0) worstSoFar = worst;
  }
  return worstSoFar;
}

/** Sorts errors by differing counts of NaN or Inf, the share beyond the tolerance, and size. */
export function worseFirst(a: Measure, b: Measure): number {
  const [one, other] = [badness(a), badness(b)];
  const at = one.findIndex((number, i) => number !== other[i]);
  return at < 0 ? 0 : (other[at] ?? 0) - (one[at] ?? 0);
}

function badness(measure: Measure): readonly number[] {
  const odd = measure.nan[0] !== measure.nan[1] || measure.inf[0] !== measure.inf[1];
  return [odd ? 1 : 0, measure.mismatched ?? 0, measure.max_abs ?? 0];
}

/** The counts of NaN and Inf that differ between the sides, in words; "" if none do. */
function oddWords(measure: Measure): string {
  const parts = (["nan", "inf"] as const).flatMap((statistic) => {
    const [eager, compiled] = measure[statistic];
    const name = statistic === "nan" ? "NaN" : "Inf";
    return eager === compiled ? [] : [`${name} ${formatCount(eager)} → ${formatCount(compiled)}`];
  });
  return parts.join(" · ");
}

/** How far apart the values of a measure are, in a few words. */
export function measureWords(measure: Measure): string {
  if (measure.source === "none") return measure.why;
  if (measure.equal) return measure.source === "arrays" ? "bit-equal" : "equal statistics";
  const parts: string[] = [];
  const odd = oddWords(measure);
  if (odd !== "") parts.push(odd);
  if ((measure.max_abs ?? 0) > 0) {
    parts.push(formatNumber(measure.max_abs, 3));
    if (measure.ulp !== null) parts.push(`${formatNumber(measure.ulp, 4)} ulp`);
    else if (measure.source === "summaries") parts.push("of statistics");
  }
  if (parts.length > 0) return parts.join(" · ");
  // The finite values agree, and the counts of NaN and Inf are equal.
  if ((measure.mismatched ?? 0) > 0) return "NaN or Inf at different positions";
  return measure.source === "arrays" ? "zeros differ in sign" : "different statistics";
}

/** The errors over the steps that were measured, as fractions of the largest. */
export function errorBars(history: ErrorHistory): readonly {
  readonly step: number;
  readonly part: number;
  readonly odd: boolean;
  readonly words: string;
}[] {
  const known = history.measures.flatMap((measure, at) =>
    measure.source === "none" ? [] : [{ measure, step: history.steps[at] ?? 0 }],
  );
  const most = Math.max(0, ...known.map(({ measure }) => measure.max_abs ?? 0));
  return known.map(({ measure, step }) => {
    const odd = !measure.equal && oddWords(measure) !== "";
    const size = most > 0 ? (measure.max_abs ?? 0) / most : 0;
    const part = odd ? 1 : measure.equal ? 0 : Math.max(size, 0.01);
    return { step, part, odd, words: measureWords(measure) };
  });
}

/** An error in a few words: `bit-equal`, `3e−8 · 1 ulp`, or why there is none. */
export function errorWords(node: ComparedNode): string {
  const worst = worstOf(node);
  if (worst === undefined) {
    const value = node.values[0];
    return value === undefined ? "–" : value.why || value.worst?.why || "–";
  }
  return measureWords(worst);
}

/** `fuse/elementwise_chain` as `fuse: elementwise chain`. */
export function ruleWords(rule: string): string {
  const cut = rule.indexOf("/");
  const words = (text: string): string => text.replaceAll("_", " ");
  return cut < 0 ? words(rule) : `${words(rule.slice(0, cut))}: ${words(rule.slice(cut + 1))}`;
}

// ---------------------------------------------------------------- the address

export interface CompareAddress {
  readonly eager: string;
  readonly compiled: string;
  readonly owner: string | undefined;
  /** Index among the stages; undefined = the last. */
  readonly stage: number | undefined;
  readonly picked: Picked | undefined;
  readonly fate: FateKind | undefined;
  readonly tab: string | undefined;
}

const RUN = /^[0-9a-f]{16}$/;

/** The comparison that an address names; undefined if it names something else. */
export function readCompare(hash: string): CompareAddress | undefined {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const [eager = "", compiled = ""] = (parts.get("compare") ?? "").split(",");
  if (!RUN.test(eager) || !RUN.test(compiled)) return undefined;
  const left = whole(parts.get("left"));
  const right = whole(parts.get("right"));
  return {
    eager,
    compiled,
    owner: parts.get("function") ?? undefined,
    stage: whole(parts.get("stage")),
    picked:
      left !== undefined
        ? { side: "eager", id: left }
        : right !== undefined
          ? { side: "compiled", id: right }
          : undefined,
    fate: FATES.find((candidate) => candidate === parts.get("fate")),
    tab: parts.get("tab") ?? undefined,
  };
}

export function writeCompare(address: CompareAddress): string {
  const parts = new URLSearchParams();
  const set = (key: string, value: string | number | undefined): void => {
    if (value !== undefined) parts.set(key, String(value));
  };
  set("function", address.owner);
  set("stage", address.stage);
  if (address.picked !== undefined) {
    set(address.picked.side === "eager" ? "left" : "right", address.picked.id);
  }
  set("fate", address.fate);
  set("tab", address.tab);
  const rest = parts.toString();
  return `compare=${address.eager},${address.compiled}${rest === "" ? "" : `&${rest}`}`;
}

function whole(text: string | null): number | undefined {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
