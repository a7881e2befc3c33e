/**
 * The graph canvas: puts layout, picture, camera and pointer together.
 *
 * Invariant: draws at most once per animation frame, only what changed; a scene stays on screen
 * until the next one is ready, so the picture is never blank while there is a graph.
 */

import { clamp, overlaps, type Point, type Rect } from "@/base/geometry";
import { LayoutClient } from "@/layout/client";
import { buildHierarchy, type Hierarchy } from "@/layout/hierarchy";
import { EMPTY_SCENE, type Scene } from "@/layout/types";
import {
  fitted, revealing, seen, toScreen, toWorld, zoomAt, type Camera,
} from "@/render/camera";
import { CanvasPainter } from "@/render/canvas_painter";
import { detailAt, type Drawing, type EdgeLabel, type Marks } from "@/render/draw";
import { placeLabels } from "@/render/draw_edges";
import { cameraFor, sceneBounds } from "@/render/follow";
import { hitTest, neighbourOf } from "@/render/hit";
import { liveState, type LiveState } from "@/render/live";
import { SceneModel } from "@/render/model";
import { drawOverviewStrip, fromOverview, overviewScale } from "@/render/overview";
import { readPalette, type Palette } from "@/render/palette";
import { drawGrid, drawOverlay, drawStill, drawSvg } from "@/render/picture";
import { listenToPointer } from "@/render/pointer";
import { reducedMotion, Stage } from "@/render/stage";
import { CameraTween, Tween } from "@/render/tween";
import type {
  BreakpointMark, ColourBy, CurrentMark, GraphItem, GraphModel, GraphView, GraphViewEvents,
  NodeBadge, NodeStates,
} from "@/render/types";

export function createGraphView(host: HTMLElement, events: GraphViewEvents): GraphView {
  return new CanvasGraphView(host, events);
}

/** A live graph grows node by node: it is laid out again at most this often. */
const GROWTH_MS = 120;

class CanvasGraphView implements GraphView {
  readonly overview: HTMLCanvasElement;
  private readonly stage: Stage;
  private readonly stillPainter: CanvasPainter;
  private readonly overlayPainter: CanvasPainter;
  private readonly still: CanvasRenderingContext2D;
  private readonly over: CanvasRenderingContext2D;
  private readonly client: LayoutClient;
  private readonly ends: (() => void)[] = [];
  private palette: Palette;
  private graph: GraphModel | undefined;
  private readonly hierarchies = new Map<number, Hierarchy>();
  private version = 0;
  private hierarchy: Hierarchy | undefined;
  private model: SceneModel | undefined;
  private labels: readonly EdgeLabel[] = [];
  private open: ReadonlySet<string> = new Set();
  private states: NodeStates | undefined;
  private step = 0;
  private liveNow: LiveState | undefined;
  private camera: Camera = { x: 0, y: 0, zoom: 1 };
  private touched = false;
  private tween: Tween | undefined;
  private glide: CameraTween | undefined;
  private toggled: GraphItem | undefined;
  private wanted: GraphItem | undefined;
  private breakpoints: ReadonlyMap<number, BreakpointMark> = new Map();
  private current: CurrentMark | undefined;
  private badge: NodeBadge | undefined;
  private selection: GraphItem | undefined;
  private hover: GraphItem | undefined;
  private gutter: number | undefined;
  private colourBy: ColourBy = "family";
  private matchIds: ReadonlySet<number> | undefined;
  private dirty = { still: true, overlay: true, overview: true };
  private frame = 0;
  private growth: ReturnType<typeof setTimeout> | undefined;
  private reportedZoom = -1;
  private disposed = false;

  constructor(private readonly host: HTMLElement, private readonly events: GraphViewEvents) {
    this.palette = readPalette(host);
    this.stage = new Stage(host, () => this.redraw());
    this.still = context(this.stage.still);
    this.over = context(this.stage.overlay);
    this.stillPainter = new CanvasPainter(this.still);
    this.overlayPainter = new CanvasPainter(this.over);
    this.overview = document.createElement("canvas");
    this.client = new LayoutClient({
      scene: (scene, ms) => this.sceneArrived(scene, ms),
      busy: (busy) => busy && this.events.layout(true, 0),
    });
    this.ends.push(listenToPointer(host, {
      pan: (dx, dy) => this.pan(dx, dy),
      zoom: (anchor, factor) => this.zoomAround(anchor, this.camera.zoom * factor),
      hover: (point) => this.pointAt(point),
      click: (point) => this.click(point),
      doubleClick: (point) => this.doubleClick(point),
      dragging: (active) => this.setCursor(active ? "grabbing" : "grab"),
    }));
    this.ends.push(listenToOverview(this.overview, (point) => this.overviewPoint(point)));
    this.watchOverviewSize();
    // Text drawn before the fonts are there would stay in a fallback.
    const fontsReady = (): void => this.redraw();
    document.fonts?.addEventListener?.("loadingdone", fontsReady);
    this.ends.push(() => document.fonts?.removeEventListener?.("loadingdone", fontsReady));
    for (const font of ['500 12px "Inter NS"', '400 10px "JetBrains Mono NS"']) {
      void document.fonts?.load?.(font).catch(() => undefined);
    }
    this.redraw();
  }

  setGraph(model: GraphModel): void {
    const before = this.graph;
    if (before?.version === model.version && before.nodes === model.nodes) return;
    const another = before !== undefined && (model.version < before.version
      || (before.nodes.length > 0 && model.nodes[0]?.name !== before.nodes[0]?.name));
    this.graph = model;
    if (another) this.touched = false;
    if (this.model === undefined || another) {
      this.layOutGraph(another);
      return;
    }
    this.growth ??= setTimeout(() => this.layOutGraph(false), GROWTH_MS);
  }

  private layOutGraph(another: boolean): void {
    clearTimeout(this.growth);
    this.growth = undefined;
    const { graph } = this;
    if (graph === undefined || this.disposed) return;
    this.version++;
    const hierarchy = buildHierarchy(graph.nodes, graph.values);
    this.hierarchies.set(this.version, hierarchy);
    if (another) this.model = undefined;
    this.client.setGraph(graph.nodes, graph.values.values(), this.version);
    this.client.request(this.open);
  }

  setExpanded(open: ReadonlySet<string>): void {
    const changed = [...open].filter((path) => !this.open.has(path))
      .concat([...this.open].filter((path) => !open.has(path)));
    if (changed.length === 0) return;
    this.open = new Set(open);
    if (changed.length === 1) this.toggled = { kind: "scope", path: changed[0]! };
    if (this.graph !== undefined) this.client.request(this.open);
  }

  private sceneArrived(scene: Scene, ms: number): void {
    const hierarchy = this.hierarchies.get(scene.version);
    if (hierarchy === undefined || this.disposed) return;
    for (const version of this.hierarchies.keys()) {
      if (version < scene.version) this.hierarchies.delete(version);
    }
    const before = this.model;
    const model = new SceneModel(hierarchy, scene);
    if (hierarchy !== this.hierarchy) {
      this.hierarchy = hierarchy;
      this.liveNow = undefined;
    }
    this.model = model;
    this.labels = placeLabels(model);
    const from = this.camera;
    let to = cameraFor(from, before, model, this.stage.view, {
      toggled: this.toggled, touched: this.touched, focus: this.focusRect(model),
    });
    this.toggled = undefined;
    const wanted = this.wanted === undefined ? -1 : model.boxOf(this.wanted);
    if (wanted >= 0) to = revealing(to, model.rect(wanted), this.stage.view);
    if (this.wanted !== undefined && this.ownBox(model, this.wanted) >= 0) this.wanted = undefined;
    this.camera = to;
    this.glide = undefined;
    this.tween = before === undefined || before.scene.boxes === 0 || reducedMotion() ? undefined
      : Tween.start(model, before, performance.now(), from, to);
    this.events.layout(false, ms);
    this.redraw();
  }

  setStates(states: NodeStates, step: number): void {
    this.states = states;
    this.step = step;
    this.liveNow = undefined;
    this.redraw();
  }

  setBreakpoints(marks: ReadonlyMap<number, BreakpointMark>): void {
    this.breakpoints = marks;
    this.invalidate("overlay");
  }

  setCurrent(mark: CurrentMark | undefined, follow: boolean): void {
    this.current = mark;
    this.invalidate("still", "overlay", "overview");
    if (mark !== undefined && follow) this.reveal({ kind: "node", id: mark.node });
  }

  setBadge(badge: NodeBadge | undefined): void {
    this.badge = badge;
    this.invalidate("overlay");
  }

  setSelection(item: GraphItem | undefined): void {
    this.selection = item;
    this.invalidate("overlay");
  }

  setColourBy(mode: ColourBy): void {
    this.colourBy = mode;
    this.invalidate("still", "overlay");
  }

  setMatches(ids: ReadonlySet<number> | undefined): void {
    this.matchIds = ids;
    this.invalidate("still");
  }

  themeChanged(): void {
    this.palette = readPalette(this.host);
    this.redraw();
  }

  fit(): void {
    if (this.model === undefined) return;
    this.touched = false;
    this.moveTo(fitted(sceneBounds(this.model), this.focusRect(this.model), this.stage.view));
  }

  reveal(item: GraphItem): void {
    const box = this.model?.boxOf(item) ?? -1;
    if (this.model === undefined || this.ownBox(this.model, item) < 0) this.wanted = item;
    else this.wanted = undefined;
    if (box < 0 || this.stage.view.width === 0) return;
    const to = revealing(this.camera, this.model!.rect(box), this.stage.view);
    if (to.x !== this.camera.x || to.y !== this.camera.y || to.zoom !== this.camera.zoom) {
      this.moveTo(to);
    }
  }

  /** The item's own box or its host's, not that of a scope which hides it. */
  private ownBox(model: SceneModel, item: GraphItem): number {
    const box = model.boxOf(item);
    return box >= 0 && item.kind === "node" && model.isGroup(box) ? -1
      : box >= 0 && item.kind === "scope"
        && model.hierarchy.groups[model.scene.ref[box]!]?.path !== item.path ? -1 : box;
  }

  zoomBy(factor: number): void {
    this.zoomTo(this.camera.zoom * factor);
  }

  zoomTo(zoom: number): void {
    const { width, height } = this.stage.view;
    this.touched = true;
    this.moveTo(zoomAt(this.camera, { x: width / 2, y: height / 2 }, zoom));
  }

  neighbour(
    from: GraphItem, direction: "up" | "down" | "left" | "right",
  ): GraphItem | undefined {
    const box = this.model?.boxOf(from) ?? -1;
    if (this.model === undefined || box < 0) return undefined;
    const next = neighbourOf(this.model, box, direction);
    return next < 0 ? undefined : this.model.itemOf(next);
  }

  toSvg(): string {
    const { model } = this;
    const title = this.graph === undefined ? "nodescope" : "nodescope graph";
    if (model === undefined) {
      const empty = new SceneModel(buildHierarchy([], new Map()), EMPTY_SCENE);
      return drawSvg({ ...this.drawingFor(empty, 1) }, this.marks(), title);
    }
    const { x, y, width, height } = sceneBounds(model);
    const view = { x: x - 32, y: y - 32, width: width + 64, height: height + 64 };
    const marks = { ...this.marks(), hover: undefined, gutter: undefined };
    return drawSvg({ ...this.drawingFor(model, 1), view }, marks, title);
  }

  boundsOf(item: GraphItem): Rect | undefined {
    const box = this.model === undefined ? -1 : this.ownBox(this.model, item);
    if (this.model === undefined || box < 0) return undefined;
    const rect = this.model.rect(box);
    if (!overlaps(rect, seen(this.camera, this.stage.view))) return undefined;
    const { zoom } = this.camera;
    return { ...toScreen(this.camera, rect), width: rect.width * zoom, height: rect.height * zoom };
  }

  dispose(): void {
    this.disposed = true;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.growth);
    for (const end of this.ends) end();
    this.client.dispose();
    this.stage.dispose();
  }

  // ------------------------------------------------------------ pointer

  private pan(dx: number, dy: number): void {
    const { zoom } = this.camera;
    this.touched = true;
    this.setCamera({ x: this.camera.x - dx / zoom, y: this.camera.y - dy / zoom, zoom });
  }

  private zoomAround(anchor: Point, zoom: number): void {
    this.touched = true;
    this.setCamera(zoomAt(this.camera, anchor, zoom));
  }

  private hit(point: Point): ReturnType<typeof hitTest> {
    return this.model === undefined ? undefined
      : hitTest(this.model, toWorld(this.camera, point));
  }

  private pointAt(point: Point | undefined): void {
    const hit = point === undefined ? undefined : this.hit(point);
    const node = hit?.gutter === true && hit.item.kind === "node" ? hit.item.id : undefined;
    this.setCursor(hit === undefined ? "grab" : hit.gutter || hit.chevron ? "pointer" : "default");
    if (sameItem(hit?.item, this.hover) && node === this.gutter) return;
    const changed = !sameItem(hit?.item, this.hover);
    this.hover = hit?.item;
    this.gutter = node;
    this.invalidate("overlay");
    if (changed) this.events.hover(this.hover);
  }

  private click(point: Point): void {
    const hit = this.hit(point);
    if (hit?.chevron === true && hit.item.kind === "scope") this.events.toggleScope(hit.item.path);
    else if (hit?.gutter === true && hit.item.kind === "node") {
      this.events.toggleBreakpoint(hit.item.id);
    } else this.events.select(hit?.item);
  }

  private doubleClick(point: Point): void {
    const hit = this.hit(point);
    if (hit?.item.kind === "scope") this.events.toggleScope(hit.item.path);
    else this.click(point);
  }

  private overviewPoint(point: Point): void {
    if (this.model === undefined) return;
    const scale = overviewScale(this.model, this.overview.clientWidth, this.overview.clientHeight);
    const at = fromOverview(scale, point);
    const { left, right, top, bottom } = this.model.scene;
    const { zoom } = this.camera;
    this.touched = true;
    this.setCamera({
      x: clamp(at.x, left, right) - this.stage.view.width / zoom / 2,
      y: clamp(at.y, top, bottom) - this.stage.view.height / zoom / 2, zoom,
    });
  }

  private setCursor(cursor: string): void {
    if (this.host.style.cursor !== cursor) this.host.style.cursor = cursor;
  }

  // ------------------------------------------------------------ camera and frames

  private focusRect(model: SceneModel): Rect | undefined {
    const node = this.current === undefined ? undefined
      : model.hierarchy.indexOf.get(this.current.node);
    const box = node === undefined ? -1 : model.visibleBox(node);
    return box < 0 ? undefined : model.rect(box);
  }

  private setCamera(camera: Camera): void {
    this.camera = camera;
    this.glide = undefined;
    this.tween = undefined;
    this.redraw();
  }

  private moveTo(camera: Camera): void {
    const from = this.shownCamera(performance.now());
    this.camera = camera;
    this.glide = reducedMotion() ? undefined : new CameraTween(from, camera, performance.now());
    this.tween = undefined;
    this.redraw();
  }

  private shownCamera(now: number): Camera {
    return this.tween?.camera(now) ?? this.glide?.camera(now) ?? this.camera;
  }

  private redraw(): void {
    this.invalidate("still", "overlay", "overview");
  }

  private invalidate(...layers: readonly ("still" | "overlay" | "overview")[]): void {
    for (const layer of layers) this.dirty[layer] = true;
    if (this.frame === 0 && !this.disposed) {
      this.frame = requestAnimationFrame((now) => this.draw(now));
    }
  }

  private live(): LiveState | undefined {
    if (this.hierarchy === undefined) return undefined;
    this.liveNow ??= liveState(this.hierarchy, this.states, this.step);
    return this.liveNow;
  }

  private marks(): Marks {
    return {
      current: this.current, badge: this.badge, breakpoints: this.breakpoints,
      selection: this.selection, hover: this.hover, gutter: this.gutter,
    };
  }

  private drawingFor(model: SceneModel, zoom = this.camera.zoom): Omit<Drawing, "painter"> {
    const camera = this.camera;
    const current = model.hierarchy.indexOf.get(this.current?.node ?? -1);
    const box = current === undefined ? -1 : model.nodeBox[current]!;
    return {
      palette: this.palette, model, labels: model === this.model ? this.labels : [],
      colourBy: this.colourBy, zoom,
      live: this.live() ?? liveState(model.hierarchy, this.states, this.step),
      view: seen(camera, this.stage.view), raised: detailAt(zoom) === "near" ? box : -1,
      matches: this.matchIds === undefined ? undefined : matchBoxes(model, this.matchIds),
    };
  }

  private draw(now: number): void {
    this.frame = 0;
    const { model } = this;
    const camera = this.shownCamera(now);
    const moving = (this.tween?.progress(now) ?? this.glide?.progress(now) ?? 1) < 1;
    const shown = this.tween !== undefined && moving ? this.tween.frame(now) : model;
    if (!moving) this.tween = this.glide = undefined;
    if (this.dirty.still) this.paint(this.still, () => {
      this.still.fillStyle = this.palette["bg-canvas"];
      this.still.fillRect(0, 0, this.stage.still.width, this.stage.still.height);
      this.toWorldSpace(this.still, camera);
      this.stillPainter.reset();
      const view = seen(camera, this.stage.view);
      drawGrid(this.stillPainter, this.palette, view, camera.zoom);
      if (shown === undefined) return;
      drawStill({ ...this.drawingFor(shown, camera.zoom), painter: this.stillPainter, view });
    });
    if (this.dirty.overlay) this.paint(this.over, () => {
      this.over.clearRect(0, 0, this.stage.overlay.width, this.stage.overlay.height);
      this.toWorldSpace(this.over, camera);
      this.overlayPainter.reset();
      if (shown === undefined) return;
      const view = seen(camera, this.stage.view);
      drawOverlay(
        { ...this.drawingFor(shown, camera.zoom), painter: this.overlayPainter, view },
        this.marks(),
      );
    });
    if (this.dirty.overview) this.drawOverview(camera);
    this.dirty = { still: false, overlay: false, overview: false };
    if (camera.zoom !== this.reportedZoom) {
      this.reportedZoom = camera.zoom;
      this.events.camera(camera.zoom);
    }
    if (moving) this.redraw();
  }

  private paint(target: CanvasRenderingContext2D, body: () => void): void {
    if (this.stage.view.width === 0 || this.stage.view.height === 0) return;
    target.setTransform(1, 0, 0, 1, 0, 0);
    target.globalAlpha = 1;
    body();
  }

  private toWorldSpace(target: CanvasRenderingContext2D, camera: Camera): void {
    const scale = camera.zoom * this.stage.ratio;
    // Whole device px, so that borders at 100 % are sharp wherever the camera stands.
    target.setTransform(
      scale, 0, 0, scale, Math.round(-camera.x * scale), Math.round(-camera.y * scale),
    );
  }

  // ------------------------------------------------------------ overview

  private watchOverviewSize(): void {
    if (typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(() => this.invalidate("overview"));
    observer.observe(this.overview);
    this.ends.push(() => observer.disconnect());
  }

  private drawOverview(camera: Camera): void {
    const width = this.overview.clientWidth;
    const height = this.overview.clientHeight;
    if (width === 0 || height === 0) return;
    const { ratio } = this.stage;
    const wide = Math.round(width * ratio);
    const tall = Math.round(height * ratio);
    if (this.overview.width !== wide || this.overview.height !== tall) {
      this.overview.width = wide;
      this.overview.height = tall;
    }
    const node = this.model?.hierarchy.indexOf.get(this.current?.node ?? -1);
    drawOverviewStrip(context(this.overview), width, height, ratio, {
      model: this.model, live: this.live(), palette: this.palette,
      view: seen(camera, this.stage.view),
      current: node === undefined || this.model === undefined ? -1 : this.model.visibleBox(node),
    });
  }
}

function context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const made = canvas.getContext("2d");
  if (made === null) throw new Error("This browser gives no 2D canvas; the graph needs one.");
  return made;
}

function matchBoxes(model: SceneModel, ids: ReadonlySet<number>): ReadonlySet<number> {
  const boxes = new Set<number>();
  for (const id of ids) {
    const node = model.hierarchy.indexOf.get(id);
    if (node !== undefined) boxes.add(model.visibleBox(node));
  }
  return boxes;
}

function sameItem(a: GraphItem | undefined, b: GraphItem | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return a.kind === "node" ? b.kind === "node" && a.id === b.id
    : b.kind === "scope" && a.path === b.path;
}

function listenToOverview(canvas: HTMLCanvasElement, moved: (point: Point) => void): () => void {
  const end = new AbortController();
  const { signal } = end;
  const local = (event: PointerEvent): Point => {
    const rect = canvas.getBoundingClientRect();
    return { x: event.clientX - rect.left, y: event.clientY - rect.top };
  };
  canvas.style.touchAction = "none";
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    moved(local(event));
  }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    if (canvas.hasPointerCapture(event.pointerId)) moved(local(event));
  }, { signal });
  return () => end.abort();
}
