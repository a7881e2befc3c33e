/**
 * View options: how the page wants the graph shown, as input for the drawing functions.
 *
 * Invariant: a `Look` is replaced, never changed; it contains neither positions nor camera.
 */

import { buildHierarchy } from "@/layout/hierarchy";
import { BOX_NODE, EMPTY_SCENE } from "@/layout/types";
import { type Camera, seen, type Viewport } from "@/render/camera/camera";
import { sceneBounds } from "@/render/camera/camera_follow";
import { heatMost } from "@/render/draw/box_style";
import { type Drawing, detailAt, type EdgeLabel, type Marks } from "@/render/draw/draw";
import { type LiveState, liveState } from "@/render/draw/execution_overlay";
import type { Palette } from "@/render/draw/palette";
import { drawSvg } from "@/render/paint/picture";
import { type SceneChanges, sceneChanges } from "@/render/scene/changes";
import { NOWHERE, type Pointed } from "@/render/scene/hit";
import { SceneModel } from "@/render/scene/model";
import { type ScenePath, scenePath } from "@/render/scene/path";
import type {
  Amounts,
  BreakpointMark,
  ColourBy,
  CurrentMark,
  GraphChanges,
  GraphItem,
  GraphPath,
  NodeBadge,
  NodeStates,
  Tints,
  WatchMarks,
} from "@/render/scene/types";
import { NO_AMOUNTS } from "@/render/scene/types";

export interface Look {
  readonly palette: Palette;
  readonly states: NodeStates | undefined;
  readonly step: number;
  readonly current: CurrentMark | undefined;
  readonly badge: NodeBadge | undefined;
  readonly breakpoints: ReadonlyMap<number, BreakpointMark>;
  readonly watchMarks: WatchMarks;
  readonly selection: GraphItem | undefined;
  readonly colourBy: ColourBy;
  readonly tints: Tints;
  readonly amounts: Amounts;
  readonly linked: ReadonlySet<number>;
  readonly matchIds: ReadonlySet<number> | undefined;
  readonly changes: GraphChanges | undefined;
  readonly path: GraphPath | undefined;
}

export function plainLook(palette: Palette): Look {
  return {
    palette,
    states: undefined,
    step: 0,
    current: undefined,
    badge: undefined,
    breakpoints: new Map(),
    watchMarks: new Map(),
    selection: undefined,
    colourBy: "family",
    tints: new Map(),
    amounts: NO_AMOUNTS,
    linked: new Set(),
    matchIds: undefined,
    changes: undefined,
    path: undefined,
  };
}

/** Computed once per scene: a frame of a tween shares its boxes. */
const sceneChangesOf = new WeakMap<GraphChanges, { scene: unknown; changes: SceneChanges }>();

function onScene(model: SceneModel, changes: GraphChanges): SceneChanges {
  const known = sceneChangesOf.get(changes);
  // A tween moves the boxes, but leaves their kinds alone.
  if (known?.scene === model.scene.kind) return known.changes;
  const converted = sceneChanges(model, changes);
  sceneChangesOf.set(changes, { scene: model.scene.kind, changes: converted });
  return converted;
}

const paths = new WeakMap<GraphPath, { scene: unknown; path: ScenePath }>();

function pathOn(model: SceneModel, path: GraphPath): ScenePath {
  const known = paths.get(path);
  if (known?.scene === model.scene.kind) return known.path;
  const converted = scenePath(model, path);
  paths.set(path, { scene: model.scene.kind, path: converted });
  return converted;
}

export function drawingOf(
  look: Look,
  model: SceneModel,
  live: LiveState | undefined,
  place: {
    readonly camera: Camera;
    readonly view: Viewport;
    readonly labels: readonly EdgeLabel[];
  },
): Omit<Drawing, "painter"> {
  const { zoom } = place.camera;
  const state = live ?? liveState(model.hierarchy, look.states, look.step);
  const current = model.visibleBox(model.hierarchy.indexOf.get(look.current?.node ?? -1) ?? -1);
  const near = current >= 0 && detailAt(zoom) === "near";
  const raised = near && model.scene.kind[current] === BOX_NODE ? current : -1;
  return {
    palette: look.palette,
    model,
    labels: place.labels,
    colourBy: look.colourBy,
    tints: look.tints,
    amounts: look.amounts,
    zoom,
    view: seen(place.camera, place.view),
    current,
    selected: look.selection === undefined ? -1 : model.boxOf(look.selection),
    raised,
    live: state,
    heatMost: heatMost(model, state, look.colourBy),
    changes: look.changes === undefined ? undefined : onScene(model, look.changes),
    path: look.path === undefined ? undefined : pathOn(model, look.path),
    matches: look.matchIds === undefined ? undefined : model.boxesOf(look.matchIds),
  };
}

export function marksOf(look: Look, pointed: Pointed): Marks {
  const { current, badge, breakpoints, watchMarks, selection, linked } = look;
  return { current, badge, breakpoints, watchMarks, selection, linked, ...pointed };
}

/** The part of the scene seen by the camera, or without one the whole scene, as an SVG document. */
export function svgOf(
  look: Look,
  model: SceneModel | undefined,
  labels: readonly EdgeLabel[],
  page: { readonly title: string; readonly fonts: string },
  seenBy?: { readonly camera: Camera; readonly view: Viewport },
): string {
  const { title, fonts } = page;
  const shown = model ?? new SceneModel(buildHierarchy([], new Map()), EMPTY_SCENE);
  const { x, y, width, height } = sceneBounds(shown);
  if (seenBy !== undefined) {
    const drawing = drawingOf(look, shown, undefined, { ...seenBy, labels });
    const scale = seenBy.camera.zoom;
    return drawSvg(drawing, marksOf(look, NOWHERE), title, { scale, fonts });
  }
  const place = { camera: { x, y, zoom: 1 }, view: { width: 0, height: 0 }, labels };
  const view = { x: x - 32, y: y - 32, width: width + 64, height: height + 64 };
  const drawing = { ...drawingOf(look, shown, undefined, place), view };
  return drawSvg(drawing, marksOf(look, NOWHERE), title, { fonts });
}
