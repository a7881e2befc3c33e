/**
 * Camera motion: the camera and its transitions, alone or along with boxes that move.
 *
 * Invariant: `camera` takes effect when it is set; only the drawing lags.
 */

import type { Camera } from "@/render/camera/camera";
import { CameraTween, Tween } from "@/render/camera/tween";
import type { SceneModel } from "@/render/scene/model";
import { reducedMotion } from "@/render/view/canvas_stack";

export interface MotionFrame {
  readonly camera: Camera;
  readonly shown: SceneModel | undefined;
  readonly moving: boolean;
}

export class Motion {
  private at: Camera = { x: 0, y: 0, zoom: 1 };
  private boxes: Tween | undefined;
  private alone: CameraTween | undefined;

  get camera(): Camera {
    return this.at;
  }

  jump(camera: Camera): void {
    this.at = camera;
    this.boxes = this.alone = undefined;
  }

  glide(camera: Camera): void {
    const now = performance.now();
    const from = this.shownCamera(now);
    this.jump(camera);
    if (!reducedMotion()) this.alone = new CameraTween(from, camera, now);
  }

  /** Starts the transition from the previous scene, if that was visible. */
  rearrange(model: SceneModel, before: SceneModel | undefined, camera: Camera): void {
    const from = this.at;
    this.jump(camera);
    if (before === undefined || before.scene.boxes === 0 || reducedMotion()) return;
    this.boxes = Tween.start(model, before, performance.now(), from, camera);
  }

  frame(model: SceneModel | undefined, now: number): MotionFrame {
    const camera = this.shownCamera(now);
    const moving = (this.boxes?.progress(now) ?? this.alone?.progress(now) ?? 1) < 1;
    const shown = this.boxes !== undefined && moving ? this.boxes.frame(now) : model;
    if (!moving) this.boxes = this.alone = undefined;
    return { camera, shown, moving };
  }

  private shownCamera(now: number): Camera {
    return this.boxes?.camera(now) ?? this.alone?.camera(now) ?? this.at;
  }
}
