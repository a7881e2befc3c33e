/**
 * How a box looks, whichever function draws it: its colour by mode, and whether it shows at all.
 *
 * Invariant: pure; asked by the screen, the export and the marks alike.
 */

import type { Drawing } from "@/render/draw";
import { heat, SHARES } from "@/render/live";
import { familyColour, FAMILIES, sequential } from "@/render/palette";
import { tintShares } from "@/render/tints";

/** Scopes whose screen height is less are blocks; what is in them is not drawn. */
const BLOCK_HEIGHT = 28;

export function nodeColour(drawing: Drawing, node: number): string {
  const { palette, model, live, colourBy } = drawing;
  if (colourBy === "finite") {
    const flags = live.flags[node]!;
    if ((flags & 1) !== 0) return palette.nan;
    if ((flags & 2) !== 0) return palette.inf;
    return live.done[node] === 1 ? palette.ok : palette["text-off"];
  }
  if (colourBy === "tint") {
    const token = drawing.tints.get(model.hierarchy.nodes[node]!.id);
    return token === undefined ? palette["text-off"] : palette[token];
  }
  if (colourBy !== "family") {
    const share = heat(model.hierarchy, live, node, colourBy);
    return share === undefined ? palette["text-off"] : sequential(palette, share);
  }
  return familyColour(palette, model.hierarchy.nodes[node]!.family);
}

/** The colours of a folded scope's strip, each with its share. */
export function stripOf(drawing: Drawing, group: number): readonly (readonly [string, number])[] {
  const { palette, live, model } = drawing;
  if (drawing.colourBy === "tint") {
    const shares = tintShares(model.hierarchy, drawing.tints)[group] ?? [];
    return shares.map(([token, share]) => [palette[token], share]);
  }
  return FAMILIES.map((family, at) => [
    familyColour(palette, family),
    live.shares[group * SHARES + at]!,
  ]);
}

/** Whether an open scope is too small on screen to look into. */
export function isBlock(drawing: Drawing, box: number): boolean {
  return drawing.model.scene.height[box]! * drawing.zoom < BLOCK_HEIGHT;
}

export function hiddenBySmallScope(drawing: Drawing, box: number): boolean {
  const parent = drawing.model.scene.parent[box]!;
  return parent >= 0 && isBlock(drawing, parent);
}
