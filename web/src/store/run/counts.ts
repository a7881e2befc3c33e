/**
 * Counts on the page: one definition for graph, outline, inspector and bars.
 *
 * - An *operation* is a node that computes. Parameters, inputs and constants are nodes, but not
 *   operations: they only hold data.
 * - The operations *of a scope* are those in it and in all scopes inside of it.
 * - A node *ran*, or is *done*, if it was executed in the training step shown, up to the moment
 *   shown; where that step ran unobserved, in the last one that was observed (`seenStep`).
 *   A node that only holds data is done once its data exists, whatever the step.
 * - The *time* of a scope is the sum of its operations' last executions.
 * - A node *is not finite* if it is done and its outputs then held NaN or Inf.
 * - *Problems* count nodes over the whole recording; *hits* count how often everything that a
 *   breakpoint requires was true. These come from the server and the session.
 *
 * The graph's layout and drawing count in their own indices (`layout/hierarchy.ts`,
 * `render/draw/execution_overlay.ts`); a test checks them against these definitions.
 *
 * Invariant: pure.
 */

import { plural } from "@/base/numbers";
import type { NodeColumns } from "@/store/run/columns";
import type { RunGraph } from "@/store/run/run_model";
import { isLeaf } from "@/wire/roles";
import { HAS_INF, HAS_NAN, type Node } from "@/wire/types.gen";

export function isOperation(node: Pick<Node, "role"> | undefined): boolean {
  return node !== undefined && !isLeaf(node);
}

export function isDone(node: Node | undefined, columns: NodeColumns, step: number): boolean {
  if (node === undefined || (columns.times[node.id] ?? 0) === 0) return false;
  return !isOperation(node) || (columns.step[node.id] ?? 0) >= step;
}

/** Flags of the execution shown; 0 for a node that has not run in this step. */
export function flagsOf(node: Node | undefined, columns: NodeColumns, step: number): number {
  return node !== undefined && isDone(node, columns, step) ? (columns.flags[node.id] ?? 0) : 0;
}

export interface FamilyCount {
  readonly family: string;
  readonly operations: number;
  readonly ns: number;
}

export interface ScopeCounts {
  /** Ids of the operations. */
  readonly operations: readonly number[];
  readonly ran: number;
  readonly ns: number;
  /** Sorted, slowest first. */
  readonly families: readonly FamilyCount[];
}

/** Args: members: all nodes in a scope and in scopes inside it. */
export function scopeCounts(
  graph: RunGraph | undefined,
  members: readonly number[],
  columns: NodeColumns,
  step: number,
): ScopeCounts {
  const families = new Map<string, { family: string; operations: number; ns: number }>();
  const operations: number[] = [];
  let ns = 0;
  let ran = 0;
  for (const id of members) {
    const node = graph?.nodes[id];
    if (node === undefined || !isOperation(node)) continue;
    const time = columns.durationNs[id] ?? 0;
    const { family } = node;
    let count = families.get(family);
    if (count === undefined) {
      count = { family, operations: 0, ns: 0 };
      families.set(family, count);
    }
    count.operations += 1;
    count.ns += time;
    operations.push(id);
    ns += time;
    if (isDone(node, columns, step)) ran += 1;
  }
  return { operations, ran, ns, families: [...families.values()].sort((a, b) => b.ns - a.ns) };
}

export function operationsOf(graph: RunGraph | undefined): number {
  let count = 0;
  graph?.nodes.forEach((node) => {
    if (isOperation(node)) count += 1;
  });
  return count;
}

/** The tooltip of a count of operations, which says what is counted. */
export function operationsCounted(count: number): string {
  return `${plural(count, "operation")}; parameters, inputs and constants are not counted`;
}

/** The numbers of nodes with NaN and with Inf. */
export function notFinite(
  graph: RunGraph | undefined,
  columns: NodeColumns,
  step: number,
): { readonly nan: number; readonly inf: number } {
  let nan = 0;
  let inf = 0;
  for (const node of graph?.nodes ?? []) {
    const flags = flagsOf(node, columns, step);
    if ((flags & HAS_NAN) !== 0) nan += 1;
    if ((flags & HAS_INF) !== 0) inf += 1;
  }
  return { nan, inf };
}
