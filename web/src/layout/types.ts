/**
 * Input and output of the layout: plain data that can be posted to a worker.
 *
 * Invariant: the layout knows nothing of colours, states or cameras.
 */

/** A node in the form that the layout needs; the canvas's `GraphNode` is one. */
export interface LayoutNode {
  readonly id: number;
  readonly label: string;
  readonly op: string;
  /** Determines its look; `leaf` if it only holds data. */
  readonly family: string;
  /** Its purpose, if known. */
  readonly role?: string | undefined;
  readonly scope: string;
  readonly phase: string;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  readonly detail: string;
  readonly forward: number | undefined;
  /** Ids of nodes that had to run before this one although it reads no value of theirs. */
  readonly control?: readonly number[] | undefined;
}

export interface LayoutValue {
  readonly id: number;
  /** null where a size is unknown. */
  readonly shape: readonly (number | null)[];
  readonly bytes: number;
  /** The class of a value that is not a tensor. */
  readonly type?: string | undefined;
}

export const BOX_NODE = 0;
/** A folded scope. */
export const BOX_FOLD = 1;
/** An open scope: its children have their own boxes. */
export const BOX_SCOPE = 2;
/** Data given by the user: a small rounded box. */
export const BOX_INPUT = 3;
/** One of several drawings of a parameter that several scopes read. */
export const BOX_STUB = 4;
/** Names the producer of a value beside a far reader, in place of a line. */
export const BOX_FAR = 5;

export const EDGE_BACK = 1;
/** Begins (into) or ends (out of) at the border of an open scope, where another edge connects. */
export const EDGE_INTO_SCOPE = 2;
export const EDGE_OUT_OF_SCOPE = 4;

/** Value ids from here on denote the order of two nodes: no data flows. */
const ORDERS = 2 ** 36;

export function orderValue(node: number): number {
  return ORDERS + node;
}

export function isOrder(value: number): boolean {
  return value >= ORDERS;
}

/** The node that an order value begins with. */
export function firstInOrder(value: number): number {
  return value - ORDERS;
}

export const LINK_SEED = 0;
export const LINK_GRADIENTS = 1;

/** The finished layout: boxes and edges in columns, absolute px. */
export interface Scene {
  readonly version: number;
  readonly boxes: number;
  readonly kind: Uint8Array;
  /** Index of the node (BOX_NODE, BOX_INPUT, BOX_STUB, BOX_FAR) or of the group in the hierarchy. */
  readonly ref: Int32Array;
  /** The open scope around it, -1 at the top. Parents come before their children. */
  readonly parent: Int32Array;
  /** Top left corner and size. */
  readonly x: Float32Array;
  readonly y: Float32Array;
  readonly width: Float32Array;
  readonly height: Float32Array;
  readonly edges: number;
  /** Boxes at the ends; for a piece that ends at a scope's border, that scope. */
  readonly source: Int32Array;
  readonly target: Int32Array;
  readonly edgeFlags: Uint8Array;
  /** Producer (node index) and id of the edge's value; for a bundle, those of its largest value. */
  readonly producer: Int32Array;
  readonly value: Float64Array;
  /** Number of bundled values, and their total bytes. */
  readonly bundle: Int32Array;
  readonly bytes: Float64Array;
  /** Edge e has points `start[e]` to `start[e + 1] - 1`; `points` holds x, y per point. */
  readonly start: Int32Array;
  readonly points: Float32Array;
  /** Leading points that another edge draws. */
  readonly shared: Int32Array;
  /** Connections between the columns: kind, source box, target box, by three. */
  readonly links: Int32Array;
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

export const EMPTY_SCENE: Scene = {
  version: 0,
  boxes: 0,
  edges: 0,
  left: 0,
  top: 0,
  right: 0,
  bottom: 0,
  kind: new Uint8Array(0),
  ref: new Int32Array(0),
  parent: new Int32Array(0),
  x: new Float32Array(0),
  y: new Float32Array(0),
  width: new Float32Array(0),
  height: new Float32Array(0),
  source: new Int32Array(0),
  target: new Int32Array(0),
  edgeFlags: new Uint8Array(0),
  producer: new Int32Array(0),
  value: new Float64Array(0),
  bundle: new Int32Array(0),
  bytes: new Float64Array(0),
  start: new Int32Array(1),
  points: new Float32Array(0),
  shared: new Int32Array(0),
  links: new Int32Array(0),
};
