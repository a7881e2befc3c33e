/**
 * The store's graph in the canvas's words.
 *
 * Invariant: pure; the same graph gives the same model.
 */

import { tensorBytes } from "@/base/dtypes";
import { leafName } from "@/base/scopes";
import { familyOf } from "@/render/palette";
import type { GraphModel, GraphNode, GraphValue } from "@/render/types";
import { detail } from "@/store/node_words";
import type { RunGraph } from "@/store/run_model";

export function graphModel(graph: RunGraph): GraphModel {
  const nodes: GraphNode[] = [];
  for (const node of graph.nodes) {
    if (node === undefined) continue;
    nodes.push({
      id: node.id,
      name: node.name,
      label: leafName(node.name),
      op: node.op,
      family: familyOf(node.family),
      scope: node.scope,
      phase: node.phase,
      inputs: node.inputs,
      outputs: node.outputs,
      detail: detail(node),
      forward: node.forward ?? undefined,
      control: node.control_inputs,
    });
  }
  const values = new Map<number, GraphValue>();
  for (const { value } of graph.values.values()) {
    const { shape, dtype } = value.spec;
    values.set(value.id, { id: value.id, shape, dtype, bytes: tensorBytes(shape, dtype) });
  }
  return { nodes, values, version: graph.version, structure: graph.nodes };
}
