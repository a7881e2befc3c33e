/**
 * The store's graph in the canvas's form.
 *
 * Invariant: pure; the same graph gives the same model.
 */

import type { Repeats } from "@/base/repeats";
import { leafName } from "@/base/scopes";
import { familyOf } from "@/render/draw/palette";
import type { GraphModel, GraphNode, GraphValue } from "@/render/scene/types";
import { detail } from "@/store/run/node_text";
import type { RunGraph } from "@/store/run/run_model";
import type { Tree } from "@/store/run/tree";
import { specFields } from "@/wire/spec";

/**
 * The graph as it is drawn.
 *
 * Args:
 *   tree: That of the graph, for the scopes of nodes and for which of these are alike.
 *   control: Whether control edges are drawn. They always are where no value passes.
 */
export function graphModel(
  graph: RunGraph,
  tree?: Pick<Tree, "sections" | "repeats">,
  control = false,
): GraphModel {
  const ordered = control || !graph.nodes.some((node) => (node?.inputs.length ?? 0) > 0);
  const sections = tree?.sections;
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
      control: ordered ? node.control_inputs : undefined,
    });
  }
  const values = new Map<number, GraphValue>();
  for (const { value } of graph.values.values()) {
    values.set(value.id, { id: value.id, ...specFields(value.spec) });
  }
  return {
    nodes,
    values,
    version: graph.version,
    structure: structureOf(graph, sections, ordered),
    repeats: tree && drawnRepeats(tree.repeats, nodes, graph.nodes.length),
  };
}

/** The outline's repeats, with operations by their places in `nodes` instead of by id. */
function drawnRepeats(repeats: Repeats, nodes: readonly GraphNode[], ids: number): Repeats {
  const place = new Int32Array(ids).fill(-1);
  nodes.forEach(({ id }, at) => {
    place[id] = at;
  });
  return {
    ...repeats,
    operations: (member) => repeats.operations(member).map((id) => place[id] ?? -1),
  };
}

interface Structures {
  readonly divided: object;
  readonly ordered: object;
  readonly dividedAndOrdered: object;
}

const structures = new WeakMap<object, Structures>();

/** The same object for the same nodes, another one for them in sections or with control edges. */
function structureOf({ nodes }: RunGraph, sections: Tree["sections"], ordered: boolean): object {
  const divided = sections !== undefined;
  if (!divided && !ordered) return nodes;
  const known = structures.get(nodes) ?? { divided: {}, ordered: {}, dividedAndOrdered: {} };
  structures.set(nodes, known);
  if (!ordered) return known.divided;
  return divided ? known.dividedAndOrdered : known.ordered;
}
