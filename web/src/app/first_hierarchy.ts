/**
 * A snapshot's graph as the page draws it at first.
 *
 * Invariant: structure and hierarchy are those that the page makes of the same snapshot, node by node
 * and group by group.
 */

import { buildHierarchy, type Hierarchy, repeatsOf } from "@/layout/hierarchy";
import type { LayoutNode } from "@/layout/types";
import type { KnownStructure } from "@/store/run/known_structure";
import { EMPTY_GRAPH, type RunGraph, update } from "@/store/run/run_model";
import { type GraphStructure, structureOf } from "@/store/run/tree";
import { graphModel } from "@/views/graph/graph_model";
import { valuesIn } from "@/wire/graph_columns";
import type { Snapshot, ValueColumns } from "@/wire/types.gen";

export interface LookedAt {
  readonly graph: RunGraph;
  readonly structure: GraphStructure;
  /** The structure as plain data. */
  readonly known: KnownStructure;
}

export function lookedAt(snapshot: Snapshot): LookedAt {
  const graph = update(undefined, snapshot)?.graph ?? EMPTY_GRAPH;
  const structure = structureOf(graph);
  const { sections, repeats } = structure;
  return { graph, structure, known: { sections, stacks: repeats.stacks } };
}

export function hierarchyOf({ graph, structure }: LookedAt, columns: ValueColumns): Hierarchy {
  // Neither the message's nodes are kept, which values are named by, nor what the stacks were found by.
  const nameless = { ...graph, values: valuesIn(columns, []) };
  const { nodes, values, repeats } = graphModel(nameless, structure);
  const labels = new Map<string, string>();
  const laidOut = nodes.map((node) => layoutNode(node, labels));
  return buildHierarchy(laidOut, values, repeatsOf(laidOut, repeats?.stacks));
}

/** Args: labels: Those met so far; equal ones are one text. */
function layoutNode(node: LayoutNode, labels: Map<string, string>): LayoutNode {
  const { id, op, family, role, scope, phase, inputs, outputs, detail, forward, control } = node;
  const label = labels.get(node.label) ?? node.label;
  labels.set(label, label);
  return { id, label, op, family, role, scope, phase, inputs, outputs, detail, forward, control };
}
