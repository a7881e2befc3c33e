/**
 * Shapes and dtypes of the moment shown, where they are not what they are now.
 *
 * Invariant: pure; the same moment gives the same map, so that moving through moments that look alike
 * draws nothing again.
 */

import type { Accessor } from "solid-js";
import type { RunGraph, RunModel } from "@/store/run/run_model";
import { sameSpec } from "@/wire/spec";
import type { ProducedValue } from "@/wire/types.gen";

export type PastValues = ReadonlyMap<number, ProducedValue>;

/** Of values as they were, those that are otherwise now; `before` itself where it says the same. */
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

/** The graph with these values as they were. */
export function graphWith(graph: RunGraph, past: PastValues): RunGraph {
  return past.size === 0 ? graph : { ...graph, values: new Map([...graph.values, ...past]) };
}

interface Shown {
  readonly model: Accessor<RunModel | undefined>;
  readonly cursor: Accessor<{ readonly kind: "live" | "past" }>;
  readonly pastValues: Accessor<PastValues>;
}

/** A value as it is at the moment shown. */
export function valueShown(store: Shown, id: number): ProducedValue | undefined {
  const past = store.cursor().kind === "past" ? store.pastValues().get(id) : undefined;
  return past ?? store.model()?.graph.values.get(id);
}
