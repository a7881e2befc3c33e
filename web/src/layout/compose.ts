/**
 * The whole picture: the forward pass, the backward pass as an upward column to its right, and the
 * optimizer above that column or to the right; all boxes and edges at absolute positions.
 *
 * Invariant: edges between columns are not part of the layered layout: the backward pass reads
 * nearly everything from the forward pass, and these edges would hide both.
 */

import {
  COLUMN_BACKWARD,
  COLUMN_OPTIMIZER,
  farOf,
  type Hierarchy,
  isFar,
  isPort,
  isStub,
  stubOf,
} from "@/layout/hierarchy";
import { type GroupLayout, NestedLayout, type WantedY } from "@/layout/nested";
import {
  BOX_FAR,
  BOX_FOLD,
  BOX_INPUT,
  BOX_NODE,
  BOX_SCOPE,
  BOX_STUB,
  EDGE_BACK,
  EDGE_INTO_SCOPE,
  EDGE_OUT_OF_SCOPE,
  LINK_GRADIENTS,
  LINK_SEED,
  type Scene,
} from "@/layout/types";

const COLUMN_GAP = 64;
const ABOVE_GAP = 34;

/** Lays out the picture for a set of open scope paths. */
export function composeScene(
  layout: NestedLayout,
  open: "all" | ReadonlySet<string>,
  version: number,
): Scene {
  const { hierarchy } = layout;
  layout.setOpen(open);
  const picture = new Picture(layout);
  const forward = layout.of(0);
  picture.place(forward, 0, 0, -1);
  const backward = columnGroup(hierarchy, COLUMN_BACKWARD);
  const optimizer = columnGroup(hierarchy, COLUMN_OPTIMIZER);
  const column = placeBackward(picture, backward, forward);
  placeOptimizer(picture, optimizer, forward, backward, column);
  picture.link(backward, optimizer);
  return picture.scene(version);
}

function columnGroup(hierarchy: Hierarchy, column: number): number {
  const name = column === COLUMN_BACKWARD ? "backward" : "optimizer";
  return hierarchy.groupAt.get(name) ?? -1;
}

/** The bounds of a placed column, px. */
interface Column {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

function placeBackward(
  picture: Picture,
  backward: number,
  forward: GroupLayout,
): Column | undefined {
  if (backward < 0) return undefined;
  const { layout } = picture;
  const left = forward.width === 0 ? 0 : forward.width + COLUMN_GAP;
  if (layout.isOpen(backward)) {
    const laid = layout.aligned(backward, counterparts(picture, backward));
    const box = picture.group(backward, left, laid.wishedTop, laid.width, laid.height, -1);
    picture.place(laid, left, laid.wishedTop, box);
    return {
      left,
      top: laid.wishedTop,
      right: left + laid.width,
      bottom: laid.wishedTop + laid.height,
    };
  }
  const { width, height } = layout.groupSize(backward);
  const seed = picture.boxOf(layout.hierarchy.seed[0]);
  const level =
    seed < 0
      ? forward.height - height / 2
      : picture.y[seed]! + Math.min(picture.height[seed]!, 400) / 2;
  const top = Math.round(level - height / 2);
  picture.group(backward, left, top, width, height, -1);
  return { left, top, right: left + width, bottom: top + height };
}

/** For each child of the backward column, the middle of its drawn forward counterpart. */
function counterparts(picture: Picture, backward: number): WantedY {
  const { hierarchy } = picture.layout;
  const prefix = hierarchy.groups[backward]!.path.length + 1;
  return (item) => {
    let box = -1;
    if (item < hierarchy.nodes.length) {
      box = picture.boxOf(hierarchy.indexOf.get(hierarchy.nodes[item]!.forward ?? -1) ?? -1);
    } else if (!isPort(item) && !isStub(item)) {
      const { path: own, stack } = hierarchy.groups[item - hierarchy.nodes.length]!;
      const path = stack?.first ?? own;
      box = picture.boxOfGroup(hierarchy.groupAt.get(path.slice(prefix)) ?? -1);
    }
    return box < 0 ? Number.NaN : picture.y[box]! + picture.height[box]! / 2;
  };
}

function placeOptimizer(
  picture: Picture,
  optimizer: number,
  forward: GroupLayout,
  backward: number,
  column: Column | undefined,
): void {
  if (optimizer < 0) return;
  const { layout } = picture;
  const { width, height } = layout.groupSize(optimizer);
  const right = column?.right ?? forward.width;
  if (layout.isOpen(optimizer)) {
    const left = right + COLUMN_GAP;
    const top = backward >= 0 && layout.isOpen(backward) ? column!.top : 0;
    const box = picture.group(optimizer, left, top, width, height, -1);
    picture.place(layout.of(optimizer), left, top, box);
    return;
  }
  const left =
    column === undefined
      ? right + COLUMN_GAP
      : Math.round((column.left + column.right - width) / 2);
  const top = column === undefined ? 0 : column.top - ABOVE_GAP - height;
  picture.group(optimizer, Math.max(left, forward.width + COLUMN_GAP), top, width, height, -1);
}

/** Boxes and edges being placed. */
class Picture {
  readonly kind: number[] = [];
  readonly ref: number[] = [];
  readonly parent: number[] = [];
  readonly x: number[] = [];
  readonly y: number[] = [];
  readonly width: number[] = [];
  readonly height: number[] = [];
  private readonly source: number[] = [];
  private readonly target: number[] = [];
  private readonly flags: number[] = [];
  private readonly producer: number[] = [];
  private readonly value: number[] = [];
  private readonly bundle: number[] = [];
  private readonly bytes: number[] = [];
  private readonly start: number[] = [0];
  private readonly shared: number[] = [];
  private readonly points: number[] = [];
  private readonly links: number[] = [];
  private readonly nodeBox: Int32Array;
  private readonly groupBox: Int32Array;

  constructor(readonly layout: NestedLayout) {
    this.nodeBox = new Int32Array(layout.hierarchy.nodes.length).fill(-1);
    this.groupBox = new Int32Array(layout.hierarchy.groups.length).fill(-1);
  }

  private box(
    kind: number,
    ref: number,
    x: number,
    y: number,
    width: number,
    height: number,
    parent: number,
  ): number {
    this.kind.push(kind);
    this.ref.push(ref);
    this.parent.push(parent);
    // Whole px, so that borders are sharp at 100 %.
    this.x.push(Math.round(x));
    this.y.push(Math.round(y));
    this.width.push(Math.round(width));
    this.height.push(Math.round(height));
    return this.kind.length - 1;
  }

  group(
    group: number,
    x: number,
    y: number,
    width: number,
    height: number,
    parent: number,
  ): number {
    const kind = this.layout.isOpen(group) ? BOX_SCOPE : BOX_FOLD;
    // A stack that shows a single scope is drawn as that scope.
    const one = this.layout.shownOf(group);
    const box = this.box(kind, one < 0 ? group : one, x, y, width, height, parent);
    this.groupBox[group] = box;
    if (one >= 0) this.groupBox[one] = box;
    return box;
  }

  /** Places the content of a group whose top left corner is at (x, y). */
  place(laid: GroupLayout, x: number, y: number, parent: number): void {
    const { hierarchy } = this.layout;
    const nodes = hierarchy.nodes.length;
    const boxes = new Map<number, number>();
    laid.items.forEach((key, k) => {
      const left = x + laid.x[k]!;
      const top = y + laid.y[k]!;
      const width = laid.itemWidth[k]!;
      const height = laid.itemHeight[k]!;
      if (isPort(key)) {
        boxes.set(key, parent);
      } else if (isFar(key)) {
        const node = laid.far[farOf(key)]!;
        boxes.set(key, this.box(BOX_FAR, node, left, top, width, height, parent));
      } else if (isStub(key)) {
        const { node } = hierarchy.stubs[stubOf(key)]!;
        boxes.set(key, this.box(BOX_STUB, node, left, top, width, height, parent));
      } else if (key < nodes) {
        const kind = hierarchy.nodes[key]!.family === "leaf" ? BOX_INPUT : BOX_NODE;
        const box = this.box(kind, key, left, top, width, height, parent);
        this.nodeBox[key] = box;
        boxes.set(key, box);
      } else {
        const box = this.group(key - nodes, left, top, width, height, parent);
        boxes.set(key, box);
        if (!this.layout.isOpen(key - nodes)) return;
        this.place(this.layout.of(key - nodes), left, top, box);
      }
    });
    this.edges(laid, x + laid.dx, y + laid.dy, boxes);
  }

  private edges(
    laid: GroupLayout,
    dx: number,
    dy: number,
    boxes: ReadonlyMap<number, number>,
  ): void {
    const { start, points, shared, reversed } = laid.route;
    laid.edges.forEach((edge, k) => {
      if (start[k] === start[k + 1]) return;
      this.source.push(boxes.get(edge.from)!);
      this.target.push(boxes.get(edge.to)!);
      this.flags.push(
        (reversed[k] === 1 ? EDGE_BACK : 0) |
          (isPort(edge.to) ? EDGE_OUT_OF_SCOPE : 0) |
          (isPort(edge.from) ? EDGE_INTO_SCOPE : 0),
      );
      this.producer.push(edge.producer);
      this.value.push(edge.value);
      this.bundle.push(edge.bundle);
      this.bytes.push(edge.bytes);
      this.shared.push(shared[k]!);
      for (let at = start[k]!; at < start[k + 1]!; at++) {
        this.points.push(points[2 * at]! + dx, points[2 * at + 1]! + dy);
      }
      this.start.push(this.points.length / 2);
    });
  }

  /** The box of a node, or of the folded scope that hides it; -1 if it has none. */
  boxOf(node: number): number {
    if (node < 0) return -1;
    const { host, groupOf } = this.layout.hierarchy;
    const shown = host[node]! >= 0 ? host[node]! : node;
    return this.nodeBox[shown]! >= 0 ? this.nodeBox[shown]! : this.boxOfGroup(groupOf[shown]!);
  }

  boxOfGroup(group: number): number {
    const { groups } = this.layout.hierarchy;
    for (let at = group; at > 0; at = groups[at]!.parent) {
      if (this.groupBox[at]! >= 0) return this.groupBox[at]!;
    }
    return -1;
  }

  link(backward: number, optimizer: number): void {
    const { seed } = this.layout.hierarchy;
    const from = this.boxOf(seed[0]);
    const to = this.boxOf(seed[1]);
    if (from >= 0 && to >= 0) this.links.push(LINK_SEED, from, to);
    if (backward < 0 || optimizer < 0) return;
    this.links.push(LINK_GRADIENTS, this.groupBox[backward]!, this.groupBox[optimizer]!);
  }

  scene(version: number): Scene {
    let left = Number.POSITIVE_INFINITY;
    let top = Number.POSITIVE_INFINITY;
    let right = Number.NEGATIVE_INFINITY;
    let bottom = Number.NEGATIVE_INFINITY;
    for (let box = 0; box < this.kind.length; box++) {
      left = Math.min(left, this.x[box]!);
      top = Math.min(top, this.y[box]!);
      right = Math.max(right, this.x[box]! + this.width[box]!);
      bottom = Math.max(bottom, this.y[box]! + this.height[box]!);
    }
    // Lines from column to column run below and above all boxes.
    for (let at = 0; at < this.points.length; at += 2) {
      left = Math.min(left, this.points[at]!);
      top = Math.min(top, this.points[at + 1]!);
      right = Math.max(right, this.points[at]!);
      bottom = Math.max(bottom, this.points[at + 1]!);
    }
    if (this.kind.length === 0) left = top = right = bottom = 0;
    return {
      version,
      boxes: this.kind.length,
      left,
      top,
      right,
      bottom,
      kind: Uint8Array.from(this.kind),
      ref: Int32Array.from(this.ref),
      parent: Int32Array.from(this.parent),
      x: Float32Array.from(this.x),
      y: Float32Array.from(this.y),
      width: Float32Array.from(this.width),
      height: Float32Array.from(this.height),
      edges: this.source.length,
      source: Int32Array.from(this.source),
      target: Int32Array.from(this.target),
      edgeFlags: Uint8Array.from(this.flags),
      producer: Int32Array.from(this.producer),
      value: Float64Array.from(this.value),
      bundle: Int32Array.from(this.bundle),
      bytes: Float64Array.from(this.bytes),
      start: Int32Array.from(this.start),
      points: Float32Array.from(this.points),
      shared: Int32Array.from(this.shared),
      links: Int32Array.from(this.links),
    };
  }
}
