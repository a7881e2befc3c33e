/**
 * A graph being laid out repeatedly: the common part of worker and synchronous use.
 *
 * Invariant: a scene belongs to the version of the graph that it names.
 */

import { composeScene } from "@/layout/compose";
import { buildHierarchy } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import type { LayoutNode, LayoutValue, Scene } from "@/layout/types";
import { unfold, type Window } from "@/layout/unfolding";

export type LayoutRequest =
  | {
      readonly kind: "graph";
      readonly version: number;
      readonly nodes: readonly LayoutNode[];
      readonly values: readonly LayoutValue[];
    }
  | {
      readonly kind: "layout";
      readonly ticket: number;
      readonly open: readonly string[];
      readonly first: FirstPicture | undefined;
    };

/** Other scopes may be opened and folded, so that the picture is readable in the window. */
export interface FirstPicture {
  readonly window: Window;
  /** Scopes that stay open. */
  readonly kept: readonly string[];
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
  | { readonly kind: "failed"; readonly ticket: number; readonly message: string };

export class LayoutSession {
  private layout: NestedLayout | undefined;
  private version = 0;

  handle(request: LayoutRequest): LayoutReply | undefined {
    if (request.kind === "graph") {
      const values = new Map(request.values.map((value) => [value.id, value]));
      this.layout = new NestedLayout(buildHierarchy(request.nodes, values));
      this.version = request.version;
      return undefined;
    }
    const { ticket, first } = request;
    try {
      const begin = performance.now();
      const layout = this.layout ?? new NestedLayout(buildHierarchy([], new Map()));
      const given = new Set(request.open);
      const open = first && unfold(layout, given, new Set(first.kept), first.window);
      const scene = composeScene(layout, open ?? given, this.version);
      const ms = performance.now() - begin;
      return { kind: "scene", ticket, scene, ms, chosen: open && [...open] };
    } catch (fault) {
      const message = fault instanceof Error ? fault.message : String(fault);
      return { kind: "failed", ticket, message: `The graph could not be laid out: ${message}` };
    }
  }
}

/** A node with only the fields that the layout reads: a store's proxies cannot be posted. */
export function plainNode(node: LayoutNode): LayoutNode {
  return {
    id: node.id,
    label: node.label,
    op: node.op,
    family: node.family,
    role: node.role,
    scope: node.scope,
    phase: node.phase,
    inputs: [...node.inputs],
    outputs: [...node.outputs],
    detail: node.detail,
    forward: node.forward,
    control: node.control === undefined ? undefined : [...node.control],
  };
}

export function plainValue(value: LayoutValue): LayoutValue {
  return { id: value.id, shape: [...value.shape], bytes: value.bytes, type: value.type };
}
