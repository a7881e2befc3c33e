/**
 * The overview strip: the whole graph in miniature, with the view and the program's position.
 *
 * Invariant: the strip always shows the whole height of the graph; a drag moves the camera.
 */

import { clamp, type Point, type Rect } from "@/base/geometry";
import { BOX_FOLD, BOX_SCOPE } from "@/layout/types";
import { type Coloured, nodeColour, stripOf } from "@/render/draw/box_style";
import { HAS_NAN, isNotFinite } from "@/render/draw/execution_overlay";
import { mix, type Palette } from "@/render/draw/palette";
import type { SceneModel } from "@/render/scene/model";

const MARGIN = 8;

export interface OverviewPicture {
  /** The scene shown in the main view, in its colours; undefined while there is none. */
  readonly drawing: Coloured | undefined;
  readonly palette: Palette;
  readonly view: Rect;
  /** Box of the current node; -1 = none. */
  readonly current: number;
}

/** How the world is scaled into the strip; x and y separately, since graphs are tall and thin. */
export interface OverviewScale {
  readonly x: number;
  readonly y: number;
  readonly left: number;
  readonly top: number;
}

export function overviewScale(model: SceneModel, width: number, height: number): OverviewScale {
  const { left, top, right, bottom } = model.scene;
  const x = (width - 2 * MARGIN) / Math.max(1, right - left);
  // Neither enlarge a small graph nor stretch a wide one.
  const y = Math.min((height - 2 * MARGIN) / Math.max(1, bottom - top), 0.3, 4 * x);
  const across = Math.min(x, Math.max(y * 1.6, 0.05));
  const spare = width - 2 * MARGIN - across * (right - left);
  return { x: across, y, left: left - spare / 2 / across, top };
}

export function toOverview(scale: OverviewScale, point: Point): Point {
  return {
    x: MARGIN + (point.x - scale.left) * scale.x,
    y: MARGIN + (point.y - scale.top) * scale.y,
  };
}

export function fromOverview(scale: OverviewScale, point: Point): Point {
  return {
    x: scale.left + (point.x - MARGIN) / scale.x,
    y: scale.top + (point.y - MARGIN) / scale.y,
  };
}

/** The inputs from which the strip's boxes are painted; a change of any repaints them. */
type BoxesKey = readonly unknown[];

/**
 * The strip's canvas: sized by its host, dragged by the user. The boxes are painted once and copied
 * while only the view moves: for a large graph, repainting would cost more than the main view.
 */
export class OverviewPanel {
  readonly canvas = document.createElement("canvas");
  private readonly boxes = document.createElement("canvas");
  private boxesKey: BoxesKey = [];
  private readonly end = new AbortController();
  private readonly observer: ResizeObserver | undefined;
  private scale: OverviewScale | undefined;

  /** `moved` receives the world point that the user wants in the middle of the view. */
  constructor(moved: (point: Point) => void, resized: () => void) {
    const {
      canvas,
      end: { signal },
    } = this;
    const tell = (event: PointerEvent): void => {
      const rect = canvas.getBoundingClientRect();
      const point = { x: event.clientX - rect.left, y: event.clientY - rect.top };
      if (this.scale !== undefined) moved(fromOverview(this.scale, point));
    };
    canvas.style.touchAction = "none";
    canvas.addEventListener(
      "pointerdown",
      (event) => {
        canvas.setPointerCapture(event.pointerId);
        tell(event);
      },
      { signal },
    );
    canvas.addEventListener(
      "pointermove",
      (event) => {
        if (canvas.hasPointerCapture(event.pointerId)) tell(event);
      },
      { signal },
    );
    if (typeof ResizeObserver === "undefined") return;
    this.observer = new ResizeObserver(resized);
    this.observer.observe(canvas);
  }

  draw(ratio: number, picture: OverviewPicture): void {
    const { canvas } = this;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    const context = width > 0 && height > 0 ? canvas.getContext("2d") : null;
    if (context === null) return;
    const wide = Math.round(width * ratio);
    const tall = Math.round(height * ratio);
    if (canvas.width !== wide || canvas.height !== tall) {
      canvas.width = wide;
      canvas.height = tall;
    }
    this.scale =
      picture.drawing === undefined
        ? undefined
        : overviewScale(picture.drawing.model, width, height);
    drawStrip(context, width, height, ratio, picture, (drawing, scale) => {
      const key = [...colouredBy(drawing), width, height, ratio];
      if (!sameKey(key, this.boxesKey)) {
        this.boxes.width = wide;
        this.boxes.height = tall;
        const own = this.boxes.getContext("2d");
        if (own === null) return false;
        own.setTransform(ratio, 0, 0, ratio, 0, 0);
        drawBoxesSmall(own, drawing, scale);
        this.boxesKey = key;
      }
      context.drawImage(this.boxes, 0, 0, width, height);
      return true;
    });
  }

  dispose(): void {
    this.end.abort();
    this.observer?.disconnect();
  }
}

function colouredBy(drawing: Coloured): BoxesKey {
  const { model, live, palette, colourBy, tints, amounts, heatMost } = drawing;
  return [model, live, palette, colourBy, tints, amounts, heatMost];
}

function sameKey(a: BoxesKey, b: BoxesKey): boolean {
  return a.length === b.length && a.every((part, at) => part === b[at]);
}

/** `copied` copies the painted boxes into the strip; it returns false if it cannot. */
function drawStrip(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  ratio: number,
  picture: OverviewPicture,
  copied: (drawing: Coloured, scale: OverviewScale) => boolean,
): void {
  const { drawing, palette } = picture;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.globalAlpha = 1;
  context.fillStyle = palette["bg-panel"];
  context.fillRect(0, 0, width, height);
  if (drawing === undefined || drawing.model.scene.boxes === 0) return;
  const { model, live } = drawing;
  const scale = overviewScale(model, width, height);
  if (!copied(drawing, scale)) drawBoxesSmall(context, drawing, scale);
  drawView(context, picture.view, palette, scale, width, height);
  const { scene } = model;
  for (let box = 0; box < scene.boxes; box++) {
    const kind = scene.kind[box]!;
    if (kind === BOX_SCOPE) continue;
    const flags = (kind === BOX_FOLD ? live.groupFlags : live.flags)[scene.ref[box]!]!;
    if (!isNotFinite(flags)) continue;
    const at = toOverview(scale, {
      x: scene.x[box]! + scene.width[box]!,
      y: scene.y[box]! + scene.height[box]! / 2,
    });
    context.fillStyle = (flags & HAS_NAN) !== 0 ? palette.nan : palette.inf;
    context.beginPath();
    context.moveTo(at.x, at.y - 3);
    context.lineTo(at.x + 3, at.y);
    context.lineTo(at.x, at.y + 3);
    context.lineTo(at.x - 3, at.y);
    context.fill();
  }
  if (picture.current < 0) return;
  const rect = model.rect(picture.current);
  const { y } = toOverview(scale, { x: 0, y: rect.y + rect.height / 2 });
  context.fillStyle = palette.now;
  context.fillRect(2, Math.round(y) - 0.75, width - 4, 1.5);
}

function drawBoxesSmall(
  context: CanvasRenderingContext2D,
  drawing: Coloured,
  scale: OverviewScale,
): void {
  const { live, palette } = drawing;
  const { scene } = drawing.model;
  for (let box = 0; box < scene.boxes; box++) {
    const at = toOverview(scale, { x: scene.x[box]!, y: scene.y[box]! });
    const width = Math.max(1.5, scene.width[box]! * scale.x);
    const height = Math.max(1, scene.height[box]! * scale.y);
    const ref = scene.ref[box]!;
    if (scene.kind[box] === BOX_SCOPE) {
      if (height < 4) continue;
      context.strokeStyle = palette["line-strong"];
      context.lineWidth = 1;
      context.strokeRect(
        Math.round(at.x) + 0.5,
        Math.round(at.y) + 0.5,
        Math.round(width) - 1,
        Math.round(height) - 1,
      );
      continue;
    }
    const tall = Math.min(height, Math.max(1.5, height * 0.7));
    if (scene.kind[box] === BOX_FOLD) {
      let x = at.x;
      context.globalAlpha = live.groupDone[ref] === 1 ? 0.85 : 0.35;
      for (const [colour, share] of stripOf(drawing, ref)) {
        const length = share * width;
        if (length <= 0) continue;
        context.fillStyle = colour;
        context.fillRect(x, at.y, length, tall);
        x += length;
      }
      context.globalAlpha = 1;
      continue;
    }
    const colour = nodeColour(drawing, ref);
    context.fillStyle = mix(palette["bg-panel"], colour, live.done[ref] === 1 ? 0.85 : 0.35);
    context.fillRect(at.x, at.y, width, tall);
  }
}

function drawView(
  context: CanvasRenderingContext2D,
  view: Rect,
  palette: Palette,
  scale: OverviewScale,
  width: number,
  height: number,
): void {
  const a = toOverview(scale, view);
  const b = toOverview(scale, { x: view.x + view.width, y: view.y + view.height });
  const x0 = clamp(a.x, 1, width - 4);
  const y0 = clamp(a.y, 1, height - 4);
  const x1 = clamp(b.x, x0 + 3, width - 1);
  const y1 = clamp(b.y, y0 + 3, height - 1);
  context.fillStyle = palette["select-wash"];
  context.fillRect(x0, y0, x1 - x0, y1 - y0);
  context.strokeStyle = palette.select;
  context.lineWidth = 1;
  context.strokeRect(
    Math.round(x0) + 0.5,
    Math.round(y0) + 0.5,
    Math.round(x1 - x0) - 1,
    Math.round(y1 - y0) - 1,
  );
}
