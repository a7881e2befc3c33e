/**
 * The controls of a stack's box: previous scope, next scope, and all scopes.
 *
 * Invariant: drawing and hit-testing use the same rectangles, in world px.
 */

import { textWidth } from "@/base/fonts_metrics";
import type { Point, Rect } from "@/base/geometry";
import {
  countMark,
  FOLD_PADDING,
  FOLD_RIGHT_ROOM,
  NABLA_WIDTH,
  NAME_FONT,
  PILL_INSET,
  SMALL_MONO,
} from "@/layout/sizes";
import { BOX_FOLD, BOX_SCOPE } from "@/layout/types";
import type { SceneModel } from "@/render/scene/model";

export type StackAct = "previous" | "next" | "all";

export interface StackControl {
  readonly act: StackAct;
  readonly rect: Rect;
}

const BUTTON = 18;
const INSET = 6;
/** Width that the controls of an open scope take in its header. */
export const CONTROLS_WIDTH = 3 * BUTTON + INSET;

/** The controls of a box; none if the box shows no stack. */
export function stackControls(model: SceneModel, box: number): readonly StackControl[] {
  const { scene, hierarchy } = model;
  const { x, y, width } = model.rect(box);
  if (scene.kind[box] === BOX_SCOPE && model.stackAround(box) !== undefined) {
    return (["previous", "next", "all"] as const).map((act, at) => ({
      act,
      rect: { x: x + width - INSET - (3 - at) * BUTTON, y: y + 3, width: BUTTON, height: BUTTON },
    }));
  }
  const stack = scene.kind[box] === BOX_FOLD && hierarchy.groups[scene.ref[box]!]!.stack;
  if (!stack) return [];
  const mark = textWidth(countMark(stack), SMALL_MONO) + 2 * FOLD_PADDING;
  const name = textWidth(stack.name, NAME_FONT) + (model.gradientMark(box) ? NABLA_WIDTH : 0);
  const left = Math.min(x + PILL_INSET + name + 7, x + width - FOLD_RIGHT_ROOM - mark - INSET);
  return [{ act: "all", rect: { x: left, y: y + 4, width: mark, height: 15 } }];
}

export function stackControlAt(
  model: SceneModel,
  box: number,
  { x, y }: Point,
): StackAct | undefined {
  return stackControls(model, box).find(
    ({ rect }) =>
      x >= rect.x && x <= rect.x + rect.width && y >= rect.y && y <= rect.y + rect.height,
  )?.act;
}
