/**
 * Executions as the bars of a flame chart: phases, scopes, nodes; one lane per thread, per device
 * queue and per worker; and the time between them.
 *
 * Invariant: pure; bars of one level in a lane are in order of time, and only nodes that run within
 * others overlap.
 */

import { formatCount, formatDuration } from "@/base/numbers";
import { isOperation } from "@/store/run/counts";
import { onThread, type Place, placeWords } from "@/store/run/place";
import type { RunGraph } from "@/store/run/run_model";
import { baseName, type HostSpan } from "@/views/timeline/host";
import { FAILED, type LaneName, type Phase } from "@/wire/types.gen";

/** Executions in order of time. */
export interface TimelineRows {
  readonly count: number;
  readonly node: ArrayLike<number>;
  readonly step: ArrayLike<number>;
  readonly thread: ArrayLike<number>;
  /** The process that ran it and the queue of its device; empty where all are 0. */
  readonly worker?: ArrayLike<number>;
  readonly lane?: ArrayLike<number>;
  readonly startNs: ArrayLike<number>;
  readonly durationNs: ArrayLike<number>;
  /** Flags of the executions, if known. */
  readonly flags?: ArrayLike<number>;
}

export interface Bar {
  readonly start: number;
  readonly end: number;
  readonly label: string;
  /** Set for a bar of one node; 0 for phases and scopes. */
  readonly node: number;
  /** Scope path of a scope's bar. */
  readonly scope: string;
  readonly phase: Phase;
  readonly step: number;
  /** Whether it ran after the step had ended, and is not part of it. */
  readonly after: boolean;
  readonly family: string;
  /** Whether the node raised. */
  readonly failed?: boolean;
  /** Set for time between nodes. */
  readonly host?: HostSpan;
  /** Set for unnamed time between two nodes: the lines of the nodes, or "". */
  readonly between?: string;
}

export interface Lane extends Place {
  /** The name of the device queue, if it has one. */
  readonly name?: string;
  /** Whether it is the program's main thread, if that is known. */
  readonly main?: boolean;
  /** Level 0: phases; then scopes from the outside in; last: nodes. */
  readonly levels: readonly (readonly Bar[])[];
}

const SCOPE_LEVELS = 2;

/**
 * Executions of operations within a window of the axis; nodes that only hold data are drawn, but
 * are not operations. The lane may extend beyond the window.
 */
export function operationsIn(lane: Lane, [from, to]: readonly [number, number]): number {
  const bars = lane.levels.at(-1) ?? [];
  return bars.filter(
    (bar) => bar.node > 0 && bar.family !== "leaf" && bar.end > from && bar.start < to,
  ).length;
}

/**
 * Number of executions of operations in a lane; for a long time range there are more than are
 * drawn.
 */
export function laneWords(ops: number, thinned: boolean): string {
  return thinned ? `${formatCount(ops)}+ ran` : `${formatCount(ops)} ran`;
}

/** When a step ended, on the axis of the bars; NaN if it has not, or if unknown. */
export type StepEnd = (step: number) => number;

const UNKNOWN_END: StepEnd = () => Number.NaN;

/** `step 12`, `after step 12`: where a bar or another span belongs. */
export function stepWords(step: number, after: boolean): string {
  if (step <= 0) return "before the first step";
  return `${after ? "after " : ""}step ${formatCount(step)}`;
}

export interface LaneOptions {
  /** Known time between nodes, on the axis. */
  readonly host?: readonly HostSpan[];
  /** Whether the rows are complete, so that the time between them can be shown. */
  readonly gaps?: boolean;
  /** Training steps that were not observed, in order: what ran there is not known. */
  readonly unseen?: readonly Stretch[];
  readonly stepEnd?: StepEnd;
  /** The names of device queues. */
  readonly names?: readonly LaneName[];
  /** The program's main thread, if the recording names it. */
  readonly mainThread?: number | undefined;
}

interface Stretch {
  readonly start: number;
  readonly end: number;
}

export function lanesOf(
  graph: RunGraph | undefined,
  rows: TimelineRows,
  options: LaneOptions = {},
): readonly Lane[] {
  const { host = [], gaps = false, unseen = [], stepEnd = UNKNOWN_END, names = [] } = options;
  const { mainThread } = options;
  const places = new Map<string, Place & { readonly list: number[] }>();
  let last: Place & { readonly list: number[] } = { thread: -1, worker: -1, queue: -1, list: [] };
  const listAt = (thread: number, worker: number, queue: number): number[] => {
    if (last.thread === thread && last.worker === worker && last.queue === queue) return last.list;
    const key = `${worker} ${queue} ${thread}`;
    const known = places.get(key) ?? { thread, worker, queue, list: [] };
    places.set(key, known);
    last = known;
    return known.list;
  };
  for (let i = 0; i < rows.count; i++) {
    listAt(rows.thread[i] ?? 0, rows.worker?.[i] ?? 0, rows.lane?.[i] ?? 0).push(i);
  }
  for (const span of host) listAt(span.thread, 0, 0);
  const sorted = [...places.values()].sort(
    (a, b) =>
      a.worker - b.worker ||
      a.queue - b.queue ||
      Number(b.thread === mainThread) - Number(a.thread === mainThread) ||
      a.thread - b.thread,
  );
  return sorted.map(({ list, ...place }) => {
    list.sort((a, b) => (rows.startNs[a] ?? 0) - (rows.startNs[b] ?? 0));
    const here = onThread(place);
    const own = here ? host.filter((span) => span.thread === place.thread) : [];
    const shown = { host: own, gaps: gaps && here, unseen, stepEnd };
    const name = names.find(({ lane }) => lane === place.queue)?.name;
    const main = here && mainThread !== undefined ? place.thread === mainThread : undefined;
    const named = {
      ...place,
      ...(name !== undefined && { name }),
      ...(main !== undefined && { main }),
    };
    return { ...named, levels: levelsOf(graph, rows, list, shown) };
  });
}

/** The names of the lanes: `main`, `thread 2`, `cuda:0`, `lane 1`, `worker 2`, `w2 · lane 1`. */
export function laneNames(
  lanes: readonly (Place & { readonly name?: string; readonly main?: boolean })[],
): readonly string[] {
  const threads = lanes.filter(onThread);
  // The main thread counts as the first even if it has no lane: the others keep their numbers.
  const first = threads[0]?.main === false ? 1 : 0;
  return lanes.map((lane) => {
    if (onThread(lane)) {
      const at = threads.indexOf(lane) + first;
      return at === 0 ? "main" : `thread ${at + 1}`;
    }
    if (lane.name !== undefined) return lane.name;
    const words = placeWords(lane);
    return lane.worker > 0 && lane.queue > 0 ? words.replace("worker ", "w") : words;
  });
}

function levelsOf(
  graph: RunGraph | undefined,
  rows: TimelineRows,
  order: readonly number[],
  { host, gaps, unseen, stepEnd }: Omit<Required<LaneOptions>, "names" | "mainThread">,
): readonly (readonly Bar[])[] {
  // Fetching or input ends a phase; other time between its nodes does not.
  const breaks = host.filter((span) => apart(span)).map((span) => span.start);
  breaks.sort((a, b) => a - b);
  let passed = 0;
  const phases: Growing[] = [];
  const scopes: Growing[][] = Array.from({ length: SCOPE_LEVELS }, () => []);
  const nodes: Bar[] = [];
  const scopesOf = new Map<string, readonly ScopeLevel[]>();
  const levelsAt = (scope: string, phase: string): readonly ScopeLevel[] => {
    const key = `${phase} ${scope}`;
    const known = scopesOf.get(key) ?? scopeLevels(scope, phase);
    scopesOf.set(key, known);
    return known;
  };
  let labelled = { phase: "", step: -1, after: false, label: "" };
  for (const i of order) {
    const node = graph?.nodes[rows.node[i] ?? 0];
    if (node === undefined) continue;
    const start = rows.startNs[i] ?? 0;
    const end = start + (rows.durationNs[i] ?? 0);
    const step = rows.step[i] ?? 0;
    const { phase } = node;
    const family = isOperation(node) ? node.family : "leaf";
    const after = start >= stepEnd(step);
    const base = { start, end, node: 0, scope: "", phase, step, after, family };
    while (passed < breaks.length && (breaks[passed] ?? 0) <= start) passed += 1;
    const broken = breaks[passed - 1] ?? Number.NEGATIVE_INFINITY;
    // Nodes that only hold data start no phase: compiled functions read the optimizer state first.
    if (family !== "leaf") {
      if (labelled.phase !== phase || labelled.step !== step || labelled.after !== after) {
        const label = step > 0 ? `${phase}, ${stepWords(step, after)}` : phase;
        labelled = { phase, step, after, label };
      }
      extend(phases, base, labelled.label, "", broken);
      levelsAt(node.scope, phase).forEach(({ label, scope }, level) => {
        extend(scopes[level] ?? [], base, label, scope, broken);
      });
    }
    nodes.push({
      ...base,
      label: node.name.slice(node.name.lastIndexOf("/") + 1),
      node: node.id,
      ...(((rows.flags?.[i] ?? 0) & FAILED) !== 0 ? { failed: true } : {}),
    });
  }
  const between = gaps ? gapsOf(graph, rows, order, host, unseen, stepEnd) : [];
  const barOf = (span: HostSpan): Bar => hostBar(span, stepEnd);
  const above = host.filter((span) => apart(span)).map(barOf);
  const beside = host.filter((span) => !apart(span)).map(barOf);
  return [
    inOrder([...phases, ...above]),
    ...scopes.filter((level) => level.length > 0),
    inOrder([...nodes, ...beside, ...between]),
  ];
}

function inOrder(bars: Bar[]): readonly Bar[] {
  return bars.sort((a, b) => a.start - b.start);
}

/** Whether it is drawn on the level of phases, not on that of nodes. */
function apart(span: HostSpan): boolean {
  return span.kind === "data" || span.kind === "input";
}

const NO_BAR = { node: 0, scope: "", phase: "other", family: "" } as const;

function hostBar(span: HostSpan, stepEnd: StepEnd): Bar {
  const { start, end, step } = span;
  return { ...NO_BAR, start, end, step, after: start >= stepEnd(step), label: "", host: span };
}

/** Unnamed time between nodes of a thread, with the lines around it. */
function gapsOf(
  graph: RunGraph | undefined,
  rows: TimelineRows,
  order: readonly number[],
  host: readonly HostSpan[],
  unseen: readonly Stretch[],
  stepEnd: StepEnd,
): readonly Bar[] {
  const bars: Bar[] = [];
  let end = Number.NaN;
  let before = 0;
  let next = 0;
  const add = (from: number, to: number, i: number): void => {
    const lines = between(graph, rows.node[before] ?? 0, rows.node[i] ?? 0);
    const step = rows.step[i] ?? 0;
    for (const { start, end } of without(from, to, unseen)) {
      const after = start >= stepEnd(step);
      bars.push({ ...NO_BAR, start, end, step, after, label: "", between: lines });
    }
  };
  for (const i of order) {
    const start = rows.startNs[i] ?? 0;
    if (start > end) {
      let from = end;
      while (next < host.length && (host[next]?.start ?? 0) < start) {
        const span = host[next++];
        if (span === undefined || span.end <= from) continue;
        add(from, Math.max(from, span.start), i);
        from = Math.max(from, span.end);
      }
      add(from, start, i);
    }
    const stop = start + (rows.durationNs[i] ?? 0);
    if (!(stop <= end)) {
      end = stop;
      before = i;
    }
  }
  return bars;
}

/** The parts of a stretch outside of others, which are in order. */
function without(from: number, to: number, others: readonly Stretch[]): readonly Stretch[] {
  const parts: Stretch[] = [];
  let start = from;
  for (const other of others) {
    if (other.end <= start || other.start >= to) continue;
    if (other.start > start) parts.push({ start, end: other.start });
    start = other.end;
  }
  if (to > start) parts.push({ start, end: to });
  return parts;
}

/** `train.py:30–34`: the lines of two consecutive nodes. */
function between(graph: RunGraph | undefined, before: number, after: number): string {
  const source = graph?.nodes[before]?.source;
  const other = graph?.nodes[after]?.source;
  if (source == null || other == null || source.file !== other.file) return "";
  const [low, high] = [Math.min(source.line, other.line), Math.max(source.line, other.line)];
  return `${baseName(source.file)}:${low === high ? low : `${low}–${high}`}`;
}

/** A bar that later executions may extend. */
interface Growing extends Bar {
  end: number;
}

interface ScopeLevel {
  readonly label: string;
  readonly scope: string;
}

/** The scopes of a node that get bars, from the outside in. */
function scopeLevels(path: string, phase: string): readonly ScopeLevel[] {
  const parts = path.split("/").filter(Boolean);
  // The outermost scope of backward and optimizer nodes only repeats the phase.
  const skip = parts[0] === phase ? 1 : 0;
  return parts.slice(skip, skip + SCOPE_LEVELS).map((label, level) => ({
    label,
    scope: parts.slice(0, level + skip + 1).join("/"),
  }));
}

/**
 * Extends the last bar if this one continues it, else adds it.
 *
 * Args:
 *   broken: The last moment up to the bar at which a phase ended.
 */
function extend(
  bars: Growing[],
  bar: Omit<Bar, "label" | "scope">,
  label: string,
  scope: string,
  broken: number,
): void {
  const last = bars.at(-1);
  if (
    last !== undefined &&
    last.label === label &&
    last.scope === scope &&
    last.step === bar.step &&
    last.after === bar.after &&
    broken < last.end - 1
  ) {
    last.end = Math.max(last.end, bar.end);
  } else {
    bars.push({ ...bar, label, scope });
  }
}

/** Round distances between ticks: 1, 2 or 5 times a power of ten, at least `least`. */
export function tickStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5, 10]) if (power * factor >= least) return power * factor;
  return power * 10;
}

const UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
] as const;

/** A moment with enough digits to distinguish it from the next tick. */
export function tickLabel(ns: number, tickNs: number): string {
  const [scale, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? [1, "ns"];
  const digits = Math.max(0, Math.ceil(Math.log10(scale / tickNs) - 1e-9));
  if (scale === 1e9 && tickNs >= 1e9) return formatDuration(ns);
  return `${(Math.abs(ns) / scale).toFixed(digits).replace(/^/, ns < 0 ? "−" : "")}\u202f${unit}`;
}
