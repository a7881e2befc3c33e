/**
 * Sizes and kinds of NumPy's dtypes by name.
 *
 * Invariant: an unknown dtype counts as 8 bytes, which is shown nowhere as exact.
 */

export function itemBytes(dtype: string): number {
  if (dtype === "bool") return 1;
  const bits = /(\d+)$/.exec(dtype);
  return bits === null ? 8 : Math.max(1, Number(bits[1]) / 8);
}

export function isInteger(dtype: string): boolean {
  return /^u?int\d+$/.test(dtype);
}

export function tensorBytes(shape: readonly number[], dtype: string): number {
  return shape.reduce((total, each) => total * each, itemBytes(dtype));
}

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((total, each) => total * each, 1);
}
