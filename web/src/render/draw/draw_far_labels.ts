/**
 * Names of scopes over a picture too small for names inside it: at screen size, as on a map.
 *
 * Invariant: outer scopes are named first; a name covers neither another name nor the name in a
 * box, and stays in its own scope, unless that is outermost or too low for it. Names without room
 * are left out rather than made smaller.
 */

import { type Font, textWidth, truncateMiddle } from "@/base/fonts_metrics";
import { grow, overlaps, type Rect } from "@/base/geometry";
import { printable } from "@/base/printable";
import { groupLabel, HEADER_HEIGHT, SCOPE_FONT, SCOPE_PADDING } from "@/layout/sizes";
import { BOX_FOLD, BOX_SCOPE } from "@/layout/types";
import { hiddenBySmallScope } from "@/render/draw/box_style";
import { type Drawing, detailAt } from "@/render/draw/draw";

/** Below this zoom, a scope's name no longer fits into its header. */
export const LABELS_BELOW = 0.42;

/** Screen px. */
const SIZE = 10.5;
const LINE = 14;
const PAD = 3;
const GAP = 4;
/** Least room of an outermost scope's name, even beyond the border, so that it is always named. */
const OUTER_ROOM = 140;
const LEAST_ROOM = 26;
const MOST_LABELS = 300;

export interface ScopeLabel {
  readonly box: number;
  readonly text: string;
  /** World px. */
  readonly rect: Rect;
}

/** The positions of names: as many as have room. */
export function placeScopeLabels(drawing: Drawing, boxes: readonly number[]): ScopeLabel[] {
  const { model, zoom } = drawing;
  const placed: ScopeLabel[] = [];
  if (zoom >= LABELS_BELOW) return placed;
  const { scene, hierarchy } = model;
  const font = labelFont(zoom);
  const far = detailAt(zoom) === "far";
  const named = boxes.filter((box) => {
    const kind = scene.kind[box]!;
    return (kind === BOX_SCOPE || (far && kind === BOX_FOLD)) && !hiddenBySmallScope(drawing, box);
  });
  const area = (box: number): number => scene.width[box]! * scene.height[box]!;
  named.sort((a, b) => depthOf(drawing, a) - depthOf(drawing, b) || area(b) - area(a) || a - b);
  for (const box of named) {
    if (placed.length >= MOST_LABELS) break;
    // The invisible part on the left offers no room.
    const wide = (scene.x[box]! + scene.width[box]! - leftOf(drawing, box)) * zoom - 1;
    const room = depthOf(drawing, box) === 0 ? Math.max(wide, OUTER_ROOM) : wide;
    if (room < LEAST_ROOM) continue;
    const name = printable(groupLabel(hierarchy.groups[scene.ref[box]!]!), 120);
    const text = truncateMiddle(name, font, (room - 2 * PAD) / zoom);
    if (text.length < Math.min(3, name.length)) continue;
    const width = textWidth(text, font) + (2 * PAD) / zoom;
    // Far away, a name may cover bars, which have no names, but is preferably beside them.
    const rect =
      freeRect(drawing, box, width, placed, true) ??
      (far ? freeRect(drawing, box, width, placed, false) : undefined);
    if (rect !== undefined) placed.push({ box, text, rect });
  }
  return placed;
}

function labelFont(zoom: number): Font {
  return { ...SCOPE_FONT, size: SIZE / zoom };
}

function depthOf(drawing: Drawing, box: number): number {
  let depth = 0;
  const { parent } = drawing.model.scene;
  for (let at = parent[box]!; at >= 0; at = parent[at]!) depth++;
  return depth;
}

/** Whether a box is drawn with a name in it (unless far away); open scopes do not count. */
function hasName(drawing: Drawing, box: number): boolean {
  return drawing.model.scene.kind[box] !== BOX_SCOPE && !hiddenBySmallScope(drawing, box);
}

/** Where the name of a box begins: it stays visible while any part of the scope is. */
function leftOf({ model, zoom, view }: Drawing, box: number): number {
  const { x, width } = model.rect(box);
  return Math.min(Math.max(x + 1 / zoom, view.x + 4 / zoom), x + width);
}

/** The height of a line on screen; where boxes have names, at most the room above the boxes. */
function lineHeight({ zoom }: Drawing, far: boolean): number {
  const room = HEADER_HEIGHT + SCOPE_PADDING - 2;
  return far ? LINE / zoom : Math.min(LINE / zoom, room);
}

/**
 * A free place for a name: the box's top left corner, a line further down, or the top right corner.
 *
 * Args: clear: Whether the name must not cover any other box, open scopes aside.
 */
function freeRect(
  drawing: Drawing,
  box: number,
  width: number,
  placed: readonly ScopeLabel[],
  clear: boolean,
): Rect | undefined {
  const { model, zoom, view } = drawing;
  const own = model.rect(box);
  const far = detailAt(zoom) === "far";
  const height = lineHeight(drawing, far);
  const open = model.scene.kind[box] === BOX_SCOPE;
  const x = leftOf(drawing, box);
  const top = open
    ? Math.max(own.y + 1 / zoom, Math.min(view.y + 2 / zoom, own.y + own.height - height))
    : own.y + (own.height - height) / 2;
  const lines = open ? 3 : 1;
  const ringed = [drawing.current, drawing.selected]
    .filter((other) => other >= 0 && other !== box && model.scene.kind[other] !== BOX_SCOPE)
    .map((other) => grow(model.rect(other), 5 / zoom));
  const free = (at: Rect) =>
    // Never over the current or the selected node: its ring would cross out the name.
    !ringed.some((ring) => overlaps(ring, at)) &&
    (!clear || !model.boxesIn(at).some((other) => other !== box && hasName(drawing, other)));
  for (let line = 0; line < lines; line++) {
    const y = top + line * height;
    if (line > 0 && y + height > own.y + own.height) return undefined;
    const rect = { x, y, width, height };
    // Without a gap, two adjacent names would read as one.
    const apart = { ...rect, x: x - GAP / zoom, width: width + (2 * GAP) / zoom };
    const blocking = placed.find((other) => overlaps(other.rect, apart));
    if (blocking === undefined) {
      if (free(rect)) return rect;
      continue;
    }
    const beside = { ...rect, x: blocking.rect.x + blocking.rect.width + GAP / zoom };
    const inside = beside.x + width <= own.x + own.width;
    if (inside && !placed.some((other) => overlaps(other.rect, beside)) && free(beside)) {
      return beside;
    }
  }
  const corner = { x: own.x + own.width - width - 1 / zoom, y: top, width, height };
  const reachable = corner.x > x && corner.x + width <= view.x + view.width;
  if (open && clear && far && reachable && free(corner)) {
    if (!placed.some((other) => overlaps(other.rect, corner))) return corner;
  }
  if (!open || far) return undefined;
  // Nearer, a scope of one node has no room above that node: the name goes above the scope.
  const above = { x, y: own.y - height, width, height };
  const covers = model.boxesIn(above).some((box) => hasName(drawing, box));
  const meets = placed.some((other) => overlaps(other.rect, above));
  return covers || meets || above.y < view.y ? undefined : above;
}

export function drawScopeLabels(drawing: Drawing, boxes: readonly number[]): void {
  const { painter, palette, live, model, zoom } = drawing;
  const font = labelFont(zoom);
  for (const { box, text, rect } of placeScopeLabels(drawing, boxes)) {
    const done = live.groupDone[model.scene.ref[box]!] === 1;
    // Opaque: a name may be wider than its scope, whose border would cross it out.
    painter.rect(rect.x, rect.y, rect.width, rect.height, 3 / zoom, palette["bg-panel"]);
    painter.text(
      rect.x + PAD / zoom,
      rect.y + rect.height - 3.5 / zoom,
      text,
      font,
      palette[done ? "text" : "text-2"],
    );
  }
}
