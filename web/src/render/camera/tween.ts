/**
 * From one scene to the next: boxes glide to their new positions so that the eye can follow.
 *
 * Invariant: a tween changes the drawing, never hit-testing or reports: the new scene takes effect
 * at once.
 */

import { ease, lerp } from "@/base/geometry";
import { BOX_FAR, BOX_STUB, type Scene } from "@/layout/types";
import { between, type Camera } from "@/render/camera/camera";
import { SceneModel } from "@/render/scene/model";

const DURATION_MS = 180;
/** Larger pictures change at once: a change that cannot be followed should not be slow. */
const MOST_BOXES = 3000;

export class Tween {
  private readonly fromX: Float32Array;
  private readonly fromY: Float32Array;
  private readonly fromWidth: Float32Array;
  private readonly fromHeight: Float32Array;

  private constructor(
    private readonly model: SceneModel,
    before: SceneModel,
    private readonly start: number,
    private readonly fromCamera: Camera,
    private readonly toCamera: Camera,
  ) {
    const { scene } = model;
    this.fromX = scene.x.slice();
    this.fromY = scene.y.slice();
    this.fromWidth = scene.width.slice();
    this.fromHeight = scene.height.slice();
    for (let box = 0; box < scene.boxes; box++) {
      const old = counterpart(model, before, box);
      if (old >= 0) {
        this.fromX[box] = before.scene.x[old]!;
        this.fromY[box] = before.scene.y[old]!;
        this.fromWidth[box] = before.scene.width[old]!;
        this.fromHeight[box] = before.scene.height[old]!;
        continue;
      }
      // A new box moves along with the scope in which it appears.
      const parent = scene.parent[box]!;
      if (parent < 0) continue;
      this.fromX[box]! += this.fromX[parent]! - scene.x[parent]!;
      this.fromY[box]! += this.fromY[parent]! - scene.y[parent]!;
    }
  }

  static start(
    model: SceneModel,
    before: SceneModel,
    now: number,
    from: Camera,
    to: Camera,
  ): Tween | undefined {
    if (Math.max(model.scene.boxes, before.scene.boxes) > MOST_BOXES) return undefined;
    return new Tween(model, before, now, from, to);
  }

  progress(now: number): number {
    return Math.min(1, (now - this.start) / DURATION_MS);
  }

  camera(now: number): Camera {
    return between(this.fromCamera, this.toCamera, this.progress(now));
  }

  /** The scene in transition. */
  frame(now: number): SceneModel {
    const t = ease(this.progress(now));
    const { scene } = this.model;
    const blend = (from: Float32Array, to: Float32Array): Float32Array =>
      from.map((value, box) => lerp(value, to[box]!, t));
    const moved: Scene = {
      ...scene,
      x: blend(this.fromX, scene.x),
      y: blend(this.fromY, scene.y),
      width: blend(this.fromWidth, scene.width),
      height: blend(this.fromHeight, scene.height),
      points: this.points(1 - t),
    };
    return this.model.moved(moved);
  }

  /** Edge points in transition: each end moves with its box, points in between in proportion. */
  private points(left: number): Float32Array {
    const { scene } = this.model;
    const points = scene.points.slice();
    for (let edge = 0; edge < scene.edges; edge++) {
      const begin = scene.start[edge]!;
      const last = Math.max(1, scene.start[edge + 1]! - 1 - begin);
      const [x0, y0] = this.offset(scene.source[edge]!);
      const [x1, y1] = this.offset(scene.target[edge]!);
      for (let k = 0; k <= last; k++) {
        const part = k / last;
        points[2 * (begin + k)]! += left * lerp(x0, x1, part);
        points[2 * (begin + k) + 1]! += left * lerp(y0, y1, part);
      }
    }
    return points;
  }

  private offset(box: number): Offset {
    const { x, y, width, height } = this.model.scene;
    return [
      this.fromX[box]! + this.fromWidth[box]! / 2 - x[box]! - width[box]! / 2,
      this.fromY[box]! + this.fromHeight[box]! / 2 - y[box]! - height[box]! / 2,
    ];
  }
}

/** Offset of a box's middle from its final position. */
type Offset = readonly [number, number];

/** The box of the same item in the previous scene, where indices may differ; -1 if none. */
function counterpart(model: SceneModel, before: SceneModel, box: number): number {
  const { scene, hierarchy } = model;
  if (scene.kind[box] === BOX_STUB || scene.kind[box] === BOX_FAR) return -1;
  const ref = scene.ref[box]!;
  if (model.isGroup(box)) {
    const group = before.hierarchy.groupAt.get(hierarchy.groups[ref]!.path);
    return group === undefined ? -1 : before.groupBox[group]!;
  }
  const node = before.hierarchy.indexOf.get(hierarchy.nodes[ref]!.id);
  return node === undefined ? -1 : before.nodeBox[node]!;
}

/** A glide of the camera alone. */
export class CameraTween {
  constructor(
    private readonly from: Camera,
    private readonly to: Camera,
    private readonly start: number,
    private readonly duration = DURATION_MS,
  ) {}

  progress(now: number): number {
    return Math.min(1, (now - this.start) / this.duration);
  }

  camera(now: number): Camera {
    return between(this.from, this.to, this.progress(now));
  }
}
