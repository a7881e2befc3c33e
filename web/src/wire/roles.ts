/**
 * Roles of nodes: the single rule for which nodes only hold data.
 *
 * Invariant: pure; the roles of leaves are those of `Node.is_leaf` on the server's side.
 */

import type { Node } from "@/wire/types.gen";

export type Role = Node["role"];

/** Whether a node only holds data and computes nothing. */
export function isLeaf({ role }: Pick<Node, "role">): boolean {
  return role === "parameter" || role === "buffer" || role === "input" || role === "constant";
}
