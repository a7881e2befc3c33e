/**
 * Hit-testing: the item at a point of the world.
 *
 * Invariant: the innermost box wins; an open scope is hit only at its header, so that a click on
 * empty space inside it selects nothing by accident.
 */

import { clamp, type Point } from "@/base/geometry";
import { HEADER_HEIGHT } from "@/layout/sizes";
import { BOX_FAR, BOX_FOLD, BOX_NODE, BOX_SCOPE } from "@/layout/types";
import { detailAt, type EdgeHover } from "@/render/draw/draw";
import type { SceneModel } from "@/render/scene/model";
import { type StackAct, stackControlAt } from "@/render/scene/stack_controls";
import type { GraphItem } from "@/render/scene/types";

export interface Hit {
  readonly box: number;
  readonly item: GraphItem;
  /** On the header of an open scope or on a folded one: a double click folds or opens. */
  readonly foldable: boolean;
  /** On the chevron. */
  readonly chevron: boolean;
  /** In the strip at the left of a node where breakpoints are set. */
  readonly gutter: boolean;
  /** On a control of a stack. */
  readonly stack: StackAct | undefined;
}

/** Width of the gutter inside a node, and how far it extends to the dot beside it, in px. */
export const GUTTER_INSIDE = 14;
const GUTTER_OUTSIDE = 15;
const CHEVRON = 20;

export function hitTest(model: SceneModel, point: Point): Hit | undefined {
  const { scene } = model;
  const around = { x: point.x, y: point.y, width: GUTTER_OUTSIDE, height: 0 };
  let best = -1;
  let besideBest = -1;
  for (const box of model.boxesIn(around)) {
    const rect = model.rect(box);
    const inside = point.x >= rect.x && point.x <= rect.x + rect.width;
    if (inside) {
      const header = point.y <= rect.y + HEADER_HEIGHT;
      if (scene.kind[box] !== BOX_SCOPE || header) best = box;
    } else if (scene.kind[box] === BOX_NODE && point.x < rect.x) besideBest = box;
  }
  if (best < 0 || (besideBest >= 0 && scene.kind[best] === BOX_SCOPE)) {
    if (besideBest >= 0) best = besideBest;
  }
  if (best < 0) return undefined;
  const x = point.x - scene.x[best]!;
  const group = model.isGroup(best);
  return {
    box: best,
    item: model.itemOf(best),
    foldable: group,
    chevron: group && x <= CHEVRON,
    gutter: scene.kind[best] === BOX_NODE && x <= GUTTER_INSIDE,
    stack: stackControlAt(model, best, point),
  };
}

/** The path of the folded scope or stack at a point. */
export function foldAt(model: SceneModel, point: Point): string | undefined {
  const hit = hitTest(model, point);
  if (hit === undefined || model.scene.kind[hit.box] !== BOX_FOLD) return undefined;
  return hit.item.kind === "scope" ? hit.item.path : undefined;
}

/** What is under the pointer, as the overlay and the cursor show it. */
export interface Pointed {
  readonly hover: GraphItem | undefined;
  /** Id of the node whose gutter is under the pointer. */
  readonly gutter: number | undefined;
  readonly edge: EdgeHover | undefined;
  readonly cursor: "grab" | "pointer" | "default";
}

export const NOWHERE: Pointed = {
  hover: undefined,
  gutter: undefined,
  edge: undefined,
  cursor: "grab",
};

export function pointedAt(model: SceneModel, point: Point, zoom: number): Pointed {
  const hit = hitTest(model, point);
  if (hit === undefined || model.scene.kind[hit.box] === BOX_SCOPE) {
    const edge = edgeAt(model, point, EDGE_SLACK / zoom);
    if (edge >= 0) return { ...NOWHERE, edge: { edge, at: point }, cursor: "default" };
  }
  if (hit === undefined) return NOWHERE;
  const { item } = hit;
  return {
    hover: item,
    gutter: hit.gutter && item.kind === "node" ? item.id : undefined,
    edge: undefined,
    cursor: hit.gutter || hit.chevron || stackActOf(hit, zoom) ? "pointer" : "default",
  };
}

/** The control of a stack that was hit, if it is drawn. */
export function stackActOf(hit: Hit, zoom: number): StackAct | undefined {
  return detailAt(zoom) === "near" ? hit.stack : undefined;
}

export function samePointed(a: Pointed, b: Pointed): boolean {
  return sameItem(a.hover, b.hover) && a.gutter === b.gutter && a.edge?.edge === b.edge?.edge;
}

const EDGE_SLACK = 5;
const PIECES = 8;

/** The edge nearest a point, -1 if none is within `slack` (world px). */
export function edgeAt(model: SceneModel, point: Point, slack: number): number {
  const around = {
    x: point.x - slack,
    y: point.y - slack,
    width: 2 * slack,
    height: 2 * slack,
  };
  let best = -1;
  let least = slack;
  for (const edge of model.edgesIn(around)) {
    const distance = distanceTo(model, edge, point);
    if (distance >= least) continue;
    least = distance;
    best = edge;
  }
  return best;
}

/** Distance to an edge's line, with curves approximated by a few straight pieces. */
function distanceTo(model: SceneModel, edge: number, point: Point): number {
  const { start, points } = model.scene;
  let least = Number.POSITIVE_INFINITY;
  for (let at = start[edge]!; at + 1 < start[edge + 1]!; at++) {
    const [x0, y0, x1, y1] = [
      points[2 * at]!,
      points[2 * at + 1]!,
      points[2 * at + 2]!,
      points[2 * at + 3]!,
    ];
    const pieces = Math.abs(x1 - x0) < 0.5 ? 1 : PIECES;
    let from: Point = { x: x0, y: y0 };
    for (let k = 1; k <= pieces; k++) {
      const t = k / pieces;
      // A curve that leaves and enters vertically, as the painters draw it.
      const to = {
        x: x0 + (x1 - x0) * t * t * (3 - 2 * t),
        y: y0 + (y1 - y0) * (1.5 * t - 1.5 * t * t + t * t * t),
      };
      least = Math.min(least, distanceToPiece(point, from, to));
      from = to;
    }
  }
  return least;
}

function distanceToPiece(point: Point, from: Point, to: Point): number {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const along = ((point.x - from.x) * dx + (point.y - from.y) * dy) / (dx * dx + dy * dy || 1);
  const t = clamp(along, 0, 1);
  return Math.hypot(point.x - from.x - t * dx, point.y - from.y - t * dy);
}

/** The neighbour of a box along edges (up, down) or beside it (left, right). */
export function neighbourOf(
  model: SceneModel,
  box: number,
  direction: "up" | "down" | "left" | "right",
): number {
  const { scene } = model;
  const middleX = scene.x[box]! + scene.width[box]! / 2;
  const middleY = scene.y[box]! + scene.height[box]! / 2;
  const vertical = direction === "up" || direction === "down";
  const sign = direction === "up" || direction === "left" ? -1 : 1;
  let best = -1;
  let least = Number.POSITIVE_INFINITY;
  const consider = (other: number, cost: number): void => {
    if (other === box || other < 0 || cost >= least) return;
    least = cost;
    best = other;
  };
  const distance = (other: number): readonly [number, number] => [
    scene.x[other]! + scene.width[other]! / 2 - middleX,
    scene.y[other]! + scene.height[other]! / 2 - middleY,
  ];
  if (vertical) {
    for (const other of connected(model, box)) {
      const [dx, dy] = distance(other);
      if (dy * sign > 1) consider(other, Math.abs(dy) + 0.5 * Math.abs(dx));
    }
    if (best >= 0) return best;
  }
  for (let other = 0; other < scene.boxes; other++) {
    if (scene.kind[other] === BOX_SCOPE || scene.kind[other] === BOX_FAR) continue;
    const [dx, dy] = distance(other);
    const along = (vertical ? dy : dx) * sign;
    const across = Math.abs(vertical ? dx : dy);
    if (along > 4 && across < 3 * along + 40) consider(other, along + 3 * across);
  }
  return best;
}

/** The box at the beginning of an edge; for a far stub, the box of its producer. */
function sourceOf(model: SceneModel, edge: number): number {
  const { scene } = model;
  const source = scene.source[edge]!;
  return scene.kind[source] === BOX_FAR ? model.visibleBox(scene.ref[source]!) : source;
}

/** Boxes joined to `box` by an edge, through the borders of scopes. */
function connected(model: SceneModel, box: number): number[] {
  const { scene } = model;
  const joined: number[] = [];
  const values = new Map<number, boolean>();
  for (let edge = 0; edge < scene.edges; edge++) {
    const source = sourceOf(model, edge);
    const target = scene.target[edge]!;
    if (source !== box && target !== box) continue;
    const other = source === box ? target : source;
    if (scene.kind[other] === BOX_SCOPE) values.set(scene.value[edge]!, source === box);
    else joined.push(other);
  }
  if (values.size === 0) return joined;
  for (let edge = 0; edge < scene.edges; edge++) {
    const down = values.get(scene.value[edge]!);
    if (down === undefined) continue;
    const end = down ? scene.target[edge]! : sourceOf(model, edge);
    if (scene.kind[end] !== BOX_SCOPE) joined.push(end);
  }
  return joined;
}

export function sameItem(a: GraphItem | undefined, b: GraphItem | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.kind === "node"
    ? b.kind === "node" && a.id === b.id
    : b.kind === "scope" && a.path === b.path;
}
