/**
 * Overlays: numbers of nodes by which the graph is coloured, and how to put them into words.
 *
 * Invariant: pure; a new overlay is a file that makes it, and a row in `kinds.ts`.
 */

import type { Amounts as NodeAmounts } from "@/base/amounts";
import type { NodeColumns } from "@/store/run/columns";
import type { RunModel } from "@/store/run/run_model";
import { idsOf, numbersOf } from "@/wire/decode";
import type { Statistics } from "@/wire/types.gen";

/** The numbers in the form that the canvas takes. */
export type Numbers = NodeAmounts;

export interface NumberOverlay {
  readonly title: string;
  readonly numbers: Numbers;
  /** How the number of a folded scope is made, in words. */
  readonly folded: string;
  /** What is missing, or "". */
  readonly note: string;
  format(value: number): string;
  /** More about a node. */
  words?(node: number): string;
}

/** What overlays are made from: the run at the moment shown. */
export interface Moment {
  readonly model: RunModel;
  readonly columns: NodeColumns;
  readonly seq: number | undefined;
  /** Statistics by value id, for overlays that request them; `note` says what is missing. */
  readonly rows: Rows;
  readonly note: string;
}

export interface StatisticsRow {
  readonly elements: number;
  readonly zeros: number;
  readonly norm: number;
}

export type Rows = ReadonlyMap<number, StatisticsRow>;
export const NO_ROWS: Rows = new Map();

export function rowsOf({ count, values, elements, zeros, norms }: Statistics): Rows {
  const ids = idsOf(values, count);
  const columns = [elements, zeros, norms].map((column) => numbersOf(column, count));
  const rows = new Map<number, StatisticsRow>();
  ids.forEach((id, row) => {
    const [all = 0, none = 0, norm = Number.NaN] = columns.map((column) => column[row] ?? 0);
    rows.set(id, { elements: all, zeros: none, norm });
  });
  return rows;
}

/** The number of a scope, joined from its members as on the canvas. */
export function joined(
  { values, weights, join }: Numbers,
  members: readonly number[],
): number | undefined {
  let [sum, weight, largest] = [0, 0, Number.NEGATIVE_INFINITY];
  for (const id of members) {
    const value = values.get(id);
    if (value === undefined || Number.isNaN(value)) continue;
    const share = weights?.get(id) ?? 1;
    sum += join === "norm" ? value * value : value * share;
    weight += share;
    largest = Math.max(largest, value);
  }
  if (largest === Number.NEGATIVE_INFINITY) return undefined;
  if (join === "norm") return Math.sqrt(sum);
  if (join === "sum") return sum;
  return join === "mean" ? sum / weight : largest;
}
