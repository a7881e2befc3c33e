/**
 * A scene with the look-ups that drawing, hit-testing and the keyboard need.
 *
 * Invariant: belongs to one scene and never changes.
 */

import Flatbush from "flatbush";
import { overlaps, type Rect } from "@/base/geometry";
import type { Stack } from "@/base/repeats";
import { COLUMN_BACKWARD, type Group, type Hierarchy } from "@/layout/hierarchy";
import { isGradient } from "@/layout/sizes";
import { BOX_FAR, BOX_FOLD, BOX_SCOPE, type Scene } from "@/layout/types";
import type { GraphItem } from "@/render/scene/types";

export class SceneModel {
  /** Own box by node index and by group index; -1 = hidden in a folded scope. */
  readonly nodeBox: Int32Array;
  readonly groupBox: Int32Array;
  /** Boxes of the nodes whose values the backward column reads. */
  readonly savedBoxes: readonly number[];
  /** Far stubs of a node, beside its readers, by node index. */
  readonly farBoxes: ReadonlyMap<number, readonly number[]>;
  private readonly boxes: Flatbush | undefined;
  private readonly routes: Flatbush | undefined;
  private readonly boxesOfIds = new WeakMap<ReadonlySet<number>, ReadonlySet<number>>();

  constructor(
    readonly hierarchy: Hierarchy,
    readonly scene: Scene,
    private readonly still = true,
  ) {
    this.nodeBox = new Int32Array(hierarchy.nodes.length).fill(-1);
    this.groupBox = new Int32Array(hierarchy.groups.length).fill(-1);
    const farBoxes = new Map<number, number[]>();
    for (let box = 0; box < scene.boxes; box++) {
      const ref = scene.ref[box]!;
      if (scene.kind[box] === BOX_FAR) {
        farBoxes.set(ref, [...(farBoxes.get(ref) ?? []), box]);
        continue;
      }
      const target = this.isGroup(box) ? this.groupBox : this.nodeBox;
      if (target[ref] === -1) target[ref] = box;
    }
    this.farBoxes = farBoxes;
    for (const { stack, index, groups } of hierarchy.groups) {
      if (stack === undefined || this.groupBox[index] !== -1) continue;
      // The scope that is shown represents the stack.
      for (const one of groups) {
        if (this.groupBox[one] !== -1) this.groupBox[index] = this.groupBox[one]!;
      }
    }
    this.savedBoxes = this.findSaved();
    if (!still) return;
    this.boxes = indexOf(scene.boxes, (box) => this.rect(box));
    this.routes = indexOf(scene.edges, (edge) => this.routeRect(edge));
  }

  /** The same boxes at other positions, for a frame of a tween; searched without an index. */
  moved(scene: Scene): SceneModel {
    return new SceneModel(this.hierarchy, scene, false);
  }

  isGroup(box: number): boolean {
    const kind = this.scene.kind[box];
    return kind === BOX_FOLD || kind === BOX_SCOPE;
  }

  rect(box: number): Rect {
    const { x, y, width, height } = this.scene;
    return { x: x[box]!, y: y[box]!, width: width[box]!, height: height[box]! };
  }

  /** Boxes that touch a rectangle, parents before children. */
  boxesIn(view: Rect): number[] {
    if (!this.still) {
      return Array.from({ length: this.scene.boxes }, (_, box) => box).filter((box) =>
        overlaps(this.rect(box), view),
      );
    }
    const boxes = this.boxes?.search(view.x, view.y, view.x + view.width, view.y + view.height);
    return boxes === undefined ? [] : boxes.sort((a, b) => a - b);
  }

  edgesIn(view: Rect): number[] {
    if (!this.still) {
      return Array.from({ length: this.scene.edges }, (_, edge) => edge).filter((edge) =>
        overlaps(this.routeRect(edge), view),
      );
    }
    return this.routes?.search(view.x, view.y, view.x + view.width, view.y + view.height) ?? [];
  }

  /** The box of a node, or of the nearest folded scope around it; -1 if there is none. */
  visibleBox(node: number): number {
    const { host, groupOf } = this.hierarchy;
    if (node < 0) return -1;
    if (this.nodeBox[node]! >= 0) return this.nodeBox[node]!;
    const shown = host[node]! >= 0 ? host[node]! : node;
    return this.nodeBox[shown]! >= 0 ? this.nodeBox[shown]! : this.visibleGroup(groupOf[shown]!);
  }

  visibleGroup(group: number): number {
    for (let at = group; at > 0; at = this.hierarchy.groups[at]!.parent) {
      if (this.groupBox[at]! >= 0) return this.groupBox[at]!;
    }
    return -1;
  }

  boxOf(item: GraphItem): number {
    return item.kind === "node"
      ? this.visibleBox(this.hierarchy.indexOf.get(item.id) ?? -1)
      : this.visibleGroup(this.hierarchy.groupAt.get(item.path) ?? -1);
  }

  /** Like `boxOf`, but -1 if only an enclosing folded scope is drawn. */
  ownBox(item: GraphItem): number {
    const box = this.boxOf(item);
    if (box < 0 || item.kind === "node") return box >= 0 && this.isGroup(box) ? -1 : box;
    const path = this.isGroup(box) ? this.hierarchy.groups[this.scene.ref[box]!]!.path : undefined;
    return path === item.path ? box : -1;
  }

  boxesOf(ids: ReadonlySet<number>): ReadonlySet<number> {
    const known = this.boxesOfIds.get(ids);
    if (known !== undefined) return known;
    const boxes = new Set<number>();
    let last: number | undefined;
    for (const id of ids) {
      const box = this.visibleBox(this.hierarchy.indexOf.get(id) ?? -1);
      // A folded scope may hold thousands of nodes in a row.
      if (box !== last) boxes.add(box);
      last = box;
    }
    this.boxesOfIds.set(ids, boxes);
    return boxes;
  }

  itemOf(box: number): GraphItem {
    const ref = this.scene.ref[box]!;
    return this.isGroup(box)
      ? { kind: "scope", path: this.hierarchy.groups[ref]!.path }
      : { kind: "node", id: this.hierarchy.nodes[ref]!.id };
  }

  /** The stack that a box represents as a whole: folded, or open with all of its scopes. */
  stackOf(box: number): Stack | undefined {
    return this.isGroup(box) ? this.hierarchy.groups[this.scene.ref[box]!]!.stack : undefined;
  }

  /** The stack of which this box shows one scope; undefined for any other box. */
  stackAround(box: number): Group | undefined {
    if (!this.isGroup(box)) return undefined;
    const { groups } = this.hierarchy;
    const around = groups[groups[this.scene.ref[box]!]!.parent];
    return around?.stack !== undefined && this.groupBox[around.index] === box ? around : undefined;
  }

  /** Whether the box's name is preceded by `∇`. */
  gradientMark(box: number): boolean {
    const { groups, groupOf } = this.hierarchy;
    const ref = this.scene.ref[box]!;
    if (!this.isGroup(box)) return isGradient(groups[groupOf[ref]!]!);
    return isGradient(groups[ref]!) && groups[ref]!.depth > 1;
  }

  /** Whether `inner` is `outer` or lies inside it. */
  within(inner: number, outer: number): boolean {
    for (let at = inner; at >= 0; at = this.scene.parent[at]!) if (at === outer) return true;
    return false;
  }

  private findSaved(): number[] {
    const { crossing, groups, groupOf } = this.hierarchy;
    const ids = new Set<number>();
    for (let at = 0; at < crossing.length; at += 2) {
      const box = this.nodeBox[crossing[at]!]!;
      if (box < 0 || groups[groupOf[crossing[at + 1]!]!]!.column !== COLUMN_BACKWARD) continue;
      ids.add(box);
    }
    return [...ids];
  }

  private routeRect(edge: number): Rect {
    const { start, points } = this.scene;
    let left = Number.POSITIVE_INFINITY;
    let top = Number.POSITIVE_INFINITY;
    let right = Number.NEGATIVE_INFINITY;
    let bottom = Number.NEGATIVE_INFINITY;
    for (let at = start[edge]!; at < start[edge + 1]!; at++) {
      left = Math.min(left, points[2 * at]!);
      right = Math.max(right, points[2 * at]!);
      top = Math.min(top, points[2 * at + 1]!);
      bottom = Math.max(bottom, points[2 * at + 1]!);
    }
    return { x: left - 3, y: top, width: right - left + 6, height: bottom - top };
  }
}

function indexOf(count: number, rect: (index: number) => Rect): Flatbush | undefined {
  if (count === 0) return undefined;
  const index = new Flatbush(count);
  for (let at = 0; at < count; at++) {
    const { x, y, width, height } = rect(at);
    index.add(x, y, x + width, y + height);
  }
  index.finish();
  return index;
}
