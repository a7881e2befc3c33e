/**
 * Executions as the bars of a flame chart: phases, scopes, nodes, one lane per thread.
 *
 * Invariant: pure; bars of one level in a lane never overlap, and stand in order of time.
 */

import { formatCount, plural } from "@/base/numbers";
import type { RunGraph } from "@/store/run_model";
import type { Phase } from "@/wire/types.gen";

/** Executions in order of time. */
export interface TimelineRows {
  readonly count: number;
  readonly node: ArrayLike<number>;
  readonly step: ArrayLike<number>;
  readonly thread: ArrayLike<number>;
  readonly startNs: ArrayLike<number>;
  readonly durationNs: ArrayLike<number>;
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
  readonly family: string;
}

export interface Lane {
  readonly thread: number;
  /** Level 0: phases; then scopes from outside in; last: nodes. */
  readonly levels: readonly (readonly Bar[])[];
}

const SCOPE_LEVELS = 2;

/** How many executions a lane shows; a long stretch of time has more than are drawn. */
export function laneWords(ops: number, thinned: boolean): string {
  return thinned ? `${formatCount(ops)}+ ops` : plural(ops, "op");
}

/** `breaks` are times that no bar may span: pauses of the program. */
export function lanesOf(
  graph: RunGraph | undefined,
  rows: TimelineRows,
  breaks: readonly number[] = [],
): readonly Lane[] {
  const byThread = new Map<number, number[]>();
  for (let i = 0; i < rows.count; i++) {
    const thread = rows.thread[i] ?? 0;
    const list = byThread.get(thread);
    if (list === undefined) byThread.set(thread, [i]);
    else list.push(i);
  }
  const lanes: Lane[] = [];
  for (const [thread, list] of [...byThread].sort((a, b) => a[0] - b[0])) {
    list.sort((a, b) => (rows.startNs[a] ?? 0) - (rows.startNs[b] ?? 0));
    lanes.push({ thread, levels: levelsOf(graph, rows, list, breaks) });
  }
  return lanes;
}

function levelsOf(
  graph: RunGraph | undefined,
  rows: TimelineRows,
  order: readonly number[],
  breaks: readonly number[],
): readonly (readonly Bar[])[] {
  const phases: Bar[] = [];
  const scopes: Bar[][] = Array.from({ length: SCOPE_LEVELS }, () => []);
  const nodes: Bar[] = [];
  for (const i of order) {
    const node = graph?.nodes[rows.node[i] ?? 0];
    if (node === undefined) continue;
    const start = rows.startNs[i] ?? 0;
    const end = start + (rows.durationNs[i] ?? 0);
    const step = rows.step[i] ?? 0;
    const base = { start, end, node: 0, scope: "", phase: node.phase, step, family: node.family };
    extend(
      phases,
      { ...base, label: step > 0 ? `${node.phase}, step ${formatCount(step)}` : node.phase },
      breaks,
    );
    const parts = node.scope.split("/").filter(Boolean);
    // The outermost scope of backward and optimizer nodes only repeats the phase.
    const skip = parts[0] === node.phase ? 1 : 0;
    for (let level = 0; level < SCOPE_LEVELS; level++) {
      const label = parts[level + skip];
      if (label === undefined) continue;
      const scope = parts.slice(0, level + skip + 1).join("/");
      extend(scopes[level] ?? [], { ...base, label, scope }, breaks);
    }
    nodes.push({
      ...base,
      label: node.name.slice(node.name.lastIndexOf("/") + 1),
      node: node.id,
    });
  }
  return [phases, ...scopes.filter((level) => level.length > 0), nodes];
}

/** Lengthens the last bar if this one goes on with it, else adds it. */
function extend(bars: Bar[], bar: Bar, breaks: readonly number[]): void {
  const last = bars.at(-1);
  if (
    last !== undefined &&
    last.label === bar.label &&
    last.scope === bar.scope &&
    last.step === bar.step &&
    !breaks.some((at) => at >= last.end - 1 && at <= bar.start)
  ) {
    bars[bars.length - 1] = { ...last, end: Math.max(last.end, bar.end) };
  } else {
    bars.push(bar);
  }
}

/** Round distances between ticks: 1, 2 or 5 times a power of ten, at least `least`. */
export function tickStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5, 10]) if (power * factor >= least) return power * factor;
  return power * 10;
}
