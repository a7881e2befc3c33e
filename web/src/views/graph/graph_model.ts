/**
 * The store's graph in the canvas's form.
 *
 * Invariant: pure; the same graph gives the same model.
 */

import { leafName } from "@/base/scopes";
import { familyOf } from "@/render/draw/palette";
import type { GraphModel, GraphNode, GraphValue } from "@/render/scene/types";
import { detail } from "@/store/run/node_text";
import type { RunGraph } from "@/store/run/run_model";
import { specFields } from "@/wire/spec";

export function graphModel(graph: RunGraph): GraphModel {
  const nodes: GraphNode[] = [];
  for (const node of graph.nodes) {
    if (node === undefined) continue;
    nodes.push({
      id: node.id,
      name: node.name,
      label: leafName(node.name),
      op: node.op,
      family: familyOf(node),
      role: node.role,
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
    values.set(value.id, { id: value.id, ...specFields(value.spec) });
  }
  return { nodes, values, version: graph.version, structure: graph.nodes };
}
