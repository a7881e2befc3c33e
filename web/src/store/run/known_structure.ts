/**
 * Sections and stacks that a worker has found in graphs.
 *
 * Invariant: they are those that the page would find in the same graph.
 */

import type { Spans, Stack } from "@/base/repeats";
import { SharedTexts } from "@/base/shared_texts";
import type { RunGraph } from "@/store/run/run_model";
import { identityOf } from "@/wire/graph_columns";
import type { NodeColumns } from "@/wire/types.gen";

export interface KnownStructure {
  readonly sections: readonly (string | undefined)[] | undefined;
  readonly stacks: readonly Stack[];
  /** Operations by id. */
  readonly spans: Spans;
}

/** Structures by the identity of the columns. */
const known = new WeakMap<object, KnownStructure>();

/** Args: columns: The node columns that the graph is made from. */
export function know(columns: NodeColumns, structure: KnownStructure): void {
  const paths = new SharedTexts(columns.scope.texts);
  const stacks = structure.stacks.map((stack) => ({
    ...stack,
    members: stack.members.map((path) => paths.of(path)),
  }));
  known.set(identityOf(columns), { ...structure, stacks });
}

export function knownOf({ origin }: Pick<RunGraph, "origin">): KnownStructure | undefined {
  return origin === undefined ? undefined : known.get(origin);
}
