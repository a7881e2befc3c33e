/**
 * Shapes and dtypes at the moment shown, where they differ from the current ones.
 *
 * Invariant: pure; the same moment gives the same map, so that moving between equal moments redraws
 * nothing.
 */

import type { Accessor } from "solid-js";
import type { RunGraph, RunModel } from "@/store/run/run_model";
import { sameSpec } from "@/wire/spec";
import type { ProducedValue } from "@/wire/types.gen";

export type PastValues = ReadonlyMap<number, ProducedValue>;

/** Past values that differ from the current ones; `before` itself if it is equal. */
export function reshapedValues(
  values: readonly ProducedValue[],
  now: RunModel | undefined,
  before: PastValues,
): PastValues {
  const other = values.filter(
    ({ value }) => !sameSpec(value.spec, now?.graph.values.get(value.id)?.value.spec),
  );
  const same =
    before.size === other.length &&
    other.every(({ value }) => sameSpec(value.spec, before.get(value.id)?.value.spec));
  return same ? before : new Map(other.map((slice) => [slice.value.id, slice]));
}

/** The graph with these past values. */
export function graphWith(graph: RunGraph, past: PastValues): RunGraph {
  if (past.size === 0) return graph;
  return { ...graph, values: new Map([...graph.values, ...past]), origin: undefined };
}

interface Shown {
  readonly model: Accessor<RunModel | undefined>;
  readonly cursor: Accessor<{ readonly kind: "live" | "past" }>;
  readonly pastValues: Accessor<PastValues>;
}

/** A value at the moment shown. */
export function valueShown(store: Shown, id: number): ProducedValue | undefined {
  const past = store.cursor().kind === "past" ? store.pastValues().get(id) : undefined;
  return past ?? store.model()?.graph.values.get(id);
}
