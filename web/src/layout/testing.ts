/**
 * Nodes for tests.
 *
 * Invariant: a node has one output, whose id is `values` plus the node's id.
 */

import type { LayoutNode } from "@/layout/types";

export function plainNode(id: number, values: number) {
  return {
    id,
    label: `add_${id}`,
    op: "add",
    family: "elementwise",
    scope: "",
    phase: "forward",
    inputs: [],
    outputs: [values + id],
    detail: "",
    forward: undefined,
  } as const satisfies LayoutNode;
}
