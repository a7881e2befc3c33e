/**
 * The share of each tint in each scope.
 *
 * Invariant: pure; counted once per hierarchy and tints.
 */

import type { Hierarchy } from "@/layout/hierarchy";
import type { Token } from "@/render/draw/design_tokens";
import type { Tints } from "@/render/scene/types";

type Shares = readonly (readonly (readonly [Token, number])[])[];

const known = new WeakMap<Tints, { readonly of: Hierarchy; readonly shares: Shares }>();

/** By group index: tints with their shares of the group's tinted nodes, the largest first. */
export function tintShares(hierarchy: Hierarchy, tints: Tints): Shares {
  const cached = known.get(tints);
  if (cached?.of === hierarchy) return cached.shares;
  const counts = hierarchy.groups.map(() => new Map<Token, number>());
  hierarchy.nodes.forEach((node, index) => {
    const token = tints.get(node.id);
    if (token === undefined || node.family === "leaf") return;
    let group = hierarchy.groupOf[index]!;
    for (;;) {
      const inner = counts[group]!;
      inner.set(token, (inner.get(token) ?? 0) + 1);
      if (group === 0) return;
      group = hierarchy.groups[group]!.parent;
    }
  });
  const shares = counts.map((perKind) => {
    const total = [...perKind.values()].reduce((sum, count) => sum + count, 0);
    return [...perKind]
      .map(([token, count]) => [token, count / total] as const)
      .sort((a, b) => b[1] - a[1]);
  });
  known.set(tints, { of: hierarchy, shares });
  return shares;
}
