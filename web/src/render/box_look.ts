/**
 * How a box looks, whichever function draws it: its colour by mode, and whether it shows at all.
 *
 * Invariant: pure; asked by the screen, the export and the marks alike.
 */

import type { Drawing } from "@/render/draw";
import { heat } from "@/render/live";
import { familyColour, sequential } from "@/render/palette";

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
  if (colourBy !== "family") {
    const share = heat(model.hierarchy, live, node, colourBy);
    return share === undefined ? palette["text-off"] : sequential(palette, share);
  }
  return familyColour(palette, model.hierarchy.nodes[node]!.family);
}

/** Whether an open scope is too small on screen to look into. */
export function isBlock(drawing: Drawing, box: number): boolean {
  return drawing.model.scene.height[box]! * drawing.zoom < BLOCK_HEIGHT;
}

export function hiddenBySmallScope(drawing: Drawing, box: number): boolean {
  const parent = drawing.model.scene.parent[box]!;
  return parent >= 0 && isBlock(drawing, parent);
}
