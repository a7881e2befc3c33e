/**
 * Sizes and kinds of NumPy's dtypes by name.
 *
 * Invariant: an element of an unknown dtype counts as 0 bytes, so that no wrong size is shown.
 */

/** The number of bits in a name such as `int32`, `bfloat16` or `float8_e4m3fn`. */
const BITS = /^[a-z]+(\d+)/;

export function itemBytes(dtype: string): number {
  if (dtype === "bool") return 1;
  const bits = BITS.exec(dtype);
  return bits === null ? 0 : Math.max(1, Number(bits[1]) / 8);
}

export function isInteger(dtype: string): boolean {
  return /^u?int\d+$/.test(dtype);
}

/** Elements along an axis; null if the framework does not know. */
export type Size = number | null;

/** The size of a tensor in bytes; a lower bound if a length or the dtype is unknown. */
export function tensorBytes(shape: readonly Size[], dtype: string): number {
  return elementCount(shape) * itemBytes(dtype);
}

/** The number of elements; an unknown size counts as 1. */
export function elementCount(shape: readonly Size[]): number {
  return shape.reduce<number>((total, size) => total * (size ?? 1), 1);
}
