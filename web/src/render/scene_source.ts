/**
 * From graphs and fold states to scenes: when to lay out, and which scene belongs to which graph.
 *
 * Invariant: a scene is handed on with the hierarchy that it was made from, never with a newer one.
 */

import { LayoutClient } from "@/layout/client";
import { buildHierarchy, type Hierarchy } from "@/layout/hierarchy";
import type { Scene } from "@/layout/types";
import { SceneModel } from "@/render/model";
import type { GraphModel } from "@/render/types";

/** A live graph grows node by node: it is laid out again at most this often. */
const GROWTH_MS = 120;

export interface SceneListener {
  scene(model: SceneModel, ms: number): void;
  busy(): void;
}

export class SceneSource {
  private readonly client: LayoutClient;
  private readonly hierarchies = new Map<number, Hierarchy>();
  private graph: GraphModel | undefined;
  private open: ReadonlySet<string> = new Set();
  private version = 0;
  private started = false;
  private growth: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly listener: SceneListener) {
    this.client = new LayoutClient({
      scene: (scene, ms) => this.arrived(scene, ms),
      busy: (busy) => busy && this.listener.busy(),
    });
  }

  /** Returns true if it is the graph of another run, which shares nothing with the one before. */
  setGraph(graph: GraphModel): boolean {
    const before = this.graph;
    if (before?.version === graph.version && before.nodes === graph.nodes) return false;
    const another =
      before !== undefined &&
      (graph.version < before.version ||
        graph.nodes.length < before.nodes.length ||
        (before.nodes.length > 0 && graph.nodes[0]?.name !== before.nodes[0]?.name));
    this.graph = graph;
    if (another || !this.started) this.layOut();
    else this.growth ??= setTimeout(() => this.layOut(), GROWTH_MS);
    return another;
  }

  /** Returns the paths that changed. */
  setOpen(open: ReadonlySet<string>): readonly string[] {
    const changed = [...open]
      .filter((path) => !this.open.has(path))
      .concat([...this.open].filter((path) => !open.has(path)));
    if (changed.length === 0) return changed;
    this.open = new Set(open);
    if (this.started) this.client.request(this.open);
    return changed;
  }

  dispose(): void {
    clearTimeout(this.growth);
    this.client.dispose();
  }

  private layOut(): void {
    clearTimeout(this.growth);
    this.growth = undefined;
    const { graph } = this;
    if (graph === undefined) return;
    this.started = true;
    this.version++;
    this.hierarchies.set(this.version, buildHierarchy(graph.nodes, graph.values));
    this.client.setGraph(graph.nodes, graph.values.values(), this.version);
    this.client.request(this.open);
  }

  private arrived(scene: Scene, ms: number): void {
    const hierarchy = this.hierarchies.get(scene.version);
    if (hierarchy === undefined) return;
    for (const version of this.hierarchies.keys()) {
      if (version < scene.version) this.hierarchies.delete(version);
    }
    this.listener.scene(new SceneModel(hierarchy, scene), ms);
  }
}
