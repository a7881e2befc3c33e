/**
 * A snapshot's graph as the page draws it at first.
 *
 * Invariant: structure and hierarchy are those that the page makes of the same snapshot, node by node
 * and group by group.
 */

import { buildHierarchy, type Hierarchy } from "@/layout/hierarchy";
import type { KnownStructure } from "@/store/run/known_structure";
import { EMPTY_GRAPH, type RunGraph, update } from "@/store/run/run_model";
import { type GraphStructure, structureOf } from "@/store/run/tree";
import { graphModel } from "@/views/graph/graph_model";
import type { Snapshot } from "@/wire/types.gen";

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

export function hierarchyOf({ graph, structure }: LookedAt): Hierarchy {
  const { nodes, values, repeats } = graphModel(graph, structure);
  return buildHierarchy(nodes, values, repeats);
}
