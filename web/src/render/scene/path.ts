/**
 * A path through the graph in one scene: boxes with their labels, and edges.
 *
 * Invariant: pure; items inside a folded scope are placed at the scope's box.
 */

import { EDGE_OUT_OF_SCOPE } from "@/layout/types";
import type { SceneModel } from "@/render/scene/model";
import type { GraphPath, PathTone } from "@/render/scene/types";

export interface BoxSign {
  readonly text: string;
  readonly culprit: boolean;
  readonly tone: PathTone;
}

export interface ScenePath {
  readonly boxes: ReadonlyMap<number, BoxSign>;
  /** Edges with their tones. */
  readonly edges: ReadonlyMap<number, PathTone>;
  readonly tone: PathTone;
}

/** The tone of a node, wherever its sign appears: on the canvas, in the list, in the legend. */
export function toneAt(path: Pick<GraphPath, "tone" | "tones">, node: number): PathTone {
  return path.tones?.get(node) ?? path.tone;
}

const TONE_WORDS = { nan: "NaN", inf: "Inf", select: "finite", change: "changed" } as const;

/** The legend of a chain: for each tone that occurs, its first sign. */
export function pathKey(
  path: Pick<GraphPath, "nodes" | "tone" | "tones">,
): readonly { readonly sign: string; readonly tone: PathTone; readonly words: string }[] {
  const rows = new Map<PathTone, { sign: string; tone: PathTone; words: string }>();
  for (const [id, sign] of path.nodes) {
    const tone = toneAt(path, id);
    const words = rows.size === 0 ? `asked about (${TONE_WORDS[tone]})` : TONE_WORDS[tone];
    if (!rows.has(tone)) rows.set(tone, { sign, tone, words });
  }
  return [...rows.values()];
}

export function scenePath(model: SceneModel, path: GraphPath): ScenePath {
  const { hierarchy, scene } = model;
  const toneOf = (id: number): PathTone => toneAt(path, id);
  const texts = new Map<number, string[]>();
  const tones = new Map<number, PathTone>();
  const boxOf = (id: number): number => model.visibleBox(hierarchy.indexOf.get(id) ?? -1);
  for (const [id, text] of path.nodes) {
    const box = boxOf(id);
    if (box < 0) continue;
    const known = texts.get(box);
    if (known === undefined) texts.set(box, [text]);
    else known.push(text);
    tones.set(box, worse(tones.get(box), toneOf(id)));
  }
  const guilty = path.culprit === undefined ? -1 : boxOf(path.culprit);
  const boxes = new Map<number, BoxSign>();
  for (const [box, entries] of texts) {
    const tone = tones.get(box) ?? path.tone;
    boxes.set(box, { text: joined(entries), culprit: box === guilty, tone });
  }
  const readers = new Map<number, number[]>();
  const between = new Map<string, PathTone>();
  for (const [from, to] of path.edges) {
    const node = hierarchy.indexOf.get(from) ?? -1;
    const box = boxOf(to);
    if (node < 0 || box < 0) continue;
    const known = readers.get(node);
    if (known === undefined) readers.set(node, [box]);
    else known.push(box);
    between.set(`${boxOf(from)} ${box}`, toneOf(from));
  }
  const edges = new Map<number, PathTone>();
  for (let edge = 0; readers.size > 0 && edge < scene.edges; edge++) {
    const target = scene.target[edge]!;
    const leads = (scene.edgeFlags[edge]! & EDGE_OUT_OF_SCOPE) !== 0;
    const wanted = readers.get(scene.producer[edge]!);
    const carries = wanted?.some((box) => leads || model.within(box, target)) ?? false;
    const bundled = between.get(`${scene.source[edge]} ${target}`);
    if (!carries && bundled === undefined) continue;
    const from = hierarchy.nodes[scene.producer[edge]!];
    edges.set(edge, carries && from !== undefined ? toneOf(from.id) : (bundled ?? path.tone));
  }
  return { boxes, edges, tone: path.tone };
}

/** For nodes behind one box: a NaN takes precedence over an Inf, and that over finite values. */
function worse(first: PathTone | undefined, other: PathTone): PathTone {
  if (first === undefined || first === other) return other;
  return first === "nan" || other === "nan"
    ? "nan"
    : first === "inf" || other === "inf"
      ? "inf"
      : first;
}

/** `2`, `2–5`, `≠`, `≠3`: the common label of the nodes behind one box. */
function joined(texts: readonly string[]): string {
  const first = texts[0] ?? "";
  const last = texts.at(-1) ?? first;
  if (texts.length === 1) return first;
  // Nodes at the same distance have the same number, to which no count can be added.
  if (first === last && /^\d+$/.test(first)) return first;
  return first === last ? `${first}${texts.length}` : `${first}–${last}`;
}
