/**
 * A path through the graph, as it lies in one scene: boxes with what is written at them, and edges.
 *
 * Invariant: pure; what is inside a folded scope stands at the scope's box.
 */

import { EDGE_OUT_OF_SCOPE } from "@/layout/types";
import type { SceneModel } from "@/render/model";
import type { GraphPath, PathTone } from "@/render/types";

export interface BoxSign {
  readonly text: string;
  readonly culprit: boolean;
}

export interface ScenePath {
  readonly boxes: ReadonlyMap<number, BoxSign>;
  readonly edges: readonly number[];
  readonly tone: PathTone;
}

export function scenePath(model: SceneModel, path: GraphPath): ScenePath {
  const { hierarchy, scene } = model;
  const texts = new Map<number, string[]>();
  const boxOf = (id: number): number => model.visibleBox(hierarchy.indexOf.get(id) ?? -1);
  for (const [id, text] of path.nodes) {
    const box = boxOf(id);
    if (box >= 0) texts.set(box, [...(texts.get(box) ?? []), text]);
  }
  const guilty = path.culprit === undefined ? -1 : boxOf(path.culprit);
  const boxes = new Map<number, BoxSign>();
  for (const [box, found] of texts) {
    boxes.set(box, { text: joined(found), culprit: box === guilty });
  }
  const readers = new Map<number, number[]>();
  const between = new Set<string>();
  for (const [from, to] of path.edges) {
    const node = hierarchy.indexOf.get(from) ?? -1;
    const box = boxOf(to);
    if (node < 0 || box < 0) continue;
    readers.set(node, [...(readers.get(node) ?? []), box]);
    between.add(`${boxOf(from)} ${box}`);
  }
  const edges: number[] = [];
  for (let edge = 0; readers.size > 0 && edge < scene.edges; edge++) {
    const target = scene.target[edge]!;
    const leads = (scene.edgeFlags[edge]! & EDGE_OUT_OF_SCOPE) !== 0;
    const wanted = readers.get(scene.producer[edge]!);
    const carries = wanted?.some((box) => leads || model.within(box, target)) ?? false;
    if (carries || between.has(`${scene.source[edge]} ${target}`)) edges.push(edge);
  }
  return { boxes, edges, tone: path.tone };
}

/** `2`, `2–5`, `≠`: what the nodes behind one box are called together. */
function joined(texts: readonly string[]): string {
  const first = texts[0] ?? "";
  const last = texts.at(-1) ?? first;
  if (texts.length === 1) return first;
  return first === last ? `${first}${texts.length}` : `${first}–${last}`;
}
