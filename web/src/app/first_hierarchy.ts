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
import type { Node, NodeColumns, Snapshot, ValueColumns } from "@/wire/types.gen";

/** The properties that nodes of one kind share. */
interface Kind {
  readonly op: string;
  readonly role: Node["role"];
  readonly phase: string;
  /** The op's own family until the structure is known, then the family that is drawn. */
  family: string;
}

/** A node, at first with its own scope, family and control edges, and in the end as it is drawn. */
class FirstNode implements LayoutNode {
  constructor(
    private readonly kind: Kind,
    readonly id: number,
    readonly label: string,
    readonly detail: string,
    public scope: string,
    readonly inputs: readonly number[],
    readonly outputs: readonly number[],
    readonly forward: number | undefined,
    public control: readonly number[] | undefined,
  ) {}

  get op(): string {
    return this.kind.op;
  }

  get role(): Node["role"] {
    return this.kind.role;
  }

  get phase(): string {
    return this.kind.phase;
  }

  get family(): string {
    return this.kind.family;
  }
}

export interface LookedAt {
  /** By id. */
  readonly nodes: readonly (FirstNode | undefined)[];
  readonly kinds: readonly Kind[];
  readonly structure: GraphStructure;
  /** The structure as plain data. */
  readonly known: KnownStructure;
}

export function lookedAt(snapshot: Snapshot): LookedAt {
  const kinds = snapshot.nodes.kinds.map(({ op, role, phase, family }) => ({
    op,
    role,
    phase,
    family,
  }));
  const nodes = firstNodes(snapshot.nodes, kinds);
  const structure = structureOf({ nodes });
  const { sections, repeats } = structure;
  return {
    nodes,
    kinds,
    structure,
    known: { sections, stacks: repeats.stacks, spans: repeats.spans() },
  };
}

export function hierarchyOf(
  { nodes, kinds, structure }: LookedAt,
  columns: ValueColumns,
): Hierarchy {
  const { sections, repeats } = structure;
  const laidOut: FirstNode[] = [];
  // Control edges are drawn only in a graph without values.
  const flows = nodes.some((node) => node !== undefined && node.inputs.length > 0);
  for (const kind of kinds) kind.family = familyOf(kind);
  for (const node of nodes) {
    if (node === undefined) continue;
    node.scope = sections?.[node.id] ?? node.scope;
    if (flows) node.control = undefined;
    laidOut.push(node);
  }
  const values = madeOfSpecs(columns, (id, spec): LayoutValue => ({ id, ...specFields(spec) }));
  return buildHierarchy(laidOut, values, drawnRepeats(repeats, laidOut, nodes.length));
}

function firstNodes(columns: NodeColumns, kinds: readonly Kind[]): (FirstNode | undefined)[] {
  const { count, id, forward, name, scope, attrs, kind, inputs, controlInputs, outputs } =
    drawnColumns(columns, {
      kinds,
      name: leafName,
      attrs: (settings) => detail({ attrs: settings }),
    });
  const nodes: (FirstNode | undefined)[] = [];
  for (let row = 0; row < count; row++) {
    const twin = forward(row);
    nodes[id(row)] = new FirstNode(
      kind(row),
      id(row),
      name(row),
      attrs(row),
      scope(row),
      inputs(row),
      outputs(row),
      twin === 0 ? undefined : twin,
      controlInputs(row),
    );
  }
  return nodes;
}
