/**
 * The camera: the part of the world that the canvas shows.
 *
 * Invariant: `x`, `y` is the world point at the canvas's top left corner; zoom 1 = 100 %.
 */

import { clamp, ease, lerp, type Point, type Rect } from "@/base/geometry";

export interface Camera {
  readonly x: number;
  readonly y: number;
  readonly zoom: number;
}

export interface Viewport {
  readonly width: number;
  readonly height: number;
}

export const LEAST_ZOOM = 0.005;
export const MOST_ZOOM = 3;
/** Below this zoom, names in boxes are unreadable; names of scopes are shown over the boxes. */
export const READABLE_ZOOM = 0.42;
const COMFORTABLE_ZOOM = 0.8;
/** A small graph is enlarged up to this, so that it fills more of a large window. */
export const LARGEST_FIT = 1.5;
const FIT_MARGIN = 20;

export function seen(camera: Camera, view: Viewport): Rect {
  return {
    x: camera.x,
    y: camera.y,
    width: view.width / camera.zoom,
    height: view.height / camera.zoom,
  };
}

export function toWorld(camera: Camera, point: Point): Point {
  return { x: camera.x + point.x / camera.zoom, y: camera.y + point.y / camera.zoom };
}

export function toScreen(camera: Camera, point: Point): Point {
  return { x: (point.x - camera.x) * camera.zoom, y: (point.y - camera.y) * camera.zoom };
}

/** Zooms so that the world point under `anchor` (screen px) stays there. */
export function zoomAt(camera: Camera, anchor: Point, zoom: number): Camera {
  const next = clamp(zoom, LEAST_ZOOM, MOST_ZOOM);
  const world = toWorld(camera, anchor);
  return { x: world.x - anchor.x / next, y: world.y - anchor.y / next, zoom: next };
}

export function centred(on: Point, zoom: number, view: Viewport): Camera {
  return { x: on.x - view.width / zoom / 2, y: on.y - view.height / zoom / 2, zoom };
}

/**
 * The camera that shows all of `bounds`, or only the part around `focus` if the whole would be too
 * small to read.
 */
export function fitted(
  bounds: Rect,
  focus: Rect | undefined,
  view: Viewport,
  largest = LARGEST_FIT,
): Camera {
  const width = Math.max(1, view.width - 2 * FIT_MARGIN);
  const zoom = Math.min(wholeZoom(bounds, view), largest);
  if (zoom >= READABLE_ZOOM) return settle(centred(middle(bounds), zoom, view));
  // A tall, thin picture shows its full width, any other has a zoom at which details are readable.
  const across = width / Math.max(1, bounds.width);
  const readable = across >= 0.5 ? Math.min(across, 1) : COMFORTABLE_ZOOM;
  const target = focus === undefined ? middle(bounds) : middle(focus);
  const camera = centred(target, readable, view);
  return settle(keepInside(camera, bounds, view));
}

/** The camera that shows all of `bounds`, however small. */
export function fittedWhole(bounds: Rect, view: Viewport): Camera {
  return settle(centred(middle(bounds), wholeZoom(bounds, view), view));
}

/** The zoom at which all of `bounds` is in view. */
function wholeZoom(bounds: Rect, view: Viewport): number {
  if (bounds.width === 0 && bounds.height === 0) return 1;
  const width = Math.max(1, view.width - 2 * FIT_MARGIN);
  const height = Math.max(1, view.height - 2 * FIT_MARGIN);
  const whole = Math.min(width / Math.max(1, bounds.width), height / Math.max(1, bounds.height));
  return snap(clamp(whole, LEAST_ZOOM, LARGEST_FIT));
}

/** Zooms within 3 % of 100 % become 100 %, where borders are sharp. */
function snap(zoom: number): number {
  return zoom > 0.97 && zoom < 1.03 ? 1 : zoom;
}

function settle(camera: Camera): Camera {
  const { zoom } = camera;
  return {
    x: Math.round(camera.x * zoom) / zoom,
    y: Math.round(camera.y * zoom) / zoom,
    zoom,
  };
}

function middle(rect: Rect): Point {
  return { x: rect.x + rect.width / 2, y: rect.y + rect.height / 2 };
}

/** Moves the camera so that it shows no empty space while part of the drawing is out of view. */
function keepInside(camera: Camera, bounds: Rect, view: Viewport): Camera {
  const margin = FIT_MARGIN / camera.zoom;
  const width = view.width / camera.zoom;
  const height = view.height / camera.zoom;
  const axis = (at: number, size: number, from: number, length: number): number =>
    length + 2 * margin <= size
      ? from + length / 2 - size / 2
      : clamp(at, from - margin, from + length + margin - size);
  return {
    x: axis(camera.x, width, bounds.x, bounds.width),
    y: axis(camera.y, height, bounds.y, bounds.height),
    zoom: camera.zoom,
  };
}

const REVEAL_MARGIN = 56;

/** The nearest camera that shows `rect` with some margin. */
export function revealing(camera: Camera, rect: Rect, view: Viewport): Camera {
  const zoom = camera.zoom < READABLE_ZOOM ? 0.8 : camera.zoom;
  const from = zoom === camera.zoom ? camera : centred(middle(rect), zoom, view);
  const width = view.width / zoom;
  const height = view.height / zoom;
  const axis = (at: number, size: number, start: number, length: number): number => {
    const margin = Math.min(REVEAL_MARGIN / zoom, size / 4);
    if (length + 2 * margin >= size) {
      // Of a rectangle larger than the view, the beginning is shown, which identifies it.
      return at <= start && at >= start - size / 2 ? at : start - margin;
    }
    return clamp(at, start + length + margin - size, start - margin);
  };
  return settle({
    x: axis(from.x, width, rect.x, rect.width),
    y: axis(from.y, height, rect.y, rect.height),
    zoom,
  });
}

/** Interpolates between two cameras, geometrically in zoom, so that the speed looks even. */
export function between(from: Camera, to: Camera, t: number): Camera {
  if (t >= 1) return to;
  const s = ease(t);
  const zoom = from.zoom * (to.zoom / from.zoom) ** s;
  return { x: lerp(from.x, to.x, s), y: lerp(from.y, to.y, s), zoom };
}
