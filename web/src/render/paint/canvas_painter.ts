/**
 * Paints on a 2D canvas context whose transform is the camera.
 *
 * Invariant: `reset` sets the context's dash, alpha, line joins and baseline to known values.
 */

import type { Font } from "@/base/fonts_metrics";
import {
  type Align,
  curveArms,
  dashPattern,
  type Painter,
  type Route,
  type Stroke,
} from "@/render/paint/painter";

export const SANS = '"Inter NS", Inter, "Segoe UI", system-ui, sans-serif';
export const MONO = '"JetBrains Mono NS", "JetBrains Mono", Menlo, Consolas, monospace';

export class CanvasPainter implements Painter {
  private font = "";
  private dashed = false;

  constructor(private readonly context: CanvasRenderingContext2D) {}

  /** Call this before each frame: a resize may have reset the context. */
  reset(): void {
    this.font = "";
    this.dashed = false;
    this.context.setLineDash([]);
    this.context.globalAlpha = 1;
    this.context.lineJoin = "round";
    this.context.textBaseline = "alphabetic";
  }

  alpha(value: number): void {
    this.context.globalAlpha = value;
  }

  rect(
    x: number,
    y: number,
    width: number,
    height: number,
    radius: number,
    fill: string | undefined,
    stroke?: Stroke,
  ): void {
    const { context } = this;
    context.beginPath();
    if (radius > 0) context.roundRect(x, y, width, height, Math.min(radius, height / 2));
    else context.rect(x, y, width, height);
    this.finish(fill, stroke);
  }

  blocks(rects: readonly number[], fill: string): void {
    const { context } = this;
    context.fillStyle = fill;
    for (let at = 0; at < rects.length; at += 4) {
      context.fillRect(rects[at]!, rects[at + 1]!, rects[at + 2]!, rects[at + 3]!);
    }
  }

  circle(x: number, y: number, radius: number, fill: string | undefined, stroke?: Stroke): void {
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.finish(fill, stroke);
  }

  lines(
    points: readonly number[],
    close: boolean,
    fill: string | undefined,
    stroke?: Stroke,
  ): void {
    const { context } = this;
    context.beginPath();
    context.moveTo(points[0]!, points[1]!);
    for (let at = 2; at < points.length; at += 2) context.lineTo(points[at]!, points[at + 1]!);
    if (close) context.closePath();
    this.finish(fill, stroke);
  }

  route(route: Route, stroke: Stroke): void {
    const { context } = this;
    const { points } = route;
    context.beginPath();
    let x = points[2 * route.start]!;
    let y = points[2 * route.start + 1]!;
    let straight = route.straightFirst;
    context.moveTo(x, y);
    for (let at = route.start + 1; at < route.end; at++) {
      const nextX = points[2 * at]!;
      const nextY = points[2 * at + 1]!;
      if (straight || Math.abs(nextX - x) < 0.5) context.lineTo(nextX, nextY);
      else {
        const [first, second] = curveArms(y, nextY);
        context.bezierCurveTo(x, first, nextX, second, nextX, nextY);
      }
      x = nextX;
      y = nextY;
      straight = !straight;
    }
    this.finish(undefined, stroke);
  }

  text(x: number, y: number, text: string, font: Font, colour: string, align?: Align): void {
    const { context } = this;
    const css = `${font.weight} ${font.size}px ${font.face === "sans" ? SANS : MONO}`;
    if (css !== this.font) {
      context.font = css;
      this.font = css;
    }
    context.textAlign = align === "right" ? "right" : align === "middle" ? "center" : "left";
    context.fillStyle = colour;
    context.fillText(text, x, y);
  }

  private finish(fill: string | undefined, stroke: Stroke | undefined): void {
    const { context } = this;
    if (fill !== undefined) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke === undefined) return;
    const dash = dashPattern(stroke.dash, stroke.width);
    if (dash.length > 0 || this.dashed) {
      context.setLineDash(dash as number[]);
      this.dashed = dash.length > 0;
      context.lineCap = stroke.dash === "dotted" ? "round" : "butt";
    }
    context.strokeStyle = stroke.colour;
    context.lineWidth = stroke.width;
    context.stroke();
  }
}
