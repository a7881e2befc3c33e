/**
 * The look of a box, whichever function draws it: its colour by mode, and whether it is visible at
 * all.
 *
 * Invariant: pure; used by the screen, the export and the marks alike.
 */

import { FAMILIES } from "@/base/families";
import { BOX_FOLD, BOX_NODE } from "@/layout/types";
import { amountColour, groupAmounts } from "@/render/draw/amounts";
import type { Drawing } from "@/render/draw/draw";
import {
  FAILED,
  groupAmount,
  HAS_INF,
  HAS_NAN,
  heat,
  type LiveState,
  nodeAmount,
} from "@/render/draw/execution_overlay";
import { familyColour, sequential } from "@/render/draw/palette";
import { tintShares } from "@/render/draw/tints";
import type { SceneModel } from "@/render/scene/model";
import type { ColourBy } from "@/render/scene/types";

/** Scopes with less height on screen are drawn as blocks, without their contents. */
const BLOCK_HEIGHT = 28;

/** Input of a box's colour; drawings and the overview provide it. */
export type Coloured = Pick<
  Drawing,
  "palette" | "model" | "live" | "colourBy" | "tints" | "amounts" | "heatMost"
>;

function byAmount({ colourBy }: Coloured): boolean {
  return colourBy === "time" || colourBy === "memory";
}

function heatColour(drawing: Coloured, amount: number): string {
  const { palette } = drawing;
  const share = heat(amount, drawing.heatMost);
  return share === undefined ? palette["text-off"] : sequential(palette, share);
}

function finiteColour({ palette }: Coloured, flags: number, done: boolean): string {
  if ((flags & FAILED) !== 0) return palette.break;
  if ((flags & HAS_NAN) !== 0) return palette.nan;
  if ((flags & HAS_INF) !== 0) return palette.inf;
  return done ? palette.ok : palette["text-off"];
}

export function nodeColour(drawing: Coloured, node: number): string {
  const { palette, model, live, colourBy } = drawing;
  if (colourBy === "finite") {
    return finiteColour(drawing, live.flags[node]!, live.done[node] === 1);
  }
  if (colourBy === "tint") {
    const token = drawing.tints.get(model.hierarchy.nodes[node]!.id);
    return token === undefined ? palette["text-off"] : palette[token];
  }
  if (colourBy === "amount") {
    const value = drawing.amounts.values.get(model.hierarchy.nodes[node]!.id);
    return amountColour(palette, drawing.amounts, value);
  }
  if (byAmount(drawing)) {
    return heatColour(drawing, nodeAmount(model.hierarchy, live, node, colourBy));
  }
  return familyColour(palette, model.hierarchy.nodes[node]!.family);
}

/** The single colour of a folded scope, in modes in which it has one. */
export function foldColour(drawing: Coloured, group: number): string | undefined {
  const { live, colourBy, amounts } = drawing;
  if (colourBy === "amount") {
    const value = groupAmounts(drawing.model.hierarchy, amounts)[group];
    return amountColour(drawing.palette, amounts, value);
  }
  if (byAmount(drawing)) return heatColour(drawing, groupAmount(live, group, colourBy));
  if (colourBy !== "finite") return undefined;
  return finiteColour(drawing, live.groupFlags[group]!, live.groupDone[group] === 1);
}

/** The colours of a folded scope's strip, each with its share. */
export function stripOf(drawing: Coloured, group: number): readonly (readonly [string, number])[] {
  const { palette, live, model } = drawing;
  const colour = foldColour(drawing, group);
  if (colour !== undefined) return [[colour, 1]];
  if (drawing.colourBy === "tint") {
    const shares = tintShares(model.hierarchy, drawing.tints)[group] ?? [];
    return shares.map(([token, share]) => [palette[token], share]);
  }
  const shares = live.sharesOf(group);
  return FAMILIES.map((family, at) => [familyColour(palette, family), shares[at]!]);
}

/** The largest amount of a drawn box: the top of the scale. */
export function heatMost(model: SceneModel, live: LiveState, mode: ColourBy): number {
  let most = 0;
  if (mode !== "time" && mode !== "memory") return most;
  const { scene, hierarchy } = model;
  for (let box = 0; box < scene.boxes; box++) {
    const ref = scene.ref[box]!;
    if (scene.kind[box] === BOX_NODE) {
      most = Math.max(most, nodeAmount(hierarchy, live, ref, mode));
    } else if (scene.kind[box] === BOX_FOLD) most = Math.max(most, groupAmount(live, ref, mode));
  }
  return most;
}

/** Whether an open scope is too small on screen to show its contents. */
export function isBlock(drawing: Drawing, box: number): boolean {
  return drawing.model.scene.height[box]! * drawing.zoom < BLOCK_HEIGHT;
}

export function hiddenBySmallScope(drawing: Drawing, box: number): boolean {
  const parent = drawing.model.scene.parent[box]!;
  return parent >= 0 && isBlock(drawing, parent);
}
