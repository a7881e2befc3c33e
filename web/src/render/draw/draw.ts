/**
 * The input of every drawing function, and the small glyphs that they share.
 *
 * Invariant: the same functions draw the screen and the export.
 */

import type { Point, Rect } from "@/base/geometry";
import type { LiveState } from "@/render/draw/execution_overlay";
import type { Palette } from "@/render/draw/palette";
import type { Painter } from "@/render/paint/painter";
import type { SceneChanges } from "@/render/scene/changes";
import type { SceneModel } from "@/render/scene/model";
import type { ScenePath } from "@/render/scene/path";
import type {
  Amounts,
  BreakpointMark,
  ColourBy,
  CurrentMark,
  GraphItem,
  NodeBadge,
  Tints,
  WatchMarks,
} from "@/render/scene/types";

/** A shape beside an edge, if there is room. */
export interface EdgeLabel {
  readonly edge: number;
  readonly x: number;
  readonly y: number;
  readonly shape: string;
  readonly size: string;
  readonly rect: Rect;
}

export interface Drawing {
  readonly painter: Painter;
  readonly palette: Palette;
  readonly model: SceneModel;
  readonly live: LiveState;
  /** The visible part of the world. */
  readonly view: Rect;
  /** Screen px per world px. */
  readonly zoom: number;
  readonly colourBy: ColourBy;
  readonly tints: Tints;
  readonly amounts: Amounts;
  /** The top of the scale of colours by time or memory, in ns or bytes. */
  readonly heatMost: number;
  /** Boxes that match a search; undefined = no search. */
  readonly matches: ReadonlySet<number> | undefined;
  /** Changes made by a step, while they are shown. */
  readonly changes: SceneChanges | undefined;
  /** A chain, or the dependents of an edit, while shown. */
  readonly path: ScenePath | undefined;
  /** Shapes beside edges, if there is room. */
  readonly labels: readonly EdgeLabel[];
  /** The box of the current node, or of the folded scope around it; -1 for none. */
  readonly current: number;
  /** The box of the selected item; -1 for none. */
  readonly selected: number;
  /** `current`, if the overlay draws this box instead of the still picture; else -1. */
  readonly raised: number;
}

/** The edge under the pointer, and the position of the pointer in the world. */
export interface EdgeHover {
  readonly edge: number;
  readonly at: Point;
}

export interface Marks {
  readonly current: CurrentMark | undefined;
  readonly badge: NodeBadge | undefined;
  readonly breakpoints: ReadonlyMap<number, BreakpointMark>;
  readonly watchMarks: WatchMarks;
  readonly selection: GraphItem | undefined;
  readonly hover: GraphItem | undefined;
  /** Ids of nodes related to an item selected or pointed at elsewhere. */
  readonly linked: ReadonlySet<number>;
  /** Node whose gutter is under the pointer: a faint dot shows the effect of a click. */
  readonly gutter: number | undefined;
  readonly edge: EdgeHover | undefined;
}

/** Levels of detail, by zoom. */
export type Detail = "near" | "mid" | "far";

export function detailAt(zoom: number): Detail {
  return zoom >= 0.7 ? "near" : zoom >= 0.34 ? "mid" : "far";
}

export const DIMMED = 0.28;

/** Draws `∇`, which the fonts lack. `y` is the baseline of a text of this size. */
export function drawNabla(painter: Painter, x: number, y: number, colour: string, size = 12): void {
  const k = size / 12;
  painter.lines(
    [x + 0.5 * k, y - 8 * k, x + 8.5 * k, y - 8 * k, x + 4.5 * k, y - 0.5 * k],
    true,
    undefined,
    { colour, width: 1.3 * k },
  );
}

export function drawChevron(
  painter: Painter,
  x: number,
  y: number,
  open: boolean,
  colour: string,
): void {
  const points = open ? [x, y, x + 3, y + 3, x + 6, y] : [x + 1, y - 1, x + 4, y + 2, x + 1, y + 5];
  painter.lines(points, false, undefined, { colour, width: 1.5 });
}

export function drawDiamond(
  painter: Painter,
  x: number,
  y: number,
  radius: number,
  colour: string,
): void {
  painter.lines([x, y - radius, x + radius, y, x, y + radius, x - radius, y], true, colour);
}
