/**
 * Changes of a step in one scene: boxes, new edges, and the ends of removed edges.
 *
 * Invariant: pure; a change inside a folded scope is counted on the scope's box.
 */

import { EDGE_OUT_OF_SCOPE } from "@/layout/types";
import type { SceneModel } from "@/render/scene/model";
import type { ChangeKind, GraphChanges } from "@/render/scene/types";

export interface BoxChange {
  readonly new: number;
  readonly rewired: number;
  readonly skipped: number;
  /** The kind of change of everything in the box; undefined if only a part changed. */
  readonly whole: ChangeKind | undefined;
}

export interface SceneChanges {
  readonly boxes: ReadonlyMap<number, BoxChange>;
  /** Edges that were not there before. */
  readonly edges: readonly number[];
  /** Source and target boxes of edges that no longer exist. */
  readonly ghosts: readonly (readonly [number, number])[];
}

/** With more of them, none can be distinguished. */
const MOST_GHOSTS = 200;

export function sceneChanges(model: SceneModel, changes: GraphChanges): SceneChanges {
  const { hierarchy } = model;
  const counts = new Map<number, Record<ChangeKind, number>>();
  for (const [id, kind] of changes.marks) {
    const box = model.visibleBox(hierarchy.indexOf.get(id) ?? -1);
    if (box < 0) continue;
    const tally = counts.get(box) ?? { new: 0, rewired: 0, skipped: 0 };
    tally[kind] += 1;
    counts.set(box, tally);
  }
  const boxes = new Map<number, BoxChange>();
  for (const [box, tally] of counts) {
    const size = model.isGroup(box) ? hierarchy.groups[model.scene.ref[box]!]!.ops : 1;
    const kinds = ["new", "rewired", "skipped"] as const;
    boxes.set(box, { ...tally, whole: kinds.find((kind) => tally[kind] >= size) });
  }
  return { boxes, ...wires(model, changes) };
}

function wires(model: SceneModel, changes: GraphChanges): Pick<SceneChanges, "edges" | "ghosts"> {
  const { hierarchy, scene } = model;
  const added = new Map<number, number[]>();
  const removed = new Map<number, number[]>();
  for (const [id, { before, after }] of changes.rewired) {
    const box = model.visibleBox(hierarchy.indexOf.get(id) ?? -1);
    if (box < 0) continue;
    for (const value of after) if (!before.includes(value)) put(added, value, box);
    for (const value of before) if (!after.includes(value)) put(removed, value, box);
  }
  const edges: number[] = [];
  if (added.size > 0) {
    for (let edge = 0; edge < scene.edges; edge++) {
      const readers = added.get(scene.value[edge]!);
      if (readers === undefined || scene.bundle[edge]! > 1) continue;
      const target = scene.target[edge]!;
      const leads = (scene.edgeFlags[edge]! & EDGE_OUT_OF_SCOPE) !== 0;
      if (leads || readers.some((box) => model.within(box, target))) edges.push(edge);
    }
  }
  const ghosts: [number, number][] = [];
  if (removed.size > 0) {
    hierarchy.nodes.forEach((node, index) => {
      for (const value of node.outputs) {
        const from = removed.has(value) ? model.visibleBox(index) : -1;
        for (const to of from < 0 ? [] : removed.get(value)!) {
          if (from !== to && sameColumn(model, from, to)) ghosts.push([from, to]);
        }
      }
    });
  }
  return { edges, ghosts: ghosts.slice(0, MOST_GHOSTS) };
}

function put(map: Map<number, number[]>, key: number, value: number): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [value]);
  else list.push(value);
}

/** Whether two boxes are in one column: values read across columns have no edges of their own. */
function sameColumn(model: SceneModel, a: number, b: number): boolean {
  const { groups, groupOf } = model.hierarchy;
  const column = (box: number): number =>
    groups[model.isGroup(box) ? model.scene.ref[box]! : groupOf[model.scene.ref[box]!]!]!.column;
  return column(a) === column(b);
}
