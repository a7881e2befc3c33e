/**
 * Short lists of numbers out of long columns.
 *
 * Invariant: a list has no spare capacity. A list that grows by `push` has room for 17 numbers,
 * which in a large graph is most of the page's memory.
 */

export function numberList(items: ArrayLike<number>, from: number, to: number): number[] {
  switch (to - from) {
    case 1:
      return [items[from] ?? 0];
    case 2:
      return [items[from] ?? 0, items[from + 1] ?? 0];
    case 3:
      return [items[from] ?? 0, items[from + 1] ?? 0, items[from + 2] ?? 0];
    default:
      return longList(items, from, to);
  }
}

function longList(items: ArrayLike<number>, from: number, to: number): number[] {
  const list: number[] = [];
  for (let at = from; at < to; at++) list.push(items[at] ?? 0);
  return list.slice();
}
