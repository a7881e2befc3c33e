/**
 * A snapshot's graph as the page draws it at first.
 *
 * Invariant: structure and hierarchy are those that the page makes from the same snapshot, node by
 * node and group by group; nodes and values have only what the layout needs.
 */

import { leafName } from "@/base/scopes";
import { buildHierarchy, type Hierarchy } from "@/layout/hierarchy";
import type { LayoutNode, LayoutValue } from "@/layout/types";
import { familyOf } from "@/render/draw/palette";
import type { KnownStructure } from "@/store/run/known_structure";
import { detail } from "@/store/run/node_text";
import { type GraphStructure, structureOf } from "@/store/run/tree";
import { drawnRepeats } from "@/views/graph/graph_model";
import { drawnColumns, madeOfSpecs } from "@/wire/graph_columns";
import { specFields } from "@/wire/spec";
import type { Node, NodeColumns, Snapshot } from "@/wire/types.gen";

/** The properties that nodes of one kind share. */
interface Kind {
  readonly op: string;
  readonly role: Node["role"];
  readonly phase: string;
  /** The op's own family until the structure is known, then the family that is drawn. */
  family: string;
}

/** The columns of a graph, and what is decided for all of its nodes. */
interface FirstGraph extends ReturnType<typeof columnsOf> {
  /** The scopes by id, once they are known to differ from the nodes' own. */
  sections: GraphStructure["sections"];
  /** Whether control edges are drawn. */
  ordered: boolean;
}

/** A node, at first with its own scope, family and control edges, and in the end as it is drawn. */
class FirstNode implements LayoutNode {
  constructor(
    private readonly graph: FirstGraph,
    private readonly row: number,
  ) {}

  get id(): number {
    return this.graph.id[this.row] ?? 0;
  }

  get label(): string {
    return this.graph.name(this.row);
  }

  get detail(): string {
    return this.graph.attrs(this.row);
  }

  get scope(): string {
    return this.graph.sections?.[this.id] ?? this.graph.scope(this.row);
  }

  get inputs(): readonly number[] {
    return this.graph.inputs(this.row);
  }

  get outputs(): readonly number[] {
    return this.graph.outputs(this.row);
  }

  get forward(): number | undefined {
    return this.graph.forward[this.row] || undefined;
  }

  get control(): readonly number[] | undefined {
    return this.graph.ordered ? this.graph.controlInputs(this.row) : undefined;
  }

  get op(): string {
    return this.graph.kind(this.row).op;
  }

  get role(): Node["role"] {
    return this.graph.kind(this.row).role;
  }

  get phase(): string {
    return this.graph.kind(this.row).phase;
  }

  get family(): string {
    return this.graph.kind(this.row).family;
  }
}

/** A graph whose columns are read, so that the snapshot is no longer needed. */
export interface Read {
  readonly graph: FirstGraph;
  readonly kinds: readonly Kind[];
  readonly values: ReadonlyMap<number, LayoutValue>;
}

export interface LookedAt extends Read {
  /** By id. */
  readonly nodes: readonly (FirstNode | undefined)[];
  readonly structure: GraphStructure;
  /** The structure as plain data. */
  readonly known: KnownStructure;
}

function columnsOf(columns: NodeColumns, kinds: readonly Kind[]) {
  return drawnColumns(columns, {
    kinds,
    name: leafName,
    attrs: (settings) => detail({ attrs: settings }),
  });
}

export function read({ nodes, values }: Pick<Snapshot, "nodes" | "values">): Read {
  const kinds = nodes.kinds.map(({ op, role, phase, family }) => ({ op, role, phase, family }));
  return {
    graph: { ...columnsOf(nodes, kinds), sections: undefined, ordered: true },
    kinds,
    values: madeOfSpecs(values, (id, spec): LayoutValue => ({ id, ...specFields(spec) })),
  };
}

export function lookedAt(given: Read): LookedAt {
  const { graph } = given;
  const nodes: (FirstNode | undefined)[] = [];
  for (let row = 0; row < graph.count; row++) {
    const node = new FirstNode(graph, row);
    nodes[node.id] = node;
  }
  const structure = structureOf({ nodes });
  const { sections, repeats } = structure;
  return {
    ...given,
    nodes,
    structure,
    known: { sections, stacks: repeats.stacks, spans: repeats.spans() },
  };
}

export function hierarchyOf({ graph, nodes, kinds, values, structure }: LookedAt): Hierarchy {
  graph.sections = structure.sections;
  // Control edges are drawn only in a graph without values.
  graph.ordered = !nodes.some((node) => node !== undefined && node.inputs.length > 0);
  for (const kind of kinds) kind.family = familyOf(kind);
  const laidOut = nodes.filter((node) => node !== undefined);
  return buildHierarchy(laidOut, values, drawnRepeats(structure.repeats, laidOut, nodes.length));
}
