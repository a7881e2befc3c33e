/**
 * A graph that is laid out repeatedly: the code shared by the worker and synchronous use.
 *
 * Invariant: a scene belongs to the version of the graph that it names.
 */

import type { Stack } from "@/base/repeats";
import { composeScene } from "@/layout/compose";
import { buildHierarchy, type Hierarchy, repeatsOf } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import { type PostedGraph, unpacked } from "@/layout/posted";
import type { PostedHierarchy } from "@/layout/posted_hierarchy";
import type { Scene } from "@/layout/types";
import { unfold, type Window } from "@/layout/unfolding";

export type LayoutRequest =
  | {
      readonly kind: "graph";
      readonly version: number;
      readonly graph: PostedGraph;
      /** The stacks of scopes that are alike, if they are known. */
      readonly stacks: readonly Stack[] | undefined;
    }
  | {
      readonly kind: "layout";
      readonly ticket: number;
      readonly open: readonly string[];
      readonly first: FirstPicture | undefined;
    };

/** Lets the layout choose the open scopes, so that the picture is readable in the window. */
export interface FirstPicture {
  readonly window: Window;
  /** Scopes that stay open. */
  readonly kept: readonly string[];
  /** Change nothing unless more of the forward pass opens. */
  readonly onlyMore?: boolean;
}

export type LayoutReply =
  | {
      readonly kind: "scene";
      readonly ticket: number;
      readonly scene: Scene;
      readonly ms: number;
      /** The scopes that are open, if the layout chose them. */
      readonly chosen: readonly string[] | undefined;
    }
  | { readonly kind: "failed"; readonly ticket: number; readonly message: string }
  /** The worker's hierarchy, in columns, for a canvas that has not built one. */
  | { readonly kind: "hierarchy"; readonly version: number; readonly hierarchy: PostedHierarchy }
  /** The share of the open groups that is laid out. */
  | { readonly kind: "progress"; readonly ticket: number; readonly share: number };

const PROGRESS_MS = 100;

/** The buffers that a worker transfers with a reply instead of copying them. */
export function transferred(reply: LayoutReply): Transferable[] {
  if (reply.kind !== "scene" && reply.kind !== "hierarchy") return [];
  const whole = reply.kind === "scene" ? reply.scene : reply.hierarchy;
  const columns = Object.values(whole).filter(ArrayBuffer.isView);
  return columns.map((view) => view.buffer as ArrayBuffer);
}

export class LayoutSession {
  private layout: NestedLayout | undefined;
  private version = 0;

  /** `post`: receives progress replies, which come before the answer. */
  constructor(private readonly post?: (reply: LayoutReply) => void) {}

  /** Takes a hierarchy that is already built. */
  take(hierarchy: Hierarchy, version: number): void {
    this.layout = new NestedLayout(hierarchy);
    this.version = version;
  }

  handle(request: LayoutRequest): LayoutReply | undefined {
    if (request.kind === "graph") {
      const { nodes, values } = unpacked(request.graph);
      const repeats = repeatsOf(nodes, request.stacks);
      this.take(buildHierarchy(nodes, values, repeats), request.version);
      return undefined;
    }
    const { ticket, first } = request;
    try {
      const begin = performance.now();
      const layout = this.layout ?? new NestedLayout(buildHierarchy([], new Map()));
      if (first === undefined) this.follow(layout, ticket, begin);
      const given = new Set(request.open);
      const kept = new Set(first?.kept);
      const open = first && unfold(layout, given, kept, first.window, first.onlyMore);
      const scene = composeScene(layout, open ?? given, this.version);
      const ms = performance.now() - begin;
      return { kind: "scene", ticket, scene, ms, chosen: open && [...open] };
    } catch (fault) {
      const message = fault instanceof Error ? fault.message : String(fault);
      return { kind: "failed", ticket, message: `The graph could not be laid out: ${message}` };
    } finally {
      if (this.layout !== undefined) this.layout.progress = undefined;
    }
  }

  private follow(layout: NestedLayout, ticket: number, begin: number): void {
    let last = begin;
    layout.progress = (share) => {
      const now = performance.now();
      if (now - last < PROGRESS_MS) return;
      last = now;
      this.post?.({ kind: "progress", ticket, share });
    };
  }
}
