/**
 * The page's end of the layout: uses a worker if available, otherwise the same code in place.
 *
 * Invariant: at most one request is running and one waiting (the newest); scenes arrive in order.
 */

import type { Stack } from "@/base/repeats";
import { packed } from "@/layout/posted";
import type { PostedHierarchy } from "@/layout/posted_hierarchy";
import { type PreparedRequest, taken } from "@/layout/prepared";
import {
  type FirstPicture,
  type LayoutReply,
  type LayoutRequest,
  LayoutSession,
} from "@/layout/session";
import type { LayoutNode, LayoutValue, Scene } from "@/layout/types";

export interface LayoutListener {
  /** `chosen`: the open scopes, if the layout chose them; `open`: the scopes requested as open. */
  scene(
    scene: Scene,
    ms: number,
    chosen: ReadonlySet<string> | undefined,
    open: ReadonlySet<string>,
  ): void;
  busy(busy: boolean): void;
  /** Called before the first scene of a graph that a worker has prepared. */
  hierarchy?(hierarchy: PostedHierarchy, version: number): void;
  /** `share`: the share of the open groups that is laid out. */
  progress?(share: number): void;
}

type Wanted = Pick<LayoutRequest & { kind: "layout" }, "open" | "first">;

interface Engine {
  /** Whether the engine runs in a worker, beside the page, and can be ended. */
  readonly apart: boolean;
  post(request: LayoutRequest | PreparedRequest): void;
  close(): void;
}

export class LayoutClient {
  private engine: Engine = this.inPlace();
  private ticket = 0;
  private underWay = false;
  private waiting: Wanted | undefined;
  private last: Wanted = { open: [], first: undefined };
  /** Posts the graph to an engine that does not have it. */
  private postGraph: (() => void) | undefined;

  constructor(
    private readonly listener: LayoutListener,
    private worthWorker = true,
  ) {}

  /**
   * Returns whether a worker has prepared the graph, in which case it also posts the hierarchy.
   *
   * Args:
   *   stacks: The stacks of the graph, if they are known.
   *   origin: The columns of the graph, by which a prepared worker is found.
   */
  setGraph(
    nodes: readonly LayoutNode[],
    values: ReadonlyMap<number, LayoutValue>,
    version: number,
    stacks?: readonly Stack[],
    origin?: object,
  ): boolean {
    this.postGraph = () =>
      this.engine.post({ kind: "graph", version, graph: packed(nodes, values), stacks });
    const prepared = taken(origin);
    if (prepared !== undefined) {
      this.replace(this.engineOf(prepared));
      this.engine.post({ kind: "prepared", version });
      return true;
    }
    // An empty graph gets no worker: another worker may be preparing the first real graph.
    if (this.worthWorker && nodes.length > 0) this.replace(this.startWorker() ?? this.engine);
    this.postGraph();
    return false;
  }

  private replace(engine: Engine): void {
    this.worthWorker = false;
    if (engine !== this.engine) this.engine.close();
    this.engine = engine;
    this.abandon();
  }

  /** Ignores the answer to the running request; queues it again unless a newer request waits. */
  private abandon(): void {
    this.ticket++;
    if (!this.underWay) return;
    this.underWay = false;
    this.waiting ??= this.last;
  }

  /** Whether no requested scene is still to come. */
  get idle(): boolean {
    return !this.underWay && this.waiting === undefined;
  }

  request(open: ReadonlySet<string>, first?: FirstPicture): void {
    this.waiting = { open: [...open], first };
    this.pump();
  }

  /** Ends the running layout and drops the waiting one; false if no layout can be ended. */
  breakOff(): boolean {
    if (this.idle || !this.engine.apart) return false;
    this.engine.close();
    this.engine = this.startWorker() ?? this.inPlace();
    this.postGraph?.();
    this.ticket++;
    this.underWay = false;
    this.waiting = undefined;
    this.listener.busy(false);
    return true;
  }

  dispose(): void {
    this.engine.close();
    this.waiting = undefined;
  }

  private pump(): void {
    if (this.underWay || this.waiting === undefined) return;
    this.last = this.waiting;
    this.waiting = undefined;
    this.underWay = true;
    this.listener.busy(true);
    this.engine.post({ kind: "layout", ticket: ++this.ticket, ...this.last });
  }

  private answer(reply: LayoutReply): void {
    if (reply.kind === "hierarchy") {
      this.listener.hierarchy?.(reply.hierarchy, reply.version);
      return;
    }
    if (reply.ticket !== this.ticket) return;
    if (reply.kind === "progress") {
      this.listener.progress?.(reply.share);
      return;
    }
    this.underWay = false;
    if (reply.kind === "scene") {
      const chosen = reply.chosen && new Set(reply.chosen);
      this.listener.scene(reply.scene, reply.ms, chosen, new Set(this.last.open));
    }
    if (reply.kind === "failed") console.error(reply.message);
    this.listener.busy(this.waiting !== undefined);
    this.pump();
  }

  private startWorker(): Engine | undefined {
    if (typeof Worker === "undefined") return undefined;
    try {
      return this.engineOf(new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }));
    } catch {
      return undefined;
    }
  }

  private engineOf(worker: Worker): Engine {
    worker.onmessage = (event: MessageEvent<LayoutReply>) => this.answer(event.data);
    worker.onerror = () => this.fallBack(worker);
    return {
      apart: true,
      post: (request) => worker.postMessage(request),
      close: () => worker.terminate(),
    };
  }

  /** Lays out in place if the worker cannot start, for example because its script is blocked. */
  private fallBack(worker: Worker): void {
    worker.terminate();
    this.engine = this.inPlace();
    this.postGraph?.();
    if (!this.underWay) return;
    this.underWay = false;
    this.waiting ??= this.last;
    this.pump();
  }

  private inPlace(): Engine {
    const session = new LayoutSession();
    return {
      apart: false,
      post: (request) => {
        if (request.kind === "prepared") return;
        const reply = session.handle(request);
        if (reply !== undefined) queueMicrotask(() => this.answer(reply));
      },
      close: () => undefined,
    };
  }
}
