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
import type { Tree } from "@/store/run/tree";
import { specFields } from "@/wire/spec";

/** Args: sections: The scopes of nodes, by id, where they are not their own. */
export function graphModel(graph: RunGraph, sections?: Tree["sections"]): GraphModel {
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
      scope: sections?.[node.id] ?? node.scope,
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
  return { nodes, values, version: graph.version, structure: structureOf(graph, sections) };
}

const divided = new WeakMap<object, object>();

/** The same object for the same nodes, another one for them in sections. */
function structureOf({ nodes }: RunGraph, sections: Tree["sections"]): object {
  if (sections === undefined) return nodes;
  const known = divided.get(nodes) ?? {};
  divided.set(nodes, known);
  return known;
}
