/**
 * Layout of nested scopes: lays out each open scope separately, from the inside out; results are
 * cached until something in the scope changes.
 *
 * Invariant: folding or opening a scope lays out again only that scope and the scopes around it;
 * edges between scopes meet at ports in the borders, whose positions the inner layout determines.
 */

import { farReads } from "@/layout/far";
import {
  COLUMN_BACKWARD,
  COLUMN_OPTIMIZER,
  farKey,
  farOf,
  type Group,
  groupKey,
  type Hierarchy,
  inPortKey,
  isFar,
  isOutPort,
  isPort,
  isStub,
  outPortKey,
  type SavedRead,
  sourceOf,
  stubKey,
  stubOf,
} from "@/layout/hierarchy";
import type { LayeredInput, LayeredResult } from "@/layout/layered";
import { layoutPacked } from "@/layout/packed";
import { PIN_FIRST, PIN_LAST } from "@/layout/rank";
import type { Segment } from "@/layout/segments";
import {
  farSize,
  foldSize,
  HEADER_HEIGHT,
  headerWidth,
  inputSize,
  nodeSize,
  SCOPE_PADDING,
  type Size,
} from "@/layout/sizes";
import { isOrder } from "@/layout/types";
import { ONE_COLUMN } from "@/layout/wrapped";

/** One group laid out; coordinates are relative to its top left corner, px. */
export interface GroupLayout {
  readonly width: number;
  readonly height: number;
  readonly items: readonly number[];
  /** Top left corners and sizes of items. */
  readonly x: Float64Array;
  readonly y: Float64Array;
  readonly itemWidth: Float64Array;
  readonly itemHeight: Float64Array;
  /** By port key: where the value crosses the border, as an x offset from the centre. */
  readonly ports: ReadonlyMap<number, number>;
  readonly edges: readonly GroupEdge[];
  /** The producer (node index) that each far stub names, by the stub's number. */
  readonly far: readonly number[];
  readonly route: Pick<LayeredResult, "start" | "points" | "shared" | "reversed">;
  /** Offset of the route's origin. */
  readonly dx: number;
  readonly dy: number;
  /** y of the top of a column laid out by `aligned`. */
  readonly wishedTop: number;
}

export interface GroupEdge {
  readonly from: number;
  readonly to: number;
  readonly producer: number;
  readonly value: number;
  readonly bundle: number;
  readonly bytes: number;
  /** Where the edge leaves and enters, as x offsets from the centres of its ends. */
  readonly leave: number;
  readonly enter: number;
}

const NODE_GAP = 18;
/** The column height in a scope, as a share of the column height around the scope. */
const INNER = 0.85;
const LAYER_GAP = 30;
const PORT_GAP = 16;
/** Ports per side. Further values share the last port, or the scope would be too wide. */
const MOST_PORTS = 12;
const PORT_DISTANCE = 10;
/** Room below the last node of a scope, px, because the current node is drawn larger. */
const RAISED_ROOM = 4;
/** Between the title of a scope and its first box, px. */
const BELOW_TITLE = 6;

export type WantedY = (item: number) => number;

/** Lays out groups and caches the results. */
export class NestedLayout {
  private readonly kept = new Map<number, GroupLayout>();
  private open: ReadonlySet<number> = new Set();
  /** For each stack that shows a single scope: the group of that scope, by the stack's group. */
  private shown: ReadonlyMap<number, number> = new Map();
  private column = ONE_COLUMN;
  /** How many groups were laid out since the last `setOpen`; for tests. */
  fresh = 0;
  /** Total work so far: the number of boxes, edges and route points laid out. */
  work = 0;
  /** Called with the share of the open groups that is laid out. */
  progress: ((share: number) => void) | undefined;

  constructor(readonly hierarchy: Hierarchy) {}

  /** Replaces the set of open groups, given by path; drops the cached layouts that this affects. */
  setOpen(paths: "all" | ReadonlySet<string>): void {
    this.fresh = 0;
    const { open, shown } = openGroups(this.hierarchy, paths);
    const changed = [...open]
      .filter((group) => !this.open.has(group) || this.shown.get(group) !== shown.get(group))
      .concat([...this.open].filter((group) => !open.has(group)));
    const backward = this.hierarchy.groupAt.get("backward") ?? -1;
    if (changed.includes(backward)) this.kept.clear();
    for (const group of changed) {
      for (let at = group; at >= 0; at = this.hierarchy.groups[at]!.parent) this.kept.delete(at);
    }
    this.open = open;
    this.shown = shown;
  }

  /** The height, in px, beyond which long chains are cut into columns. */
  get columnHeight(): number {
    return this.column;
  }

  setColumn(height: number): void {
    if (height === this.column) return;
    this.column = height;
    this.kept.clear();
  }

  /** The column height in a group; infinite if forward and backward pass are aligned. */
  private columnFor(group: Group): number {
    const backward = this.hierarchy.groupAt.get("backward") ?? -1;
    const level = group.column !== COLUMN_OPTIMIZER && this.open.has(backward);
    // A nested scope shares the window with the scopes around it, so its columns are shorter.
    return level ? Number.POSITIVE_INFINITY : this.column * INNER ** group.depth;
  }

  isOpen(group: number): boolean {
    return group === 0 || this.open.has(group);
  }

  /** The layout of an open group. */
  of(group: number): GroupLayout {
    const kept = this.kept.get(group);
    if (kept !== undefined) return kept;
    const one = this.shownOf(group);
    const laidOut = one < 0 ? this.lay(group, undefined) : this.oneOf(group, one);
    this.kept.set(group, laidOut);
    this.progress?.(this.kept.size / (this.open.size + 1));
    return laidOut;
  }

  /** The single scope that a stack shows; -1 if the group is no stack or shows all its scopes. */
  shownOf(group: number): number {
    return this.shown.get(group) ?? -1;
  }

  /** The layout of a stack that shows one scope: values of the others use that scope's ports. */
  private oneOf(index: number, one: number): GroupLayout {
    const { groups, repeats, segments } = this.hierarchy;
    const laidOut = this.of(one);
    const ports = new Map<number, number>();
    for (const { from, to, value } of segments.of(index)) {
      const out = isPort(to);
      if (!out && !isPort(from)) continue;
      const key = out ? outPortKey(value) : inPortKey(value);
      const member = (out ? from : to) - this.hierarchy.nodes.length;
      const twin = repeats.twinValue(value, groups[member]!.path, groups[one]!.path) ?? -1;
      const at = laidOut.ports.get(out ? outPortKey(twin) : inPortKey(twin));
      if (at !== undefined && !ports.has(key)) ports.set(key, at);
    }
    return { ...laidOut, ports };
  }

  /** Lays out a group with its items near the wanted y positions; not cached. */
  aligned(group: number, wanted: WantedY): GroupLayout {
    return this.lay(group, wanted);
  }

  groupSize(group: number): Size {
    return this.isOpen(group) ? this.of(group) : foldSize(this.hierarchy.groups[group]!);
  }

  private lay(index: number, wanted: WantedY | undefined): GroupLayout {
    this.fresh++;
    const { hierarchy } = this;
    const group = hierarchy.groups[index]!;
    const root = index === 0;
    const items = [...group.nodes, ...this.childGroups(group), ...group.stubs.map(stubKey)];
    const { edges: lines, ports } = this.bundleEdges(group, items);
    const { edges, far } = withStubs(lines, group.saved, (key) => this.itemSize(key).height);
    const drawnPorts = [...new Set(ports.values())];
    items.push(...far.map((_, k) => farKey(k)), ...drawnPorts);
    const at = new Map(items.map((key, k) => [key, k]));
    const count = items.length;
    const width = new Float64Array(count);
    const height = new Float64Array(count);
    const pin = new Uint8Array(count);
    const spread = new Uint8Array(count);
    items.forEach((key, k) => {
      const size = isFar(key) ? farSize(hierarchy, far[farOf(key)]!) : this.itemSize(key);
      width[k] = size.width;
      height[k] = size.height;
      if (isPort(key)) pin[k] = isOutPort(key) ? PIN_LAST : PIN_FIRST;
      spread[k] = isPort(key) || isFar(key) || this.openGroup(key) >= 0 ? 0 : 1;
    });
    const input: LayeredInput = {
      width,
      height,
      pin,
      spread,
      source: Int32Array.from(edges, (edge) => at.get(edge.from)!),
      target: Int32Array.from(edges, (edge) => at.get(edge.to)!),
      sourceOffset: Float32Array.from(edges, (edge) => edge.leave),
      targetOffset: Float32Array.from(edges, (edge) => edge.enter),
      nodeGap: NODE_GAP,
      layerGap: LAYER_GAP,
      portGap: PORT_GAP,
      upward: group.column === COLUMN_BACKWARD,
      wantedY: wanted === undefined ? undefined : Float64Array.from(items, wanted),
    };
    const result = layoutPacked(input, this.columnFor(group));
    this.work += count + edges.length + result.points.length / 2;
    if (result.columns === 1) alignThrough(drawnPorts, edges, at, result);
    const padding = root ? 0 : SCOPE_PADDING;
    const inStack = hierarchy.groups[group.parent]?.stack !== undefined;
    // Keeps boxes clear of the title if there is no layer of ports between them.
    const highest = items.reduce(
      (least, key, k) => (isPort(key) ? least : Math.min(least, result.y[k]! - height[k]! / 2)),
      result.top + BELOW_TITLE,
    );
    const header = root ? 0 : HEADER_HEIGHT + result.top + BELOW_TITLE - highest;
    const footer = root || drawnPorts.length > 0 ? padding / 2 : padding + RAISED_ROOM;
    const inner = Math.max(result.width, root ? 0 : headerWidth(group, inStack) - 2 * padding);
    const dx = padding + (inner - result.width) / 2;
    const dy = header - result.top;
    const total = inner + 2 * padding;
    const bottom = result.bottom - result.top + header + footer;
    const x = Float64Array.from(items, (_, k) => result.x[k]! - width[k]! / 2 + dx);
    const y = Float64Array.from(items, (_, k) => result.y[k]! - height[k]! / 2 + dy);
    nearReaders(items, edges, y, height, result, dy, group.column === COLUMN_BACKWARD);
    stretchPorts(items, edges, at, result, dy, bottom, group.column === COLUMN_BACKWARD);
    return {
      width: total,
      height: bottom,
      items,
      x,
      y,
      itemWidth: width,
      itemHeight: height,
      ports: new Map(
        [...ports].map(([key, port]) => [key, result.x[at.get(port)!]! + dx - total / 2]),
      ),
      edges,
      far,
      route: result,
      dx,
      dy,
      wishedTop: result.top - header,
    };
  }

  /** Child groups in the group's own column: for the root, without backward and optimizer. */
  private childGroups(group: Group): number[] {
    return group.groups
      .filter((child) => this.hierarchy.groups[child]!.column === group.column)
      .map((child) => groupKey(this.hierarchy, child));
  }

  private openGroup(key: number): number {
    const nodes = this.hierarchy.nodes.length;
    if (key < nodes || isStub(key) || isPort(key)) return -1;
    return this.isOpen(key - nodes) ? key - nodes : -1;
  }

  private itemSize(key: number): Size {
    const { hierarchy } = this;
    if (isPort(key)) return { width: 4, height: 0 };
    if (isStub(key)) {
      return { ...inputSize(hierarchy, hierarchy.stubs[stubOf(key)]!.node), height: 18 };
    }
    if (key >= hierarchy.nodes.length) return this.groupSize(key - hierarchy.nodes.length);
    return hierarchy.nodes[key]!.family === "leaf"
      ? inputSize(hierarchy, key)
      : nodeSize(hierarchy, key);
  }

  /** Where a value enters or leaves an open child, from its centre; 0 for anything else. */
  private portOffset(item: number, port: number): number {
    const open = this.openGroup(item);
    return open < 0 ? 0 : (this.of(open).ports.get(port) ?? 0);
  }

  /**
   * One edge per pair of ends, with the values that it carries; ports beyond the limit are merged.
   * `ports` maps every port to the one that represents it.
   */
  private bundleEdges(
    group: Group,
    items: readonly number[],
  ): { edges: GroupEdge[]; ports: Map<number, number> } {
    const members = new Set(items);
    const segments = this.hierarchy.segments.of(group.index);
    const ports = mergedPorts(segments);
    const bundles = new Map<string, Bundle>();
    for (const { from: source, to: target, value } of segments) {
      const from = ports.get(source) ?? source;
      const to = ports.get(target) ?? target;
      if ((!isPort(from) && !members.has(from)) || (!isPort(to) && !members.has(to))) continue;
      const leave = this.portOffset(from, outPortKey(value));
      const enter = this.portOffset(to, inPortKey(value));
      const bytes = this.hierarchy.values.get(value)?.bytes ?? 0;
      const key = `${from} ${to} ${leave} ${enter} ${isOrder(value)}`;
      const bundle = bundles.get(key);
      if (bundle === undefined) {
        bundles.set(key, {
          from,
          to,
          producer: sourceOf(this.hierarchy, value),
          value,
          bundle: 1,
          bytes,
          leave,
          enter,
          largest: bytes,
        });
        continue;
      }
      bundle.bundle++;
      bundle.bytes += bytes;
      if (bytes <= bundle.largest) continue;
      Object.assign(bundle, { largest: bytes, value, producer: sourceOf(this.hierarchy, value) });
    }
    return { edges: [...bundles.values()], ports };
  }
}

/**
 * Replaces far producers by stubs; returns the edges and the producer of each stub. `saved`: reads
 * of values from another column, which always get stubs.
 */
function withStubs(
  lines: readonly GroupEdge[],
  saved: readonly SavedRead[],
  heightOf: (key: number) => number,
): {
  readonly edges: readonly GroupEdge[];
  readonly far: readonly number[];
} {
  const replaced = farReads(lines, isPort, heightOf);
  if (replaced.size + saved.length === 0) return { edges: lines, far: [] };
  const far: number[] = [];
  const edges = lines.map((line, at) =>
    replaced.has(at) ? { ...line, from: farKey(far.push(line.producer) - 1), leave: 0 } : line,
  );
  for (const { to, producer, value } of saved) {
    const from = farKey(far.push(producer) - 1);
    edges.push({ from, to, producer, value, bundle: 1, bytes: 0, leave: 0, enter: 0 });
  }
  return { edges, far };
}

/**
 * The open groups. A stack is open if `paths` contains it or any of its scopes; if `paths` contains
 * exactly one of its scopes and not the stack, the stack shows only that scope.
 */
function openGroups(
  { groups, groupAt }: Hierarchy,
  paths: "all" | ReadonlySet<string>,
): { open: ReadonlySet<number>; shown: ReadonlyMap<number, number> } {
  const open = new Set<number>();
  const shown = new Map<number, number>();
  if (paths === "all") return { open: new Set(groups.keys()), shown };
  for (const path of paths) {
    const group = groupAt.get(path) ?? 0;
    if (group > 0) open.add(group);
  }
  for (const group of groups) {
    if (group.stack === undefined || open.has(group.index)) continue;
    const members = group.groups.filter((member) => open.has(member));
    if (members.length > 0) open.add(group.index);
    if (members.length === 1) shown.set(group.index, members[0]!);
  }
  return { open, shown };
}

type Bundle = { -readonly [K in keyof GroupEdge]: GroupEdge[K] } & { largest: number };

/** Every port of the group, and the port drawn for it. */
function mergedPorts(segments: readonly Segment[]): Map<number, number> {
  const ports = new Map<number, number>();
  const drawn = [0, 0];
  const last = [0, 0];
  for (const { from, to } of segments) {
    for (const key of [from, to]) {
      if (!isPort(key) || ports.has(key)) continue;
      const side = isOutPort(key) ? 1 : 0;
      if (drawn[side]! < MOST_PORTS) {
        drawn[side]! += 1;
        last[side] = key;
      }
      ports.set(key, last[side]!);
    }
  }
  return ports;
}

/**
 * Moves the main output below the main input: scopes in a sequence are then aligned, and do not
 * drift to the side of their last operation.
 */
function alignThrough(
  ports: readonly number[],
  edges: readonly GroupEdge[],
  at: ReadonlyMap<number, number>,
  result: LayeredResult,
): void {
  const main = (out: boolean): number => {
    let best = -1;
    let most = -1;
    for (const { from, to, bytes } of edges) {
      const port = out ? to : from;
      if (!isPort(port) || isOutPort(port) !== out || bytes <= most) continue;
      most = bytes;
      best = port;
    }
    return best;
  };
  const entry = main(false);
  const exit = main(true);
  if (entry < 0 || exit < 0) return;
  const x = result.x[at.get(entry)!]!;
  const crowded = ports.some(
    (port) =>
      port !== exit && isOutPort(port) && Math.abs(result.x[at.get(port)!]! - x) < PORT_DISTANCE,
  );
  if (crowded) return;
  result.x[at.get(exit)!] = x;
  edges.forEach((edge, k) => {
    const end = result.start[k + 1]!;
    if (edge.to !== exit || end === result.start[k]) return;
    result.points[2 * (end - 1)] = x;
    result.points[2 * (end - 2)] = x;
  });
}

/** Moves each far stub, within the height of its layer, to the side that faces its reader. */
function nearReaders(
  items: readonly number[],
  edges: readonly GroupEdge[],
  y: Float64Array,
  height: Float64Array,
  result: LayeredResult,
  dy: number,
  upward: boolean,
): void {
  const at = new Map(items.flatMap((key, k) => (isFar(key) ? [[key, k] as const] : [])));
  if (at.size === 0) return;
  edges.forEach((edge, k) => {
    const item = at.get(edge.from);
    const begin = result.start[k]!;
    if (item === undefined || result.start[k + 1]! - begin < 3) return;
    const end = result.points[2 * begin + 3]!;
    const straight = result.points[2 * begin] === result.points[2 * begin + 2];
    if (!straight || upward === result.points[2 * begin + 1]! < end) return;
    y[item] = end + dy - (upward ? 0 : height[item]!);
    result.points[2 * begin + 1] = end;
  });
}

/** Extends routes that begin or end at a port to the border itself, past header and padding. */
function stretchPorts(
  items: readonly number[],
  edges: readonly GroupEdge[],
  at: ReadonlyMap<number, number>,
  result: LayeredResult,
  dy: number,
  height: number,
  upward: boolean,
): void {
  edges.forEach((edge, k) => {
    const begin = result.start[k]!;
    const end = result.start[k + 1]!;
    if (begin === end) return;
    if (isPort(items[at.get(edge.from)!]!)) {
      result.points[2 * begin + 1] = (upward ? height : 0) - dy;
    }
    if (isPort(items[at.get(edge.to)!]!)) {
      result.points[2 * end - 1] = (upward ? 0 : height) - dy;
    }
  });
}
