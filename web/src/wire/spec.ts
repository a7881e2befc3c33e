/**
 * What a value is: a tensor, some sizes of which may be unknown, or something else altogether.
 *
 * Invariant: pure; what is unknown is never told as a number.
 */

import { type Size, tensorBytes } from "@/base/dtypes";
import type { OpaqueSpec, TensorSpec } from "@/wire/types.gen";

export type Spec = TensorSpec | OpaqueSpec;

const SCALAR: readonly Size[] = [];

/** A tensor's shape; of a value that is no tensor, none. */
export function shapeOf(spec: Spec | null | undefined): readonly Size[] | undefined {
  if (spec === null || spec === undefined) return undefined;
  return spec.kind === "tensor" ? spec.shape : SCALAR;
}

/** A tensor's dtype, or the class of what is none. */
export function typeOf(spec: Spec | null | undefined): string {
  if (spec === null || spec === undefined) return "";
  return spec.kind === "tensor" ? spec.dtype : spec.type;
}

/** What a picture of the graph shows of a value: `type` of what is no tensor, the least `bytes`. */
export function specFields(spec: Spec): {
  readonly shape: readonly Size[];
  readonly dtype: string;
  readonly bytes: number;
  readonly type: string | undefined;
} {
  if (spec.kind === "opaque") {
    return { shape: SCALAR, dtype: spec.type, bytes: spec.nbytes ?? 0, type: spec.type };
  }
  const { shape, dtype } = spec;
  return { shape, dtype, bytes: tensorBytes(shape, dtype), type: undefined };
}

export function sameSpec(a: Spec, b: Spec | undefined): boolean {
  return (
    b !== undefined &&
    a.kind === b.kind &&
    typeOf(a) === typeOf(b) &&
    shapeOf(a)?.join() === shapeOf(b)?.join()
  );
}
