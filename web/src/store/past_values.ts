/**
 * Shapes and dtypes of the moment shown, where they are not what they are now.
 *
 * Invariant: pure; the same moment gives the same map, so that moving through moments that look alike
 * draws nothing again.
 */

import type { RunGraph, RunModel } from "@/store/run_model";
import type { ProducedValue, TensorSpec } from "@/wire/types.gen";

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
  return same ? before : new Map(other.map((each) => [each.value.id, each]));
}

/** The graph with these values as they were. */
export function graphWith(graph: RunGraph, past: PastValues): RunGraph {
  return past.size === 0 ? graph : { ...graph, values: new Map([...graph.values, ...past]) };
}

function sameSpec(a: TensorSpec, b: TensorSpec | undefined): boolean {
  return b !== undefined && a.dtype === b.dtype && a.shape.join() === b.shape.join();
}
