/**
 * Numbers of nodes as colours; the number of a folded scope is joined from those of its nodes.
 *
 * Invariant: pure; joined once per hierarchy and set of numbers, in time linear in the nodes.
 */

import type { Hierarchy } from "@/layout/hierarchy";
import { heat } from "@/render/draw/execution_overlay";
import { type Palette, sequential } from "@/render/draw/palette";
import type { Amounts } from "@/render/scene/types";

const known = new WeakMap<Amounts, { readonly of: Hierarchy; readonly groups: Float64Array }>();

/** By group index; NaN where nothing inside has a number. */
export function groupAmounts(hierarchy: Hierarchy, amounts: Amounts): Float64Array {
  const cached = known.get(amounts);
  if (cached?.of === hierarchy) return cached.groups;
  const count = hierarchy.groups.length;
  const sums = new Float64Array(count);
  const weights = new Float64Array(count);
  const largest = new Float64Array(count).fill(Number.NEGATIVE_INFINITY);
  hierarchy.nodes.forEach(({ id }, index) => {
    const value = amounts.values.get(id);
    if (value === undefined || Number.isNaN(value)) return;
    const group = hierarchy.groupOf[index]!;
    const weight = amounts.weights?.get(id) ?? 1;
    sums[group]! += amounts.join === "norm" ? value * value : value * weight;
    weights[group]! += weight;
    largest[group] = Math.max(largest[group]!, value);
  });
  for (let group = count - 1; group > 0; group--) {
    const { parent } = hierarchy.groups[group]!;
    sums[parent]! += sums[group]!;
    weights[parent]! += weights[group]!;
    largest[parent] = Math.max(largest[parent]!, largest[group]!);
  }
  const groups = sums.map((sum, group) => {
    if (largest[group] === Number.NEGATIVE_INFINITY) return Number.NaN;
    if (amounts.join === "norm") return Math.sqrt(sum);
    if (amounts.join === "sum") return sum;
    return amounts.join === "mean" ? sum / weights[group]! : largest[group]!;
  });
  known.set(amounts, { of: hierarchy, groups });
  return groups;
}

/** The colour of a number; `text-off` if there is none. */
export function amountColour(
  palette: Palette,
  amounts: Amounts,
  value: number | undefined,
): string {
  if (value === undefined || Number.isNaN(value)) return palette["text-off"];
  const own = amounts.colour?.(value);
  if (own !== undefined) return own;
  const { least, most } = amounts;
  const share =
    least === undefined ? heat(value, most) : most > least ? (value - least) / (most - least) : 0;
  return share === undefined ? palette["text-off"] : sequential(palette, share);
}
