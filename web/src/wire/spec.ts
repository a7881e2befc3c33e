/**
 * The spec of a value: a tensor, possibly with unknown sizes, or something else altogether.
 *
 * Invariant: pure; unknown sizes are never given as a number.
 */

import { type Size, tensorBytes } from "@/base/dtypes";
import type { OpaqueSpec, TensorSpec } from "@/wire/types.gen";

export type Spec = TensorSpec | OpaqueSpec;

const SCALAR: readonly Size[] = [];

/** A tensor's shape; empty for a value that is not a tensor. */
export function shapeOf(spec: Spec | null | undefined): readonly Size[] | undefined {
  if (spec === null || spec === undefined) return undefined;
  return spec.kind === "tensor" ? spec.shape : SCALAR;
}

/** A tensor's dtype, or the class of any other value. */
export function typeOf(spec: Spec | null | undefined): string {
  if (spec === null || spec === undefined) return "";
  return spec.kind === "tensor" ? spec.dtype : spec.type;
}

/** The picture's data for a value: `type` if it is not a tensor, and the lower bound `bytes`. */
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
