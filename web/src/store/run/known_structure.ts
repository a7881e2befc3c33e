/**
 * Sections and stacks of graphs that a worker has looked at.
 *
 * Invariant: the same as the page would find in the same graph.
 */

import type { Stack } from "@/base/repeats";
import type { RunGraph } from "@/store/run/run_model";

export interface KnownStructure {
  readonly sections: readonly (string | undefined)[] | undefined;
  readonly stacks: readonly Stack[];
}

/** By the columns that the graph is made from. */
const known = new WeakMap<object, KnownStructure>();

export function know(origin: object, structure: KnownStructure): void {
  known.set(origin, structure);
}

export function knownOf({ origin }: RunGraph): KnownStructure | undefined {
  return origin === undefined ? undefined : known.get(origin);
}
