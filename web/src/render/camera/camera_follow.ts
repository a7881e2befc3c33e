/**
 * Camera movements when the picture changes.
 *
 * Invariant: the item that the user is viewing stays in place on the screen; the camera moves by
 * itself only while the user has never moved it, or to follow the program.
 */

import { clamp, contains, overlaps, type Point, type Rect } from "@/base/geometry";
import { BOX_SCOPE } from "@/layout/types";
import {
  type Camera,
  centred,
  fitted,
  fittedWhole,
  LARGEST_FIT,
  LEAST_ZOOM,
  MOST_ZOOM,
  revealing,
  seen,
  type Viewport,
} from "@/render/camera/camera";
import type { SceneModel } from "@/render/scene/model";
import type { GraphItem, Viewpoint } from "@/render/scene/types";

/** A picture is fitted again if that enlarges it by this factor, as after folding scopes. */
const LOOSE = 1.25;

export function sceneBounds(model: SceneModel): Rect {
  const { left, top, right, bottom } = model.scene;
  return { x: left, y: top, width: right - left, height: bottom - top };
}

/** The topmost box: where reading begins. */
export function firstBox(model: SceneModel): Rect | undefined {
  const { scene } = model;
  let best = -1;
  for (let box = 0; box < scene.boxes; box++) {
    if (scene.kind[box] === BOX_SCOPE) continue;
    if (best < 0 || scene.y[box]! < scene.y[best]!) best = box;
  }
  return best < 0 ? undefined : model.rect(best);
}

/** The box where the program is stopped, or else the first box. */
export function focusRect(model: SceneModel, current: number | undefined): Rect | undefined {
  const node = current === undefined ? undefined : model.hierarchy.indexOf.get(current);
  const box = node === undefined ? -1 : model.visibleBox(node);
  return box < 0 ? firstBox(model) : model.rect(box);
}

/** Moves the camera so that `item`'s top left corner stays in place on the screen. */
export function pinned(
  camera: Camera,
  item: GraphItem,
  before: SceneModel,
  after: SceneModel,
): Camera | undefined {
  const old = before.boxOf(item);
  const now = after.boxOf(item);
  if (old < 0 || now < 0) return undefined;
  return {
    x: camera.x + after.scene.x[now]! - before.scene.x[old]!,
    y: camera.y + after.scene.y[now]! - before.scene.y[old]!,
    zoom: camera.zoom,
  };
}

/** The item nearest to the middle of the view, which the user is most likely viewing. */
export function anchorItem(
  model: SceneModel,
  camera: Camera,
  view: Viewport,
): GraphItem | undefined {
  const sight = seen(camera, view);
  const x = sight.x + sight.width / 2;
  const y = sight.y + sight.height / 2;
  let best = -1;
  let least = Number.POSITIVE_INFINITY;
  for (const box of model.boxesIn(sight)) {
    const { scene } = model;
    const distance = Math.abs(scene.x[box]! - x) + Math.abs(scene.y[box]! - y);
    if (distance >= least) continue;
    least = distance;
    best = box;
  }
  return best < 0 ? undefined : model.itemOf(best);
}

/** Where the camera looks, relative to an item, so that it remains valid in another layout. */
export function viewpointOf(
  model: SceneModel,
  camera: Camera,
  view: Viewport,
): Viewpoint | undefined {
  const item = anchorItem(model, camera, view);
  const box = item === undefined ? -1 : model.boxOf(item);
  if (item === undefined || box < 0) return undefined;
  const sight = seen(camera, view);
  return {
    item,
    dx: sight.x + sight.width / 2 - model.scene.x[box]!,
    dy: sight.y + sight.height / 2 - model.scene.y[box]!,
    zoom: camera.zoom,
  };
}

/** The camera for a viewpoint; undefined if the viewpoint's item is not in the graph. */
export function cameraAt(model: SceneModel, at: Viewpoint, view: Viewport): Camera | undefined {
  const box = model.boxOf(at.item);
  if (box < 0) return undefined;
  const zoom = clamp(at.zoom, LEAST_ZOOM, MOST_ZOOM);
  return centred({ x: model.scene.x[box]! + at.dx, y: model.scene.y[box]! + at.dy }, zoom, view);
}

/** The camera for a new scene. */
export function cameraFor(
  camera: Camera,
  before: SceneModel | undefined,
  after: SceneModel,
  view: Viewport,
  choice: {
    readonly toggled: GraphItem | undefined;
    readonly touched: boolean;
    /** The user requested the whole graph. */
    readonly whole: boolean;
    readonly focus: Rect | undefined;
  },
): Camera {
  const bounds = sceneBounds(after);
  const isFirst = before === undefined || before.scene.boxes === 0;
  // A growing graph is not enlarged when a split into columns makes it less tall for a moment.
  const largest = isFirst ? LARGEST_FIT : Math.max(camera.zoom, 1);
  const toFit = (): Camera =>
    choice.whole ? fittedWhole(bounds, view) : fitted(bounds, choice.focus, view, largest);
  if (isFirst) return toFit();
  const sight = seen(camera, view);
  const { toggled } = choice;
  if (toggled !== undefined) {
    const box = before.boxOf(toggled);
    const kept =
      box >= 0 && overlaps(before.rect(box), sight)
        ? pinned(camera, toggled, before, after)
        : undefined;
    if (kept !== undefined) return kept;
  } else if (!choice.touched) {
    const inside =
      contains(sight, bounds) &&
      contains(sight, { x: bounds.x + bounds.width, y: bounds.y + bounds.height });
    const fit = toFit();
    return inside && !choice.whole && fit.zoom < LOOSE * camera.zoom ? camera : fit;
  }
  const anchor = anchorItem(before, camera, view);
  return (anchor && pinned(camera, anchor, before, after)) ?? camera;
}

/** The camera after the canvas has changed its size: the followed item stays in view. */
export function resizedCamera(
  camera: Camera,
  model: SceneModel,
  before: Viewport,
  view: Viewport,
  choice: {
    readonly fit: boolean;
    readonly whole: boolean;
    readonly node: number | undefined;
    readonly focus: Rect | undefined;
  },
): Camera {
  if (choice.fit && choice.whole) return fittedWhole(sceneBounds(model), view);
  if (choice.fit) return fitted(sceneBounds(model), choice.focus, view);
  return inSight(model, choice.node, camera, before) ? keeping(camera, choice.focus, view) : camera;
}

/** Whether a node, or the folded scope that holds it, is on the screen. */
export function inSight(
  model: SceneModel | undefined,
  node: number | undefined,
  camera: Camera,
  view: Viewport,
): boolean {
  if (model === undefined || node === undefined) return false;
  const box = model.boxOf({ kind: "node", id: node });
  return box >= 0 && overlaps(model.rect(box), seen(camera, view));
}

/** The nearest camera that shows all of `focus`; the same one if it already does. */
export function keeping(camera: Camera, focus: Rect | undefined, view: Viewport): Camera {
  if (focus === undefined) return camera;
  const sight = seen(camera, view);
  const end = { x: focus.x + focus.width, y: focus.y + focus.height };
  const whole = contains(sight, focus) && contains(sight, end);
  return whole ? camera : revealing(camera, focus, view);
}

/**
 * The fixed point of a zoom without a pointer, in screen px: the middle of the first box whose
 * middle is in view, or else the middle of the view.
 *
 * Args:
 *   boxes: Boxes in screen px; undefined for an item that is not drawn.
 */
export function steadyPoint(boxes: readonly (Rect | undefined)[], view: Viewport): Point {
  const { width, height } = view;
  for (const box of boxes) {
    if (box === undefined) continue;
    const x = box.x + box.width / 2;
    const y = box.y + box.height / 2;
    if (x >= 0 && y >= 0 && x <= width && y <= height) return { x, y };
  }
  return { x: width / 2, y: height / 2 };
}
