/**
 * Progress of the step shown: operations that ran, by phase.
 *
 * Invariant: pure; counts from the columns, so that live and past are counted alike.
 */

import type { NodeColumns } from "@/store/run/columns";
import { isDone, isOperation, operationsOf } from "@/store/run/counts";
import type { RunGraph } from "@/store/run/run_model";
import type { Phase } from "@/wire/types.gen";
import { PHASES } from "@/wire/types.gen";

export interface PhaseProgress {
  readonly phase: Phase;
  readonly total: number;
  readonly done: number;
}

export interface Progress {
  readonly total: number;
  readonly done: number;
  /** Phases in the graph, in order. */
  readonly phases: readonly PhaseProgress[];
}

export function progressOf(graph: RunGraph, columns: NodeColumns, step: number): Progress {
  const total = new Map<Phase, number>();
  const done = new Map<Phase, number>();
  let all = 0;
  for (const node of graph.nodes) {
    if (node === undefined || !isOperation(node)) continue;
    total.set(node.phase, (total.get(node.phase) ?? 0) + 1);
    if (isDone(node, columns, step)) {
      done.set(node.phase, (done.get(node.phase) ?? 0) + 1);
      all += 1;
    }
  }
  const phases = PHASES.filter((phase) => total.has(phase)).map((phase) => ({
    phase,
    total: total.get(phase) ?? 0,
    done: done.get(phase) ?? 0,
  }));
  return { total: operationsOf(graph), done: all, phases };
}
