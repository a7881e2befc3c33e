/**
 * The changes that a step made to the graph: new nodes, nodes redefined with other inputs and, once
 * it is over, nodes of earlier steps that did not run in it.
 *
 * Invariant: pure. Parameters and constants do not count as changes, and nodes that run between
 * steps, such as in an evaluation, are not considered skipped. The first step, in which everything
 * is new, has no changes.
 */

import { ancestors } from "@/base/scopes";
import { type Rewiring, rewiringsIn, same } from "@/store/run/graph_history";
import type { RunGraph } from "@/store/run/run_model";
import { stepAt } from "@/store/run/run_model";
import type { Executions } from "@/wire/decode";
import { isLeaf } from "@/wire/roles";
import type { StepRow } from "@/wire/types.gen";

export const CHANGE_KINDS = ["new", "rewired", "skipped"] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

export interface StepChanges {
  readonly step: number;
  readonly marks: ReadonlyMap<number, ChangeKind>;
  readonly rewired: ReadonlyMap<number, Rewiring>;
  readonly counts: Readonly<Record<ChangeKind, number>>;
  /** False until the server has reported what ran in the step: `skipped` is not complete yet. */
  readonly complete: boolean;
}

/** Nodes whose last run, at the end of a step, was in it or in the previous one. */
export interface RanIn {
  readonly now: ReadonlySet<number>;
  readonly before: ReadonlySet<number>;
}

/** From the latest execution of each node at the end of `step`. */
export function ranIn(rows: Executions, step: number): RanIn {
  const now = new Set<number>();
  const before = new Set<number>();
  for (let i = 0; i < rows.count; i++) {
    const at = rows.step[i];
    if (at === step) now.add(rows.node[i] ?? 0);
    else if (at === step - 1) before.add(rows.node[i] ?? 0);
  }
  return { now, before };
}

/**
 * The step whose changes are shown: that of the moment, or the previous one while it has none.
 * Undefined if they are unknown, as for a step whose rewirings are no longer kept.
 */
export function subjectStep(
  graph: RunGraph,
  steps: readonly StepRow[],
  step: number,
  past: boolean,
): StepRow | undefined {
  const index = steps.findLastIndex((row) => row.step === step);
  const row = steps[index];
  if (row === undefined) return undefined;
  let subject = index;
  if (!past && row.end_seq === null) {
    const { counts } = changesOf(graph, steps, row, undefined);
    if (index === 0 || counts.new + counts.rewired === 0) subject = index - 1;
  }
  const subjectStep = subject > 0 ? steps[subject] : undefined;
  return subjectStep === undefined || subjectStep.start_seq < graph.history.since
    ? undefined
    : subjectStep;
}

/**
 * Without `ran`, nothing counts as skipped: the step is not over, or its end is not known yet. In
 * an unobserved step, nothing counts as skipped either.
 */
export function changesOf(
  graph: RunGraph,
  steps: readonly StepRow[],
  row: StepRow,
  ran: RanIn | undefined,
): StepChanges {
  const marks = new Map<number, ChangeKind>();
  const counts = { new: 0, rewired: 0, skipped: 0 };
  const next = endOf(steps, row);
  const { history } = graph;
  const expected = inSteps(steps);
  for (const node of graph.nodes) {
    if (node === undefined || isLeaf(node)) continue;
    const met = history.met[node.id] ?? 0;
    if (met >= next) continue;
    if (met >= row.start_seq) {
      marks.set(node.id, "new");
      counts.new += 1;
    } else if (row.observed && ran !== undefined && !ran.now.has(node.id) && expected(met)) {
      marks.set(node.id, "skipped");
      counts.skipped += 1;
    }
  }
  const rewired = new Map<number, Rewiring>();
  for (const rewiring of rewiringsIn(history, row.start_seq, next)) {
    if (marks.get(rewiring.node) === "new") continue;
    const first = rewired.get(rewiring.node);
    rewired.set(
      rewiring.node,
      first === undefined ? rewiring : { ...rewiring, before: first.before },
    );
  }
  for (const [node, rewiring] of rewired) {
    if (same(rewiring.before, rewiring.after)) rewired.delete(node);
    else marks.set(node, "rewired");
  }
  counts.rewired = rewired.size;
  const complete = row.end_seq === null || ran !== undefined;
  return { step: row.step, marks, rewired, counts, complete };
}

/** Whether there is anything to report: nodes also skipped in the previous step are not news. */
export function isNews(changes: StepChanges, ran: RanIn | undefined): boolean {
  if (changes.counts.new + changes.counts.rewired > 0) return true;
  if (ran === undefined) return false;
  for (const [node, kind] of changes.marks) {
    if (kind === "skipped" && ran.before.has(node)) return true;
  }
  return false;
}

/** Tells whether a seq lies within a step, rather than between two. */
function inSteps(steps: readonly StepRow[]): (seq: number) => boolean {
  // Consecutive nodes mostly belong to one step, so the last row is kept to save look-ups.
  let row: StepRow | undefined;
  let until = -1;
  return (seq) => {
    if (row === undefined || seq < row.start_seq || seq >= until) {
      row = stepAt(steps, seq);
      until = row === undefined ? (steps[0]?.start_seq ?? 0) : endOf(steps, row);
    }
    return row !== undefined && (row.end_seq === null || seq <= row.end_seq);
  };
}

/** Anything that runs after a step belongs to it until the next begins. */
function endOf(steps: readonly StepRow[], row: StepRow): number {
  return steps[steps.indexOf(row) + 1]?.start_seq ?? Number.POSITIVE_INFINITY;
}

export type ScopeCounts = Readonly<Record<ChangeKind, number>>;

/** Changes by scope, including everything inside. */
export function countsByScope(
  graph: RunGraph,
  changes: StepChanges,
): ReadonlyMap<string, ScopeCounts> {
  const countsOf = new Map<string, Record<ChangeKind, number>>();
  for (const [node, kind] of changes.marks) {
    for (const path of ancestors(graph.nodes[node]?.scope ?? "")) {
      const counts = countsOf.get(path) ?? { new: 0, rewired: 0, skipped: 0 };
      counts[kind] += 1;
      countsOf.set(path, counts);
    }
  }
  return countsOf;
}
