/**
 * The interface for drawing the picture. The drawing code uses a `Painter`: one implementation
 * paints on a canvas, another writes SVG.
 *
 * Invariant: coordinates are world px (100 %); a painter keeps no state but alpha.
 */

import type { Font } from "@/base/fonts_metrics";

export type Dash = "solid" | "dashed" | "dotted";
export type Align = "left" | "middle" | "right";

export interface Stroke {
  readonly colour: string;
  readonly width: number;
  readonly dash?: Dash;
}

/** Points of a path; pieces between them are alternately straight and curved, as in the layout. */
export interface Route {
  readonly points: ArrayLike<number>;
  /** Counted in points, not numbers. */
  readonly start: number;
  readonly end: number;
  /** The first piece is straight; false = curved. */
  readonly straightFirst: boolean;
}

export interface Painter {
  /** Begins one box, up to `unnamed`: its id, unique in the picture, and its full name. */
  named?(id: string, name: string): void;
  unnamed?(): void;
  /** Opacity of everything that follows. */
  alpha(value: number): void;
  rect(
    x: number,
    y: number,
    width: number,
    height: number,
    radius: number,
    fill: string | undefined,
    stroke?: Stroke,
  ): void;
  /** Many plain rectangles of one colour: x, y, width, height by four. */
  blocks(rects: readonly number[], fill: string): void;
  circle(x: number, y: number, radius: number, fill: string | undefined, stroke?: Stroke): void;
  /** Straight lines through points given as x, y pairs. */
  lines(points: readonly number[], close: boolean, fill: string | undefined, stroke?: Stroke): void;
  route(route: Route, stroke: Stroke): void;
  /** `y` is the baseline. */
  text(x: number, y: number, text: string, font: Font, colour: string, align?: Align): void;
}

/** Dash lengths for a line of this width. */
export function dashPattern(dash: Dash | undefined, width: number): readonly number[] {
  if (dash === "dashed") return [3, 3];
  if (dash === "dotted") return [Math.min(1.5, width), 4];
  return [];
}

/** Ends of a curved piece's control arms: it leaves and enters vertically. */
export function curveArms(y0: number, y1: number): readonly [number, number] {
  const half = (y1 - y0) / 2;
  return [y0 + half, y1 - half];
}
