/**
 * Nodes for tests of what is drawn.
 *
 * Invariant: a node's value has the id 100 more than its own.
 */

import { plainNode } from "@/layout/testing";
import type { GraphNode } from "@/render/scene/types";

export function node(id: number, over: Partial<GraphNode> = {}): GraphNode {
  return { ...plainNode(id, 100), name: `op_${id}`, ...over };
}
