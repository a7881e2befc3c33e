/**
 * Roles of nodes: the only rule for those that only hold data.
 *
 * Invariant: pure; the roles are those of `Node.is_leaf` on the server's side.
 */

import type { Node } from "@/wire/types.gen";

export type Role = Node["role"];

const LEAVES: ReadonlySet<Role> = new Set<Role>(["parameter", "buffer", "input", "constant"]);

/** Whether a node only holds data and computes nothing. */
export function isLeaf(node: Pick<Node, "role">): boolean {
  return LEAVES.has(node.role);
}
