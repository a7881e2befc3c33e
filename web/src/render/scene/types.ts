/**
 * Input and events of the graph canvas. The canvas is framework-free: it takes plain data, keeps
 * its own camera, and reports user actions.
 *
 * Invariant: the canvas never changes the model; folding, selection and breakpoints come back to it
 * as new data from the store.
 */

import type { Amounts as NodeAmounts } from "@/base/amounts";
import type { Family } from "@/base/families";
import type { Repeats, Stack } from "@/base/repeats";
import type { Token } from "@/render/draw/design_tokens";
import type { StackAct } from "@/render/scene/stack_controls";

export type Phase = "forward" | "backward" | "optimizer" | "recompute" | "other";

/** A node in the form that the canvas needs. */
export interface GraphNode {
  readonly id: number;
  /** Unique, `scope/op_1`. */
  readonly name: string;
  /** Last part of the name, shown on the box. */
  readonly label: string;
  readonly op: string;
  readonly family: Family;
  /** Its purpose; unknown in pictures of older programs. */
  readonly role?: string | undefined;
  readonly scope: string;
  readonly phase: Phase;
  /** Value ids by input port. */
  readonly inputs: readonly number[];
  /** Value ids by output port. */
  readonly outputs: readonly number[];
  /** One short line under the name, such as `x·W + b` or `axis 1`; may be empty. */
  readonly detail: string;
  /** For a backward node, the forward node that it differentiates. */
  readonly forward: number | undefined;
  /** Ids of nodes that had to run before this one although it reads no value of theirs. */
  readonly control?: readonly number[] | undefined;
}

/** A value that travels along edges. */
export interface GraphValue {
  readonly id: number;
  readonly shape: readonly (number | null)[];
  readonly dtype: string;
  readonly bytes: number;
  /** The class of a value that is not a tensor. */
  readonly type?: string | undefined;
}

export interface GraphModel {
  readonly nodes: readonly GraphNode[];
  readonly values: ReadonlyMap<number, GraphValue>;
  /** Grows with each change of structure. */
  readonly version: number;
  /** The same object while only shapes and dtypes change; undefined if that is not tracked. */
  readonly structure?: object;
  /** Stacks of scopes that are alike, if known; operations are indices into `nodes`. */
  readonly repeats?: Repeats | undefined;
  /** The columns of the graph, by which a prepared worker is found (`layout/prepared.ts`). */
  readonly origin?: object | undefined;
}

/** Bits of `NodeStates.flags`, as on the wire. */
export const HAS_NAN = 1;
export const HAS_INF = 2;
export const FAILED = 4;

/** Live state by node id (index = id); grown by the store, read by the canvas. */
export interface NodeStates {
  /** How often the node has run up to the moment shown. 0 = not yet. */
  readonly times: Uint32Array;
  /**
   * Training step of its last run; a node that last ran in an earlier step is drawn as not yet run.
   */
  readonly step: Uint32Array;
  readonly durationNs: Float64Array;
  readonly flags: Uint8Array;
}

export type BreakpointMark = "enabled" | "disabled" | "unverified";
export type ColourBy = "family" | "time" | "memory" | "finite" | "tint" | "amount";

/** Numbers for `ColourBy` "amount", whose meaning the canvas does not know. */
export interface Amounts extends NodeAmounts {
  /** Describes the numbers, for the scale of an exported picture. */
  readonly scale?: AmountScale | undefined;
}

export interface AmountScale {
  readonly title: string;
  /** How the number of a folded scope is computed. */
  readonly folded: string;
  format(value: number): string;
}

export const NO_AMOUNTS: Amounts = { values: new Map(), join: "mean", least: 0, most: 0 };

/** A token by node id: colours whose meaning the canvas does not know. */
export type Tints = ReadonlyMap<number, Token>;

/** Number of hits of watches, by node id. */
export type WatchMarks = ReadonlyMap<number, number>;

/** The amber mark: where the program is stopped (or the moment being viewed). */
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

/** Changes made by a step, by node id. */
export interface GraphChanges {
  readonly marks: ReadonlyMap<number, ChangeKind>;
  /** Value ids by input port, before and after. */
  readonly rewired: ReadonlyMap<
    number,
    { readonly before: readonly number[]; readonly after: readonly number[] }
  >;
}

export type PathTone = "nan" | "inf" | "select" | "change";

/** Related nodes and connections: a chain of causes, or the dependents of an edit. */
export interface GraphPath {
  /** The label of each node, by its id. */
  readonly nodes: ReadonlyMap<number, string>;
  /** The node where it began. */
  readonly culprit: number | undefined;
  /** Ids of producer and reader. */
  readonly edges: readonly (readonly [number, number])[];
  readonly tone: PathTone;
  /** Tones that differ; an edge has the tone of its source node. */
  readonly tones?: ReadonlyMap<number, PathTone>;
}

/** The item under the pointer or selected. Scopes are identified by their path. */
export type GraphItem =
  | { readonly kind: "node"; readonly id: number }
  | { readonly kind: "scope"; readonly path: string };

/** Where the camera looks: the offset of the view's middle from an item's top left corner. */
export interface Viewpoint {
  readonly item: GraphItem;
  readonly dx: number;
  readonly dy: number;
  readonly zoom: number;
}

export interface GraphViewEvents {
  /** `stack`: set if the item's path is that of a stack. */
  select(item: GraphItem | undefined, stack: Stack | undefined): void;
  toggleScope(path: string, stack: Stack | undefined): void;
  /** The user wants another scope of a stack, or all of them. */
  turnStack(stack: Stack, act: StackAct, repeats: Repeats): void;
  /** The layout chose which scopes are open, so that the picture is readable in the window. */
  chosen(open: ReadonlySet<string>): void;
  /** Whether the layout will choose them, in a moment and without the graph growing further. */
  choosing?(ahead: boolean): void;
  /** The user clicked the breakpoint gutter (left edge) of a node, or pressed F9 on it. */
  toggleBreakpoint(node: number): void;
  hover(item: GraphItem | undefined): void;
  /** The camera moved; `byHand`: the user has moved it since it was fitted; `zoom` 1 = 100 %. */
  camera(zoom: number, byHand: boolean): void;
  /** The user zoomed; `into`: the folded scope or stack under the pointer when zooming in. */
  zoomed?(zoom: number, into: string | undefined): void;
  /** The top of the colour scale changed, in ns or bytes: the largest amount of a drawn box. */
  scale(most: number): void;
  /** A layout has begun or finished. */
  layout(busy: boolean, ms: number): void;
  /** The share of the open groups that is laid out. */
  progress?(share: number): void;
}

/**
 * The interface by which the page drives the canvas. `createGraphView` in `graph_view.ts` creates
 * one.
 */
export interface GraphView {
  /** Shows a graph once it is laid out: with `reveal` in view, else all of it if `whole`. */
  setGraph(
    model: GraphModel,
    first?: { readonly reveal?: GraphItem; readonly whole?: boolean },
  ): void;
  /** Scope paths that are open. Everything else is folded. */
  setExpanded(open: ReadonlySet<string>): void;
  /** Whether the layout chooses which scopes are open, see `GraphViewEvents.chosen`. */
  setChoosing(choosing: boolean): void;
  /** undefined: executions are unknown, and no node is drawn as not yet run. */
  setStates(states: NodeStates | undefined, step: number): void;
  setBreakpoints(marks: ReadonlyMap<number, BreakpointMark>): void;
  setWatchMarks(marks: WatchMarks): void;
  /** Marks the current node; with `follow` the camera keeps it in view (moving as little as it can). */
  setCurrent(mark: CurrentMark | undefined, follow: boolean): void;
  setBadge(badge: NodeBadge | undefined): void;
  setSelection(item: GraphItem | undefined): void;
  setColourBy(mode: ColourBy): void;
  /** Nodes that match a search, dimming the others; undefined = no search. */
  setMatches(ids: ReadonlySet<number> | undefined): void;
  /** The colours for `ColourBy` "tint"; nodes without one are drawn as off. */
  setTints(tints: Tints): void;
  /** The numbers for `ColourBy` "amount". */
  setAmounts(amounts: Amounts): void;
  /** Nodes outlined as related to an item selected or pointed at elsewhere. */
  setLinked(ids: ReadonlySet<number>): void;
  /** Shows the changes made by a step; undefined = none. */
  setChanges(changes: GraphChanges | undefined): void;
  /** Marks a path; undefined = none. */
  setPath(path: GraphPath | undefined): void;
  /** Re-reads the theme's CSS variables. */
  themeChanged(): void;
  /** Shows the whole graph, also while it grows, until the camera is moved. */
  fit(): void;
  /** Ends the running layout; returns the scopes open then, or undefined if none was running. */
  breakOff(): ReadonlySet<string> | undefined;
  reveal(item: GraphItem): void;
  /** Where the camera looks; undefined while there is nothing to see. */
  viewpoint(): Viewpoint | undefined;
  /** Moves the camera there once the graph is laid out, if the item is part of it. */
  setViewpoint(at: Viewpoint): void;
  zoomBy(factor: number): void;
  zoomTo(zoom: number): void;
  /** Arrow keys: the neighbour along edges, undefined if none. */
  neighbour(from: GraphItem, direction: "up" | "down" | "left" | "right"): GraphItem | undefined;
  /**
   * The part on screen, or the whole graph as it is folded, as a stand-alone SVG document; `title`
   * is shown below it, `fonts` is CSS that contains the fonts themselves.
   */
  toSvg(extent: "screen" | "whole", page: { title: string; fonts: string }): string;
  /** The overview strip's canvas; drawn and driven by the view. */
  readonly overview: HTMLCanvasElement;
  /** For tests: current screen rectangle (CSS px relative to the host) of an item, if visible. */
  boundsOf(item: GraphItem): { x: number; y: number; width: number; height: number } | undefined;
  /** For tests: whether no layout is running. */
  settled(): boolean;
  dispose(): void;
}
