/**
 * Puts frames on the two canvases.
 *
 * Invariant: a frame is drawn completely or not at all; a host without size draws nothing.
 */

import { type Camera, seen } from "@/render/camera/camera";
import type { Drawing, Marks } from "@/render/draw/draw";
import type { Palette } from "@/render/draw/palette";
import { CanvasPainter } from "@/render/paint/canvas_painter";
import { drawGrid, drawOverlay, drawStill } from "@/render/paint/picture";
import { Stage } from "@/render/view/canvas_stack";

export class Screen {
  readonly stage: Stage;
  private readonly still: CanvasRenderingContext2D;
  private readonly over: CanvasRenderingContext2D;
  private readonly stillPainter: CanvasPainter;
  private readonly overPainter: CanvasPainter;

  constructor(host: HTMLElement, resized: () => void) {
    this.stage = new Stage(host, resized);
    this.still = context(this.stage.still);
    this.over = context(this.stage.overlay);
    this.stillPainter = new CanvasPainter(this.still);
    this.overPainter = new CanvasPainter(this.over);
  }

  drawStill(camera: Camera, palette: Palette, drawing: Omit<Drawing, "painter"> | undefined): void {
    if (this.empty) return;
    const { still, stillPainter, stage } = this;
    still.setTransform(1, 0, 0, 1, 0, 0);
    still.globalAlpha = 1;
    still.fillStyle = palette["bg-canvas"];
    still.fillRect(0, 0, stage.still.width, stage.still.height);
    this.toWorld(still, camera);
    stillPainter.reset();
    drawGrid(stillPainter, palette, seen(camera, stage.view), camera.zoom);
    if (drawing !== undefined) drawStill({ ...drawing, painter: stillPainter });
  }

  drawOverlay(camera: Camera, drawing: Omit<Drawing, "painter"> | undefined, marks: Marks): void {
    if (this.empty) return;
    const { over, overPainter, stage } = this;
    over.setTransform(1, 0, 0, 1, 0, 0);
    over.clearRect(0, 0, stage.overlay.width, stage.overlay.height);
    this.toWorld(over, camera);
    overPainter.reset();
    if (drawing !== undefined) drawOverlay({ ...drawing, painter: overPainter }, marks);
  }

  dispose(): void {
    this.stage.dispose();
  }

  private get empty(): boolean {
    return this.stage.view.width === 0 || this.stage.view.height === 0;
  }

  private toWorld(target: CanvasRenderingContext2D, camera: Camera): void {
    const scale = camera.zoom * this.stage.ratio;
    // Whole device px, so that borders at 100 % are sharp wherever the camera is.
    target.setTransform(
      scale,
      0,
      0,
      scale,
      Math.round(-camera.x * scale),
      Math.round(-camera.y * scale),
    );
  }
}

/** Loads the canvas's fonts: text drawn before that would stay in a fallback font. */
export function loadFonts(loaded: () => void): () => void {
  document.fonts?.addEventListener?.("loadingdone", loaded);
  for (const font of ['500 12px "Inter NS"', '400 10px "JetBrains Mono NS"']) {
    void document.fonts?.load?.(font).catch(() => undefined);
  }
  return () => document.fonts?.removeEventListener?.("loadingdone", loaded);
}

function context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const context = canvas.getContext("2d");
  if (context === null)
    throw new Error("This browser provides no 2D canvas, which the graph needs.");
  return context;
}
