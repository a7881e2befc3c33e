/**
 * What the page tells the graph canvas and hears from it. The canvas is framework-free: it takes
 * plain data, keeps its own camera, and reports what the user does.
 *
 * Invariant: the canvas never changes the model; folding, selection and breakpoints come back to it
 * as new data from the store.
 */

import type { Family } from "@/base/families";
import type { Token } from "@/render/draw/design_tokens";

export type Phase = "forward" | "backward" | "optimizer" | "recompute" | "other";

/** A node as the canvas needs it. */
export interface GraphNode {
  readonly id: number;
  /** Unique, `scope/op_1`. */
  readonly name: string;
  /** Last part of the name, what is written on the box. */
  readonly label: string;
  readonly op: string;
  readonly family: Family;
  /** What it is for; in pictures of older programs it is not said. */
  readonly role?: string | undefined;
  readonly scope: string;
  readonly phase: Phase;
  /** Value ids by input port. */
  readonly inputs: readonly number[];
  /** Value ids by output port. */
  readonly outputs: readonly number[];
  /** One short line under the name, such as `x·W + b` or `axis 1`; may be empty. */
  readonly detail: string;
  /** Of a backward node, the forward node that it differentiates. */
  readonly forward: number | undefined;
  /** Ids of nodes that had to run before, without a value passing. */
  readonly control?: readonly number[] | undefined;
}

/** A value that travels along edges. */
export interface GraphValue {
  readonly id: number;
  readonly shape: readonly (number | null)[];
  readonly dtype: string;
  readonly bytes: number;
  /** The class of a value that is no tensor. */
  readonly type?: string | undefined;
}

export interface GraphModel {
  readonly nodes: readonly GraphNode[];
  readonly values: ReadonlyMap<number, GraphValue>;
  /** Grows with each change of structure. */
  readonly version: number;
  /** The same while only shapes and dtypes change; without it, `nodes` tells. */
  readonly structure?: object;
}

/** Bits of `NodeStates.flags`, as on the wire. */
export const HAS_NAN = 1;
export const HAS_INF = 2;
export const FAILED = 4;

/** Live state by node id (index = id); grown by the store, read by the canvas. */
export interface NodeStates {
  /** How often it has run up to the moment shown. 0 = not yet. */
  readonly times: Uint32Array;
  /** Training step of its last run; a node that last ran in an earlier step is drawn as not yet. */
  readonly step: Uint32Array;
  readonly durationNs: Float64Array;
  readonly flags: Uint8Array;
}

export type BreakpointMark = "enabled" | "disabled" | "unverified";
export type ColourBy = "family" | "time" | "memory" | "finite" | "tint";

/** A token by node id: colours that the canvas does not know the meaning of. */
export type Tints = ReadonlyMap<number, Token>;

/** How often a watch found something, by node id. */
export type WatchMarks = ReadonlyMap<number, number>;

/** The amber mark: where the program stands (or the moment looked at). */
export interface CurrentMark {
  readonly node: number;
  readonly when: "before" | "after";
  /** False while looking at the past. */
  readonly live: boolean;
}

/** A small distribution drawn inside the current node. */
export interface NodeBadge {
  readonly node: number;
  readonly histogram: readonly number[];
  readonly nanCount: number;
  readonly infCount: number;
  /** A scalar's value, written out, instead of a histogram. */
  readonly text: string;
  /** The node raised: the text says so, in red. */
  readonly raised?: boolean;
}

export type ChangeKind = "new" | "rewired" | "skipped";

/** What a step changed, by node id. */
export interface GraphChanges {
  readonly marks: ReadonlyMap<number, ChangeKind>;
  /** Value ids by input port, before and after. */
  readonly rewired: ReadonlyMap<
    number,
    { readonly before: readonly number[]; readonly after: readonly number[] }
  >;
}

export type PathTone = "nan" | "inf" | "select" | "change";

/** Nodes and connections that belong together: a chain of causes, or what depends on an edit. */
export interface GraphPath {
  /** What is written at each node, by its id. */
  readonly nodes: ReadonlyMap<number, string>;
  /** The node where it began. */
  readonly culprit: number | undefined;
  /** Ids of producer and reader. */
  readonly edges: readonly (readonly [number, number])[];
  readonly tone: PathTone;
  /** Of nodes that have another; an edge has that of the node it comes from. */
  readonly tones?: ReadonlyMap<number, PathTone>;
}

/** What is under the pointer or selected. Scopes are named by their path. */
export type GraphItem =
  | { readonly kind: "node"; readonly id: number }
  | { readonly kind: "scope"; readonly path: string };

export interface GraphViewEvents {
  select(item: GraphItem | undefined): void;
  toggleScope(path: string): void;
  /** The user clicked the breakpoint gutter (left edge) of a node, or pressed F9 on it. */
  toggleBreakpoint(node: number): void;
  hover(item: GraphItem | undefined): void;
  /** The camera moved; `zoom` 1 = 100 %. */
  camera(zoom: number): void;
  /** The top of the colour scale changed, in ns or bytes: the most that a drawn box stands for. */
  scale(most: number): void;
  /** A layout is under way or done. */
  layout(busy: boolean, ms: number): void;
}

/** The canvas as the page drives it. `createGraphView` in `graph_view.ts` makes one. */
export interface GraphView {
  /** Shows a graph, once it is laid out: with `reveal` in sight, else all of it if `whole`. */
  setGraph(
    model: GraphModel,
    first?: { readonly reveal?: GraphItem; readonly whole?: boolean },
  ): void;
  /** Scope paths that are open. Everything else is folded. */
  setExpanded(open: ReadonlySet<string>): void;
  setStates(states: NodeStates, step: number): void;
  setBreakpoints(marks: ReadonlyMap<number, BreakpointMark>): void;
  setWatchMarks(marks: WatchMarks): void;
  /** Marks the current node; with `follow` the camera keeps it in view (moving as little as it can). */
  setCurrent(mark: CurrentMark | undefined, follow: boolean): void;
  setBadge(badge: NodeBadge | undefined): void;
  setSelection(item: GraphItem | undefined): void;
  setColourBy(mode: ColourBy): void;
  /** Nodes that match a search, dimming the others; undefined = no search. */
  setMatches(ids: ReadonlySet<number> | undefined): void;
  /** What `ColourBy` "tint" shows; nodes that are not in it are drawn off. */
  setTints(tints: Tints): void;
  /** Nodes outlined as belonging to what is selected or pointed at elsewhere. */
  setLinked(ids: ReadonlySet<number>): void;
  /** Shows what a step changed; undefined = not now. */
  setChanges(changes: GraphChanges | undefined): void;
  /** Marks a path; undefined = none. */
  setPath(path: GraphPath | undefined): void;
  /** Re-reads the theme's CSS variables. */
  themeChanged(): void;
  /** Shows the whole graph, and goes on to while it grows, until the camera is moved. */
  fit(): void;
  reveal(item: GraphItem): void;
  zoomBy(factor: number): void;
  zoomTo(zoom: number): void;
  /** Arrow keys: the neighbour along edges, undefined if none. */
  neighbour(from: GraphItem, direction: "up" | "down" | "left" | "right"): GraphItem | undefined;
  /**
   * What is on screen, or the whole graph as it is folded, as a stand-alone SVG document; `title`
   * stands below it, `fonts` is CSS that holds fonts themselves.
   */
  toSvg(extent: "screen" | "whole", page: { title: string; fonts: string }): string;
  /** The overview strip's canvas; drawn and driven by the view. */
  readonly overview: HTMLCanvasElement;
  /** For tests: screen rectangle (CSS px relative to the host) of an item now, if visible. */
  boundsOf(item: GraphItem): { x: number; y: number; width: number; height: number } | undefined;
  /** For tests: whether no layout is under way. */
  settled(): boolean;
  dispose(): void;
}
