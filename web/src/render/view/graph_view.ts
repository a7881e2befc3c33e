/**
 * The graph canvas: combines layout, picture, camera and pointer.
 *
 * Invariant: draws at most once per animation frame, only what changed; a scene stays on screen
 * until the next one is ready, so the picture is never blank while there is a graph.
 */

import { clamp, overlaps, type Point, type Rect } from "@/base/geometry";
import { ancestors, parentScope } from "@/base/scopes";
import type { FirstPicture } from "@/layout/session";
import { BOX_FAR } from "@/layout/types";
import {
  type Camera,
  fitted,
  fittedWhole,
  revealing,
  seen,
  toScreen,
  toWorld,
  type Viewport,
  zoomAt,
} from "@/render/camera/camera";
import {
  cameraAt,
  cameraFor,
  focusRect,
  inSight,
  keeping,
  resizedCamera,
  sceneBounds,
  steadyPoint,
  viewpointOf,
} from "@/render/camera/camera_follow";
import { Motion } from "@/render/camera/motion";
import type { Drawing, EdgeLabel } from "@/render/draw/draw";
import { placeLabels } from "@/render/draw/draw_edges";
import { LABELS_BELOW } from "@/render/draw/draw_far_labels";
import { type LiveState, liveState } from "@/render/draw/execution_overlay";
import { readPalette } from "@/render/draw/palette";
import {
  foldAt,
  hitTest,
  NOWHERE,
  neighbourOf,
  type Pointed,
  pointedAt,
  sameItem,
  samePointed,
  stackActOf,
} from "@/render/scene/hit";
import type { SceneModel } from "@/render/scene/model";
import { SceneSource, toggledAmong } from "@/render/scene/scene_source";
import type { StackAct } from "@/render/scene/stack_controls";
import type {
  Amounts,
  BreakpointMark,
  ColourBy,
  CurrentMark,
  GraphChanges,
  GraphItem,
  GraphModel,
  GraphPath,
  GraphView,
  GraphViewEvents,
  NodeBadge,
  NodeStates,
  Tints,
  Viewpoint,
  WatchMarks,
} from "@/render/scene/types";
import { loadFonts, Screen } from "@/render/view/canvas_layers";
import type { Stage } from "@/render/view/canvas_stack";
import { OverviewPanel } from "@/render/view/overview";
import { listenToPointer } from "@/render/view/pointer";
import { drawingOf, type Look, marksOf, plainLook, svgOf } from "@/render/view/view_options";

type Layer = "still" | "overlay" | "overview";

export function createGraphView(host: HTMLElement, events: GraphViewEvents): GraphView {
  return new CanvasGraphView(host, events);
}

class CanvasGraphView implements GraphView {
  readonly overview: HTMLCanvasElement;
  private readonly screen: Screen;
  private readonly stage: Stage;
  private readonly source: SceneSource;
  private readonly panel: OverviewPanel;
  private readonly ends: (() => void)[] = [];
  private look: Look;
  private model: SceneModel | undefined;
  private labels: readonly EdgeLabel[] = [];
  private liveNow: LiveState | undefined;
  private readonly motion = new Motion();
  private touched = false;
  /** The whole graph was requested, and the camera has not been moved since. */
  private whole = false;
  /** A scene came while the host had no size: it is fitted when the host gets one. */
  private unfitted = false;
  private toggled: GraphItem | undefined;
  private wanted: GraphItem | undefined;
  /** Where to look once the graph is laid out. */
  private wantedView: Viewpoint | undefined;
  /** The viewpoint applied last, until the camera moves; a resize of the pane keeps it. */
  private placedView: Viewpoint | undefined;
  private pointed: Pointed = NOWHERE;
  private lastView: Viewport;
  private dirty = { still: true, overlay: true, overview: true };
  private frame = 0;
  private reported: Camera | undefined;
  private reportedMost = 0;
  private disposed = false;

  constructor(
    private readonly host: HTMLElement,
    private readonly events: GraphViewEvents,
  ) {
    this.look = plainLook(readPalette(host));
    this.screen = new Screen(host, () => this.resized());
    this.stage = this.screen.stage;
    this.lastView = this.stage.view;
    this.panel = new OverviewPanel(
      (point) => this.centreOn(point),
      () => this.invalidate("overview"),
    );
    this.overview = this.panel.canvas;
    this.source = new SceneSource({
      scene: (model, ms) => this.sceneArrived(model, ms),
      respecified: (model) => this.respecified(model),
      busy: () => this.events.layout(true, 0),
      progress: (share) => this.events.progress?.(share),
      chosen: (open) => this.events.chosen(open),
      choosing: (ahead) => this.events.choosing?.(ahead),
    });
    this.ends.push(
      listenToPointer(host, {
        pan: (dx, dy) => this.pan(dx, dy),
        zoom: (anchor, factor) => this.zoomAround(anchor, factor),
        hover: (point) => this.pointAt(point),
        click: (point) => this.click(point),
        doubleClick: (point) => this.click(point, true),
        dragging: (active) => this.setCursor(active ? "grabbing" : "grab"),
      }),
    );
    this.ends.push(loadFonts(() => this.redraw()));
    this.redraw();
  }

  setGraph(model: GraphModel, first: { reveal?: GraphItem; whole?: boolean } = {}): void {
    this.wanted = first.reveal ?? this.wanted;
    const another = this.source.setGraph(model);
    if (another || first.whole === true) this.whole = first.whole === true;
    if (!another) return;
    this.model = undefined;
    this.liveNow = undefined;
    this.touched = false;
    this.redraw();
  }

  setExpanded(open: ReadonlySet<string>): void {
    const changed = this.source.setOpen(open);
    const toggled = toggledAmong(changed, open);
    if (toggled !== undefined) this.toggled = { kind: "scope", path: toggled };
  }

  breakOff(): ReadonlySet<string> | undefined {
    const open = this.source.breakOff();
    if (open === undefined) return undefined;
    this.toggled = undefined;
    if (this.settled()) this.events.layout(false, 0);
    return open;
  }

  setChoosing(choosing: boolean): void {
    this.source.setFirst(choosing ? () => this.firstPicture() : undefined);
  }

  private firstPicture(): FirstPicture | undefined {
    // Measures the host now: its surroundings may have changed in this very frame.
    this.stage.refresh();
    const { view } = this.stage;
    const { current, selection } = this.look;
    const kept = [current?.node, selection?.kind === "node" ? selection.id : undefined].flatMap(
      (id) => this.source.scopesOf(id),
    );
    if (selection?.kind === "scope") kept.push(...ancestors(parentScope(selection.path)));
    return view.width === 0 ? undefined : { window: view, kept };
  }

  private sceneArrived(model: SceneModel, ms: number): void {
    if (this.disposed) return;
    const before = this.model;
    if (before?.hierarchy !== model.hierarchy) this.liveNow = undefined;
    this.model = model;
    this.labels = placeLabels(model);
    this.unfitted = this.stage.view.width === 0;
    const from = this.camera;
    const requested = this.wanted?.kind === "node" ? this.wanted.id : undefined;
    let to = cameraFor(from, before, model, this.stage.view, {
      toggled: this.toggled,
      touched: this.touched,
      whole: this.whole,
      focus: focusRect(model, this.look.current?.node ?? requested),
    });
    // A single scope that is folded or opened stays in place; the rest of the graph moves as
    // necessary.
    if (this.toggled !== undefined) this.whole = false;
    this.toggled = undefined;
    if (inSight(before, this.look.current?.node, from, this.stage.view)) {
      to = keeping(to, focusRect(model, this.look.current?.node), this.stage.view);
    }
    const wanted = this.wanted === undefined ? -1 : model.boxOf(this.wanted);
    if (wanted >= 0) to = revealing(to, model.rect(wanted), this.stage.view);
    if (this.wanted !== undefined && model.ownBox(this.wanted) >= 0) this.wanted = undefined;
    this.motion.rearrange(model, before, this.lookedAt() ?? to);
    this.events.layout(false, ms);
    this.redraw();
  }

  private respecified(model: SceneModel): void {
    if (this.disposed || this.model === undefined) return;
    this.model = model;
    this.labels = placeLabels(model);
    this.liveNow = undefined;
    this.redraw();
  }

  setStates(states: NodeStates | undefined, step: number): void {
    this.liveNow = undefined;
    this.set({ states, step });
  }

  setBreakpoints(marks: ReadonlyMap<number, BreakpointMark>): void {
    this.set({ breakpoints: marks }, "overlay");
  }

  setWatchMarks(marks: WatchMarks): void {
    this.set({ watchMarks: marks }, "overlay");
  }

  setCurrent(mark: CurrentMark | undefined, follow: boolean): void {
    this.set({ current: mark });
    if (mark !== undefined && follow && !this.whole) this.reveal({ kind: "node", id: mark.node });
  }

  setBadge(badge: NodeBadge | undefined): void {
    this.set({ badge }, "overlay");
  }

  setSelection(item: GraphItem | undefined): void {
    // Names of scopes over the picture make room for the selected box.
    const named = this.camera.zoom < LABELS_BELOW;
    this.set({ selection: item }, ...(named ? [] : (["overlay"] as const)));
  }

  setColourBy(mode: ColourBy): void {
    this.set({ colourBy: mode });
  }

  setTints(tints: Tints): void {
    this.set({ tints }, "still", "overview");
  }

  setAmounts(amounts: Amounts): void {
    this.set({ amounts }, "still", "overview");
  }

  setLinked(ids: ReadonlySet<number>): void {
    this.set({ linked: ids }, "overlay");
  }

  setMatches(ids: ReadonlySet<number> | undefined): void {
    this.set({ matchIds: ids }, "still");
  }

  setChanges(changes: GraphChanges | undefined): void {
    this.set({ changes }, "still");
  }

  setPath(path: GraphPath | undefined): void {
    this.set({ path }, "still", "overlay");
  }

  themeChanged(): void {
    this.set({ palette: readPalette(this.host) });
  }

  /** Changes how the graph is shown; by default, all layers are redrawn. */
  private set(change: Partial<Look>, ...layers: readonly Layer[]): void {
    this.look = { ...this.look, ...change };
    if (layers.length === 0) this.redraw();
    else this.invalidate(...layers);
  }

  fit(): void {
    if (this.model === undefined) return;
    this.whole = true;
    this.touched = false;
    this.wantedView = this.placedView = undefined;
    this.moveTo(this.fitting(this.model));
  }

  /** The node to keep in view if not all can be: the current one, else the selected one. */
  private get attended(): number | undefined {
    const { current, selection } = this.look;
    return current?.node ?? (selection?.kind === "node" ? selection.id : undefined);
  }

  private fitting(model: SceneModel): Camera {
    const bounds = sceneBounds(model);
    return this.whole
      ? fittedWhole(bounds, this.stage.view)
      : fitted(bounds, focusRect(model, this.attended), this.stage.view);
  }

  reveal(item: GraphItem): void {
    const box = this.model?.boxOf(item) ?? -1;
    if (this.model === undefined || this.model.ownBox(item) < 0) this.wanted = item;
    else this.wanted = undefined;
    if (box < 0 || this.stage.view.width === 0) return;
    const to = revealing(this.camera, this.model!.rect(box), this.stage.view);
    this.placedView = undefined;
    if (to.x !== this.camera.x || to.y !== this.camera.y || to.zoom !== this.camera.zoom) {
      this.moveTo(to);
    }
  }

  viewpoint(): Viewpoint | undefined {
    const { model, stage } = this;
    if (model === undefined || stage.view.width === 0) return undefined;
    return viewpointOf(model, this.camera, stage.view);
  }

  setViewpoint(at: Viewpoint): void {
    this.wantedView = at;
    const camera = this.lookedAt();
    if (camera !== undefined) this.moveTo(camera);
  }

  /** Applies the requested viewpoint once the graph is laid out; returns its camera if it does. */
  private lookedAt(): Camera | undefined {
    const { model, wantedView, stage } = this;
    if (wantedView === undefined || model === undefined || !this.settled()) return undefined;
    const camera = stage.view.width === 0 ? undefined : cameraAt(model, wantedView, stage.view);
    if (camera === undefined) return undefined;
    this.touch();
    this.placedView = wantedView;
    this.wanted = undefined;
    return camera;
  }

  zoomBy(factor: number): void {
    this.zoomTo(this.camera.zoom * factor);
  }

  zoomTo(zoom: number): void {
    this.touch();
    this.moveTo(zoomAt(this.camera, this.steady, zoom));
  }

  /** The fixed point of a zoom: the selected item or the current node, if in view. */
  private get steady(): Point {
    const { current, selection } = this.look;
    const items = [selection, current && ({ kind: "node", id: current.node } as const)];
    return steadyPoint(
      items.map((item) => item && this.boundsOf(item)),
      this.stage.view,
    );
  }

  neighbour(from: GraphItem, direction: "up" | "down" | "left" | "right"): GraphItem | undefined {
    const box = this.model?.boxOf(from) ?? -1;
    if (this.model === undefined || box < 0) return undefined;
    const next = neighbourOf(this.model, box, direction);
    return next < 0 ? undefined : this.model.itemOf(next);
  }

  toSvg(extent: "screen" | "whole", page: { title: string; fonts: string }): string {
    const seenBy = extent === "screen" ? { camera: this.camera, view: this.stage.view } : undefined;
    return svgOf(this.look, this.model, this.labels, page, seenBy);
  }

  boundsOf(item: GraphItem): Rect | undefined {
    const box = this.model === undefined ? -1 : this.model.ownBox(item);
    if (this.model === undefined || box < 0) return undefined;
    const rect = this.model.rect(box);
    if (!overlaps(rect, seen(this.camera, this.stage.view))) return undefined;
    const { zoom } = this.camera;
    return { ...toScreen(this.camera, rect), width: rect.width * zoom, height: rect.height * zoom };
  }

  settled(): boolean {
    return this.source.settled;
  }

  dispose(): void {
    this.disposed = true;
    cancelAnimationFrame(this.frame);
    for (const end of this.ends) end();
    this.source.dispose();
    this.panel.dispose();
    this.screen.dispose();
  }

  // ------------------------------------------------------------ pointer

  private pan(dx: number, dy: number): void {
    const { zoom } = this.camera;
    this.touch();
    this.setCamera({ x: this.camera.x - dx / zoom, y: this.camera.y - dy / zoom, zoom });
  }

  private zoomAround(anchor: Point, factor: number): void {
    this.touch();
    this.setCamera(zoomAt(this.camera, anchor, this.camera.zoom * factor));
    // While a layout is pending, the scope under the pointer is not where it will be drawn.
    if (this.model === undefined || !this.settled()) return;
    const into = factor > 1 ? foldAt(this.model, toWorld(this.camera, anchor)) : undefined;
    if (factor < 1 || into !== undefined) this.events.zoomed?.(this.camera.zoom, into);
  }

  private pointAt(point: Point | undefined): void {
    const before = this.pointed;
    this.pointed =
      point === undefined || this.model === undefined
        ? NOWHERE
        : pointedAt(this.model, toWorld(this.camera, point), this.camera.zoom);
    this.setCursor(this.pointed.cursor);
    if (samePointed(before, this.pointed)) return;
    this.invalidate("overlay");
    if (!sameItem(before.hover, this.pointed.hover)) this.events.hover(this.pointed.hover);
  }

  private click(point: Point, twice = false): void {
    const hit = this.model && hitTest(this.model, toWorld(this.camera, point));
    const folds = hit?.chevron === true || twice;
    const stack = hit && this.model?.stackOf(hit.box);
    const act = hit && stackActOf(hit, this.camera.zoom);
    if (hit !== undefined && act !== undefined) {
      if (!twice) this.turnStack(hit.box, act);
    } else if (folds && hit?.item.kind === "scope") this.events.toggleScope(hit.item.path, stack);
    else if (hit?.gutter === true && hit.item.kind === "node") {
      this.events.toggleBreakpoint(hit.item.id);
    } else {
      this.events.select(hit?.item, stack);
      // A click on a far stub reveals its producer.
      if (hit !== undefined && this.model?.scene.kind[hit.box] === BOX_FAR) this.reveal(hit.item);
    }
  }

  private turnStack(box: number, act: StackAct): void {
    const model = this.model!;
    const stack = model.stackAround(box)?.stack ?? model.stackOf(box);
    if (stack !== undefined) this.events.turnStack(stack, act, model.hierarchy.repeats);
  }

  /** The user moves the camera, which no longer follows the whole graph. */
  private touch(): void {
    this.touched = true;
    this.whole = false;
    this.wantedView = this.placedView = undefined;
  }

  private centreOn(point: Point): void {
    if (this.model === undefined) return;
    const { left, right, top, bottom } = this.model.scene;
    const { zoom } = this.camera;
    this.touch();
    this.setCamera({
      x: clamp(point.x, left, right) - this.stage.view.width / zoom / 2,
      y: clamp(point.y, top, bottom) - this.stage.view.height / zoom / 2,
      zoom,
    });
  }

  private setCursor(cursor: string): void {
    if (this.host.style.cursor !== cursor) this.host.style.cursor = cursor;
  }

  // ------------------------------------------------------------ camera and frames

  private get camera(): Camera {
    return this.motion.camera;
  }

  private setCamera(camera: Camera): void {
    this.motion.jump(camera);
    this.redraw();
  }

  private moveTo(camera: Camera): void {
    this.motion.glide(camera);
    this.redraw();
  }

  private resized(): void {
    const {
      model,
      camera,
      lastView,
      stage: { view },
    } = this;
    const placed = this.placedView && model && cameraAt(model, this.placedView, view);
    if (placed !== undefined) this.motion.jump(placed);
    else if (model !== undefined && view.width > 0) {
      this.motion.jump(
        resizedCamera(camera, model, lastView, view, {
          fit: this.unfitted || !this.touched,
          whole: this.whole,
          node: this.look.current?.node,
          focus: focusRect(model, this.attended),
        }),
      );
      this.unfitted = false;
    }
    if (view.width > 0) this.lastView = view;
    this.redraw();
  }

  private redraw(): void {
    this.invalidate("still", "overlay", "overview");
  }

  private invalidate(...layers: readonly Layer[]): void {
    for (const layer of layers) this.dirty[layer] = true;
    if (this.frame === 0 && !this.disposed) {
      this.frame = requestAnimationFrame((now) => this.draw(now));
    }
  }

  private live(): LiveState | undefined {
    if (this.model === undefined) return undefined;
    const { states, step } = this.look;
    this.liveNow ??= liveState(this.model.hierarchy, states, step);
    return this.liveNow;
  }

  private drawingFor(model: SceneModel, camera: Camera): Omit<Drawing, "painter"> {
    return drawingOf(this.look, model, this.live(), {
      camera,
      view: this.stage.view,
      labels: model === this.model ? this.labels : [],
    });
  }

  private draw(now: number): void {
    this.frame = 0;
    const { model } = this;
    const { camera, shown, moving } = this.motion.frame(model, now);
    const drawing = shown === undefined ? undefined : this.drawingFor(shown, camera);
    if (this.dirty.still) this.screen.drawStill(camera, this.look.palette, drawing);
    if (this.dirty.overlay) {
      this.screen.drawOverlay(camera, drawing, marksOf(this.look, this.pointed));
    }
    if (this.dirty.overview) {
      const node = model?.hierarchy.indexOf.get(this.look.current?.node ?? -1);
      this.panel.draw(this.stage.ratio, {
        drawing: model === undefined ? undefined : this.drawingFor(model, camera),
        palette: this.look.palette,
        view: seen(camera, this.stage.view),
        current: node === undefined || model === undefined ? -1 : model.visibleBox(node),
      });
    }
    this.dirty = { still: false, overlay: false, overview: false };
    if (drawing !== undefined && drawing.heatMost !== this.reportedMost) {
      this.reportedMost = drawing.heatMost;
      this.events.scale(drawing.heatMost);
    }
    if (camera !== this.reported) {
      this.reported = camera;
      this.events.camera(camera.zoom, this.touched);
    }
    if (moving) this.redraw();
  }
}
