/**
 * From graphs and fold states to scenes: when to lay out, and which scene belongs to which graph.
 *
 * Invariant: a scene is passed on with the hierarchy from which it was made, never with a newer
 * one.
 */

import { ancestors, parentScope } from "@/base/scopes";
import { LayoutClient } from "@/layout/client";
import { buildHierarchy, type Hierarchy, repeatsOf } from "@/layout/hierarchy";
import { hierarchyFrom, type PostedHierarchy } from "@/layout/posted_hierarchy";
import type { FirstPicture } from "@/layout/session";
import type { Scene } from "@/layout/types";
import { SceneModel } from "@/render/scene/model";
import type { GraphModel } from "@/render/scene/types";

/** A live graph grows node by node: it is laid out again at most this often. */
const GROWTH_MS = 120;
/** After growth by this factor, the layout chooses the open scopes again. */
const GROWN = 1.3;
/** After this time without growth, the smaller factor below is enough, and only more may open. */
const QUIET_MS = 1000;
const GROWN_QUIETLY = 1.05;

export interface SceneListener {
  scene(model: SceneModel, ms: number): void;
  /** The layout chose which scopes are open. */
  chosen(open: ReadonlySet<string>): void;
  /** Whether the layout will choose the open scopes, without the graph growing further. */
  choosing(ahead: boolean): void;
  /** The same picture, for values of other shapes. */
  respecified(model: SceneModel): void;
  busy(): void;
  progress(share: number): void;
}

/** A hierarchy without segments: the canvas draws the routes that the layout made of them. */
function canvasHierarchy({ nodes, values, repeats }: GraphModel): Hierarchy {
  return buildHierarchy(nodes, values, repeats, false);
}

/** The bytes of edges for the current values; for bundles, those at the time of layout. */
function withBytes(scene: Scene, hierarchy: Hierarchy): Scene {
  const bytes = scene.bytes.map((known, edge) =>
    scene.bundle[edge] === 1
      ? (hierarchy.values.get(scene.value[edge] ?? -1)?.bytes ?? known)
      : known,
  );
  return { ...scene, bytes };
}

/**
 * The scope that was folded or opened, or that its stack now shows; undefined if there are several.
 *
 * Args:
 *   changed: Paths that were folded or opened.
 */
export function toggledAmong(
  changed: readonly string[],
  open: ReadonlySet<string>,
): string | undefined {
  if (changed.length === 1) return changed[0];
  const all = new Set(changed);
  const outer = changed.filter(
    (path) => !ancestors(parentScope(path)).some((around) => all.has(around)),
  );
  const opened = outer.filter((path) => open.has(path));
  const siblings = new Set(outer.map(parentScope)).size === 1;
  return siblings && outer.length === 2 && opened.length === 1 ? opened[0] : undefined;
}

export class SceneSource {
  private readonly client: LayoutClient;
  private readonly hierarchies = new Map<number, Hierarchy>();
  private graph: GraphModel | undefined;
  private open: ReadonlySet<string> = new Set();
  private first: (() => FirstPicture | undefined) | undefined;
  /** Number of nodes of the graph for which the layout last chose the open scopes. */
  private chosenFor = 0;
  /** Whether the layout is choosing the open scopes, and whether `setOpen` changed them since. */
  private awaitsChoice = false;
  private postponed = false;
  private version = 0;
  private shown: Scene | undefined;
  /** The scopes that are open in the shown scene. */
  private openShown: ReadonlySet<string> = new Set();
  private started = false;
  private growth: ReturnType<typeof setTimeout> | undefined;
  private quiet: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly listener: SceneListener) {
    this.client = new LayoutClient({
      scene: (scene, ms, chosen, open) => this.arrived(scene, ms, chosen, open),
      busy: (busy) => (busy ? this.listener.busy() : this.calm()),
      progress: (share) => this.listener.progress(share),
      hierarchy: (posted, version) => this.told(posted, version),
    });
  }

  /** Returns true for the graph of another run, which shares nothing with the previous one. */
  setGraph(graph: GraphModel): boolean {
    const before = this.graph;
    if (before?.version === graph.version && before.nodes === graph.nodes) return false;
    if (before !== undefined && before.structure !== undefined) {
      if (before.structure === graph.structure) {
        this.graph = graph;
        this.respecify(graph);
        return false;
      }
    }
    const another =
      before !== undefined &&
      (graph.version < before.version ||
        graph.nodes.length < before.nodes.length ||
        (before.nodes.length > 0 && graph.nodes[0]?.name !== before.nodes[0]?.name));
    this.graph = graph;
    if (another) this.chosenFor = 0;
    clearTimeout(this.quiet);
    this.quiet = setTimeout(() => this.grownQuietly(), QUIET_MS);
    const none = before === undefined || before.nodes.length === 0;
    if (another || none || !this.started) this.layOut();
    else if (this.growth === undefined) {
      this.growth = setTimeout(() => this.layOut(), GROWTH_MS);
      this.listener.busy();
    }
    this.tellChoosing();
    return another;
  }

  /**
   * Lets the layout choose the open scopes, for the window that `first` returns, whenever the graph
   * has grown by a lot; undefined ends this.
   */
  setFirst(first: (() => FirstPicture | undefined) | undefined): void {
    this.first = first;
  }

  /** Returns the paths that changed. */
  setOpen(open: ReadonlySet<string>): readonly string[] {
    const changed = [...open]
      .filter((path) => !this.open.has(path))
      .concat([...this.open].filter((path) => !open.has(path)));
    if (changed.length === 0) return changed;
    this.open = new Set(open);
    // The choice that the layout is making replaces scopes opened in the meantime.
    if (this.awaitsChoice && this.first !== undefined) this.postponed = true;
    else if (this.started) this.client.request(this.open);
    return changed;
  }

  /**
   * Ends the running layout and returns to the open scopes of the shown scene (none if there is no
   * scene). Returns these scopes, or undefined if no layout was running.
   */
  breakOff(): ReadonlySet<string> | undefined {
    if (!this.client.breakOff()) return undefined;
    this.awaitsChoice = this.postponed = false;
    this.tellChoosing();
    this.open = this.openShown;
    if (this.shown?.version !== this.version) this.client.request(this.open);
    return this.open;
  }

  /** The scopes around a node. */
  scopesOf(node: number | undefined): readonly string[] {
    return ancestors(this.graph?.nodes.find(({ id }) => id === node)?.scope ?? "");
  }

  /** Whether the newest graph, as folded, is the one shown. */
  get settled(): boolean {
    return this.growth === undefined && this.client.idle;
  }

  dispose(): void {
    clearTimeout(this.growth);
    clearTimeout(this.quiet);
    this.client.dispose();
  }

  /** Growth has paused: the open scopes may have been chosen for a smaller graph. */
  private grownQuietly(): void {
    this.quiet = undefined;
    const due = this.first !== undefined && this.started && !this.awaitsChoice;
    if (due && this.grownBy(GROWN_QUIETLY)) this.layOut(true);
    this.tellChoosing();
  }

  /** Whether the graph has grown by more than a factor since the layout chose the open scopes. */
  private grownBy(factor: number): boolean {
    return (this.graph?.nodes.length ?? 0) > factor * this.chosenFor;
  }

  /** No layout runs: a choice that has not come will not come. */
  private calm(): void {
    if (!this.client.idle) return;
    this.awaitsChoice = this.postponed = false;
    this.tellChoosing();
  }

  private tellChoosing(): void {
    const quietly = this.quiet !== undefined && this.grownBy(GROWN_QUIETLY);
    this.listener.choosing(this.first !== undefined && (this.awaitsChoice || quietly));
  }

  private layOut(quiet = false): void {
    clearTimeout(this.growth);
    this.growth = undefined;
    const { graph } = this;
    if (graph === undefined) return;
    this.started = true;
    this.version++;
    const { nodes, values, repeats, origin } = graph;
    const told = this.client.setGraph(nodes, values, this.version, repeats?.stacks, origin);
    const count = graph.nodes.length;
    // A choice that has not arrived yet is for the previous graph, so it is made again.
    const due = this.awaitsChoice || this.grownBy(quiet ? GROWN_QUIETLY : GROWN);
    const chosen = due ? this.first?.() : undefined;
    const first = chosen && { ...chosen, onlyMore: quiet };
    if (first !== undefined) this.chosenFor = count;
    this.awaitsChoice = first !== undefined;
    this.postponed = false;
    this.tellChoosing();
    this.client.request(this.open, first);
    // Built here while the worker lays out.
    if (!told) this.hierarchies.set(this.version, canvasHierarchy(graph));
  }

  private told(posted: PostedHierarchy, version: number): void {
    const { graph } = this;
    if (graph === undefined || version !== this.version) return;
    const { nodes, values, repeats } = graph;
    const known = repeats ?? repeatsOf(nodes);
    this.hierarchies.set(version, hierarchyFrom(posted, nodes, values, known));
  }

  /** The hierarchy of a version; for the newest graph, built here if no worker has posted it. */
  private hierarchyOf(version: number): Hierarchy | undefined {
    const known = this.hierarchies.get(version);
    if (known !== undefined || version !== this.version || !this.graph) return known;
    const built = canvasHierarchy(this.graph);
    this.hierarchies.set(version, built);
    return built;
  }

  /** Other shapes in the same picture: nothing moves. */
  private respecify(graph: GraphModel): void {
    const scene = this.shown;
    const before = this.hierarchies.get(this.version);
    if (scene === undefined || before === undefined) return;
    const { nodes, values, repeats = before.repeats } = graph;
    const hierarchy = { ...before, nodes, values, repeats };
    this.hierarchies.set(this.version, hierarchy);
    if (scene.version !== this.version) return;
    this.listener.respecified(new SceneModel(hierarchy, withBytes(scene, hierarchy)));
  }

  private arrived(
    scene: Scene,
    ms: number,
    chosen: ReadonlySet<string> | undefined,
    opened: ReadonlySet<string>,
  ): void {
    const hierarchy = this.hierarchyOf(scene.version);
    if (hierarchy === undefined) return;
    for (const version of this.hierarchies.keys()) {
      if (version < scene.version) this.hierarchies.delete(version);
    }
    this.shown = scene;
    this.openShown = chosen ?? opened;
    const postponed = this.postponed && scene.version === this.version;
    if (scene.version === this.version) this.awaitsChoice = this.postponed = false;
    if (chosen !== undefined && this.first !== undefined) {
      this.open = chosen;
      this.listener.chosen(chosen);
    } else if (postponed) this.client.request(this.open);
    this.tellChoosing();
    this.listener.scene(new SceneModel(hierarchy, withBytes(scene, hierarchy)), ms);
  }
}
