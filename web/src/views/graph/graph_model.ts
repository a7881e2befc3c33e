/**
 * The store's graph in the canvas's form.
 *
 * Invariant: pure; the same graph gives the same model.
 */

import { Mapped } from "@/base/by_id";
import type { Family } from "@/base/families";
import type { Repeats } from "@/base/repeats";
import { leafName } from "@/base/scopes";
import { familyOf } from "@/render/draw/palette";
import type { GraphModel, GraphNode, GraphValue, Phase } from "@/render/scene/types";
import { detail } from "@/store/run/node_text";
import type { RunGraph } from "@/store/run/run_model";
import type { GraphStructure, Tree } from "@/store/run/tree";
import { specFields } from "@/wire/spec";
import type { Node } from "@/wire/types.gen";

/**
 * The graph as it is drawn.
 *
 * Args:
 *   tree: The tree of the graph, for the scopes of nodes and the stacks of repeated scopes.
 *   control: Whether control edges are drawn. In a graph without values, they always are.
 */
export function graphModel(graph: RunGraph, tree?: GraphStructure, control = false): GraphModel {
  const ordered = control || !graph.nodes.some((node) => (node?.inputs.length ?? 0) > 0);
  const sections = tree?.sections;
  const drawing = new Drawing(sections, ordered);
  const nodes: GraphNode[] = [];
  for (const node of graph.nodes) {
    if (node !== undefined) nodes.push(new DrawnNode(node, drawing));
  }
  return {
    nodes,
    values: new Mapped(
      graph.values,
      ({ value }): GraphValue => ({ id: value.id, ...specFields(value.spec) }),
    ),
    version: graph.version,
    structure: structureOf(graph, sections, ordered),
    // The prepared graph has sections, and control edges only if it has no values.
    origin: control || !tree?.sectioned ? undefined : graph.origin,
    repeats: tree && drawnRepeats(tree.repeats, nodes, graph.nodes.length),
  };
}

/** What the nodes of one drawn graph have in common. */
class Drawing {
  private readonly details = new WeakMap<object, string>();

  constructor(
    readonly sections: Tree["sections"],
    readonly ordered: boolean,
  ) {}

  /** Similar nodes share their `attrs` object, so its text is made once. */
  detailOf(node: Node): string {
    const { attrs } = node;
    const line = this.details.get(attrs) ?? detail(node);
    this.details.set(attrs, line);
    return line;
  }
}

/** Reads the store's node instead of copying it; texts are made on use, as few are needed. */
class DrawnNode implements GraphNode {
  constructor(
    private readonly node: Node,
    private readonly drawing: Drawing,
  ) {}

  get id(): number {
    return this.node.id;
  }

  get name(): string {
    return this.node.name;
  }

  get label(): string {
    return leafName(this.node.name);
  }

  get scope(): string {
    return this.drawing.sections?.[this.node.id] ?? this.node.scope;
  }

  get detail(): string {
    return this.drawing.detailOf(this.node);
  }

  get op(): string {
    return this.node.op;
  }

  get family(): Family {
    return familyOf(this.node);
  }

  get role(): string {
    return this.node.role;
  }

  get phase(): Phase {
    return this.node.phase;
  }

  get inputs(): readonly number[] {
    return this.node.inputs;
  }

  get outputs(): readonly number[] {
    return this.node.outputs;
  }

  get forward(): number | undefined {
    return this.node.forward ?? undefined;
  }

  get control(): readonly number[] | undefined {
    return this.drawing.ordered ? this.node.control_inputs : undefined;
  }
}

/** The outline's repeats, with operations by their indices in `nodes` instead of their ids. */
export function drawnRepeats(
  repeats: Repeats,
  nodes: readonly Pick<GraphNode, "id">[],
  ids: number,
): Repeats {
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

/** The identity of a structure: one object for the same nodes, divided and ordered alike. */
function structureOf({ nodes }: RunGraph, sections: Tree["sections"], ordered: boolean): object {
  const divided = sections !== undefined;
  if (!divided && !ordered) return nodes;
  const known = structures.get(nodes) ?? { divided: {}, ordered: {}, dividedAndOrdered: {} };
  structures.set(nodes, known);
  if (!ordered) return known.divided;
  return divided ? known.dividedAndOrdered : known.ordered;
}
