/**
 * Folding of vectors for display in a plane: a long row of elements becomes rows of equal length.
 *
 * Invariant: element k is in row `k / columns`, column `k % columns`; nothing is left out.
 */

/** Up to this many elements stay in one row. */
const ONE_ROW = 16;

/** Columns for `count` elements: close to a square, and a divisor if one is close. */
export function foldColumns(count: number): number {
  if (count <= ONE_ROW) return Math.max(1, count);
  const root = Math.ceil(Math.sqrt(count));
  for (let columns = root; columns <= 2 * root; columns++) {
    if (count % columns === 0) return columns;
  }
  return root;
}

export interface Plane {
  readonly rows: number;
  readonly cols: number;
}

/** The plane in which a window of elements is drawn: its own, or a vector's folded one. */
export function shownPlane(rows: number, cols: number): Plane {
  if (rows !== 1 && cols !== 1) return { rows, cols };
  const count = rows * cols;
  const columns = foldColumns(count);
  return { rows: Math.ceil(count / columns), cols: columns };
}
