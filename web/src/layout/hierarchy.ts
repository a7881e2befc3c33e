/**
 * The scope tree of a graph: which node is drawn in which scope, which leaves are drawn inside
 * their readers, and which edges each scope draws.
 *
 * Invariant: depends on the graph alone, not on folding, and has the same numbers for nodes, groups
 * and stubs wherever it is built (page, worker, export); parents come before their children.
 */

import { type ById, IdTable } from "@/base/by_id";
import { findRepeats, type Held, type Repeats, type Stack } from "@/base/repeats";
import { leafName, parentScope } from "@/base/scopes";
import { SharedTexts } from "@/base/shared_texts";
import { NO_SEGMENTS, SegmentList, type Segments } from "@/layout/segments";
import {
  firstInOrder,
  isOrder,
  type LayoutNode,
  type LayoutValue,
  orderValue,
} from "@/layout/types";

/** The forward graph, and the two columns beside it. */
export const COLUMN_FORWARD = 0;
export const COLUMN_BACKWARD = 1;
export const COLUMN_OPTIMIZER = 2;

export interface Group {
  readonly index: number;
  readonly path: string;
  readonly name: string;
  readonly parent: number;
  readonly depth: number;
  readonly column: number;
  /** The stack that this group stands for, whose scopes are its `groups`; undefined for a scope. */
  readonly stack: Stack | undefined;
  readonly groups: readonly number[];
  /** Indices of the nodes with their own boxes. */
  readonly nodes: readonly number[];
  readonly stubs: readonly number[];
  /** Reads of forward values by backward nodes, for values with many such readers. */
  readonly saved: readonly SavedRead[];
  /** Operations inside, excluding leaves and including nested scopes. */
  readonly ops: number;
}

/** A group under construction. */
export type Growing = { -readonly [Part in keyof Group]: Group[Part] };

type Parts = "groups" | "nodes" | "stubs" | "saved";

const NONE: readonly never[] = [];

/** Adds a part to a group. Most groups lack most kinds of parts and share one empty list. */
export function into<Part extends Parts>(
  group: Growing,
  part: Part,
  item: Group[Part][number],
): void {
  const list: readonly Group[Part][number][] = group[part];
  if (list.length === 0) group[part] = [item] as readonly unknown[] as Growing[Part];
  else (list as Group[Part][number][]).push(item);
}

/** Frees the spare capacity of lists that grew, by copying them. */
export function trim(group: Growing): void {
  if (group.groups.length > 1) group.groups = group.groups.slice();
  if (group.nodes.length > 1) group.nodes = group.nodes.slice();
  if (group.stubs.length > 1) group.stubs = group.stubs.slice();
  if (group.saved.length > 1) group.saved = group.saved.slice();
}

/** A parameter drawn again beside its readers in one scope. */
export interface Stub {
  readonly node: number;
  readonly group: number;
}

/** A read of a forward value by a backward node, which gets a stub. */
export interface SavedRead {
  readonly to: number;
  readonly producer: number;
  readonly value: number;
}

export interface Hierarchy {
  readonly nodes: readonly LayoutNode[];
  readonly values: ReadonlyMap<number, LayoutValue>;
  readonly indexOf: ById;
  readonly groups: readonly Group[];
  readonly groupAt: ReadonlyMap<string, number>;
  readonly repeats: Repeats;
  readonly groupOf: Int32Array;
  readonly stubs: readonly Stub[];
  /** Leaves drawn inside each node, by node index. */
  readonly chips: ReadonlyMap<number, readonly number[]>;
  /** Where a leaf without its own box is shown: its first reader; -1 = has a box. */
  readonly host: Int32Array;
  /** Producer of each value, as node index. */
  readonly producerOf: ById;
  /** Edges between columns: node indices of producer and reader, one pair after the other. */
  readonly crossing: Int32Array;
  /** The pieces of edges inside the groups; none in a hierarchy that is not laid out. */
  readonly segments: Segments;
  /** Node whose gradient starts the backward column, and the first node there; -1 = none. */
  readonly seed: readonly [number, number];
}

/** Item keys inside a group: nodes first, then groups, stubs and ports. */
export function groupKey(hierarchy: Pick<Hierarchy, "nodes">, group: number): number {
  return hierarchy.nodes.length + group;
}

/** A forward value that at least this many backward nodes read gets stubs beside them. */
const MANY_SAVED = 4;
/** At most this many such stubs at one node. */
const MOST_SAVED = 2;

/** Keys of usual graphs stay below 2³⁰: V8 allocates an object for each larger number. */
const PORTS = 2 ** 29;

export function inPortKey(value: number): number {
  return PORTS + 2 * value;
}

export function outPortKey(value: number): number {
  return PORTS + 2 * value + 1;
}

export function isPort(key: number): boolean {
  return key >= PORTS;
}

export function isOutPort(key: number): boolean {
  return key >= PORTS && key % 2 === 1;
}

const STUBS = 2 ** 28;

export function stubKey(stub: number): number {
  return STUBS + stub;
}

export function isStub(key: number): boolean {
  return key >= STUBS && key < PORTS;
}

export function stubOf(key: number): number {
  return key - STUBS;
}

const FARS = STUBS + 2 ** 27;

/** The item key of a stub for a far producer, by the stub's number in its scope. */
export function farKey(far: number): number {
  return FARS + far;
}

export function isFar(key: number): boolean {
  return key >= FARS && key < PORTS;
}

export function farOf(key: number): number {
  return key - FARS;
}

const COLUMN_NAMES: ReadonlyMap<string, number> = new Map([
  ["backward", COLUMN_BACKWARD],
  ["optimizer", COLUMN_OPTIMIZER],
]);

function columnOf(scope: string): number {
  const slash = scope.indexOf("/");
  return COLUMN_NAMES.get(slash < 0 ? scope : scope.slice(0, slash)) ?? COLUMN_FORWARD;
}

export function isLeaf(node: LayoutNode): boolean {
  return node.family === "leaf";
}

function isParameter(node: LayoutNode): boolean {
  return isLeaf(node) && (node.role === undefined ? node.op !== "tensor" : node.role !== "input");
}

/** What a leaf holds; undefined for a node that computes. */
export function heldBy(node: LayoutNode): Held {
  if (!isLeaf(node)) return undefined;
  if (node.role === undefined) return node.op === "tensor" ? "data" : "parameter";
  return node.role === "parameter" || node.role === "buffer" ? "parameter" : "data";
}

/** Args: stacks: The stacks of the nodes, if they are known. */
export function repeatsOf(nodes: readonly LayoutNode[], stacks?: readonly Stack[]): Repeats {
  return findRepeats(nodes, (index) => heldBy(nodes[index]!), stacks);
}

/**
 * Builds the tree. Linear in nodes and edges, times the depth of scopes for edges between them.
 *
 * Args:
 *   repeats: The repeats of the nodes, if they are known.
 *   laidOut: Whether the hierarchy will be laid out: otherwise its groups get no segments.
 */
export function buildHierarchy(
  nodes: readonly LayoutNode[],
  values: ReadonlyMap<number, LayoutValue>,
  repeats: Repeats = repeatsOf(nodes),
  laidOut = true,
): Hierarchy {
  const indexOf = new IdTable();
  const producerOf = new IdTable();
  nodes.forEach((node, index) => {
    indexOf.set(node.id, index);
    for (const value of node.outputs) if (!producerOf.has(value)) producerOf.set(value, index);
  });
  const columns = new Map<string, number>();
  const column = Int32Array.from(nodes, ({ scope }) => {
    const known = columns.get(scope) ?? columnOf(scope);
    columns.set(scope, known);
    return known;
  });
  const readers = readersOf(nodes, producerOf);
  const names = new SharedTexts();
  const groups: Growing[] = [newGroup(0, "", -1, names)];
  const groupAt = new Map<string, number>([["", 0]]);
  const newGroupIn = (parent: number, path: string, stack: Stack | undefined): number => {
    const index = groups.length;
    groups.push(newGroup(index, path, parent, names, stack, groups[parent]!));
    into(groups[parent]!, "groups", index);
    groupAt.set(path, index);
    return index;
  };
  const groupFor = (path: string): number => {
    const known = groupAt.get(path);
    if (known !== undefined) return known;
    const around = groupFor(parentScope(path));
    const stack = repeats.stackOf.get(path);
    if (stack === undefined) return newGroupIn(around, path, undefined);
    const box = groupAt.get(stack.path) ?? newGroupIn(around, stack.path, stack);
    return newGroupIn(box, path, undefined);
  };
  const chips = new Map<number, number[]>();
  const host = new Int32Array(nodes.length).fill(-1);
  const groupOf = new Int32Array(nodes.length);
  const stubs: Stub[] = [];
  /** Stubs of a leaf by group. */
  const stubAt = new Map<number, Map<number, number>>();
  nodes.forEach((node, index) => {
    const reads = isLeaf(node) ? readers[index]! : NONE;
    const forward = reads.filter((reader) => column[reader] === COLUMN_FORWARD);
    const inside =
      reads.length > 0 &&
      (isParameter(node) || (forward.length === 0 && column[index] === COLUMN_FORWARD));
    if (!inside) {
      const group = groupFor(node.scope);
      groupOf[index] = group;
      into(groups[group]!, "nodes", index);
      return;
    }
    const scopes = new Set(forward.map((reader) => nodes[reader]!.scope));
    host[index] = forward[0] ?? reads[0]!;
    for (const reader of reads) {
      if (scopes.size > 1 && column[reader] === COLUMN_FORWARD) continue;
      const list = chips.get(reader);
      if (list === undefined) chips.set(reader, [index]);
      else list.push(index);
    }
    if (scopes.size > 1) {
      const byGroup = new Map<number, number>();
      for (const scope of scopes) {
        const group = groupFor(scope);
        byGroup.set(group, stubs.length);
        into(groups[group]!, "stubs", stubs.length);
        stubs.push({ node: index, group });
      }
      stubAt.set(index, byGroup);
    }
  });
  for (let index = 0; index < nodes.length; index++) {
    if (host[index]! >= 0) groupOf[index] = groupOf[host[index]!]!;
    if (!isLeaf(nodes[index]!)) groups[groupOf[index]!]!.ops += 1;
  }
  for (let group = groups.length - 1; group > 0; group--) {
    groups[groups[group]!.parent]!.ops += groups[group]!.ops;
  }
  const hierarchy = {
    nodes,
    values,
    indexOf,
    groups,
    groupAt,
    repeats,
    groupOf,
    stubs,
    chips,
    host,
    producerOf,
    crossing: new Int32Array(0),
    segments: NO_SEGMENTS,
    seed: seedOf(nodes, indexOf, column),
  };
  const crossing: number[] = [];
  if (laidOut) hierarchy.segments = segmentsIn(hierarchy, groups, column, stubAt, crossing);
  else addCrossing(hierarchy, column, crossing);
  hierarchy.crossing = Int32Array.from(crossing);
  groups.forEach(trim);
  return hierarchy;
}

export function newGroup(
  index: number,
  path: string,
  parent: number,
  names: SharedTexts,
  stack?: Stack,
  above?: Group,
): Growing {
  return {
    index,
    path,
    name: stack?.name ?? names.of(leafName(path)),
    parent,
    depth: above === undefined ? 0 : above.depth + 1,
    column: columnOf(path),
    stack,
    groups: NONE,
    nodes: NONE,
    stubs: NONE,
    saved: NONE,
    ops: 0,
  };
}

/** The readers of leaves. */
function readersOf(nodes: readonly LayoutNode[], producerOf: ById): (readonly number[])[] {
  const readers: (readonly number[])[] = nodes.map(() => NONE);
  nodes.forEach((node, index) => {
    for (const value of node.inputs) {
      const producer = producerOf.get(value);
      if (producer === undefined || producer === index || !isLeaf(nodes[producer]!)) continue;
      const list = readers[producer]!;
      if (list.length === 0) readers[producer] = [index];
      else if (list[list.length - 1] !== index) (list as number[]).push(index);
    }
  });
  return readers;
}

/** The first node of the backward column, with the forward node that it differentiates. */
function seedOf(
  nodes: readonly LayoutNode[],
  indexOf: ById,
  column: Int32Array,
): readonly [number, number] {
  for (let index = 0; index < nodes.length; index++) {
    if (column[index] !== COLUMN_BACKWARD) continue;
    const forward = indexOf.get(nodes[index]!.forward ?? -1);
    if (forward !== undefined) return [forward, index];
  }
  return [-1, -1];
}

/** Calls `act` once for each value that a node reads, except for its own outputs. */
function eachRead(
  { nodes, producerOf }: Hierarchy,
  reader: number,
  act: (value: number, producer: number) => void,
): void {
  const { inputs } = nodes[reader]!;
  const seen = inputs.length > 16 ? new Set<number>() : undefined;
  for (let port = 0; port < inputs.length; port++) {
    const value = inputs[port]!;
    if (seen === undefined ? inputs.indexOf(value) < port : seen.has(value)) continue;
    seen?.add(value);
    const producer = producerOf.get(value);
    if (producer !== undefined && producer !== reader) act(value, producer);
  }
}

/** The node, as an index, that a segment's value comes from; for an order, the node that is first. */
export function sourceOf({ indexOf, producerOf }: Hierarchy, value: number): number {
  return (isOrder(value) ? indexOf.get(firstInOrder(value)) : producerOf.get(value)) ?? -1;
}

/** Collects the edges between columns only. */
function addCrossing(hierarchy: Hierarchy, column: Int32Array, crossing: number[]): void {
  const { nodes, host } = hierarchy;
  for (let reader = 0; reader < nodes.length; reader++) {
    if (host[reader]! >= 0) continue;
    eachRead(hierarchy, reader, (_, producer) => {
      const between = host[producer]! < 0 && column[producer] !== column[reader];
      if (between) crossing.push(producer, reader);
    });
  }
}

function segmentsIn(
  hierarchy: Hierarchy,
  groups: readonly Growing[],
  column: Int32Array,
  stubAt: ReadonlyMap<number, ReadonlyMap<number, number>>,
  crossing: number[],
): Segments {
  const { nodes, groupOf, producerOf, host } = hierarchy;
  const list = new SegmentList();
  const connect = (producer: number, reader: number, value: number): void => {
    let source = producer;
    let target = reader;
    let above = groupOf[producer]!;
    let below = groupOf[reader]!;
    // Climb on both sides to the common scope; each scope left or entered on the way draws its own
    // piece, from or to a port in its border.
    while (above !== below) {
      if (groups[above]!.depth >= groups[below]!.depth) {
        list.add(above, source, outPortKey(value), value);
        source = groupKey(hierarchy, above);
        above = groups[above]!.parent;
      } else {
        list.add(below, inPortKey(value), target, value);
        target = groupKey(hierarchy, below);
        below = groups[below]!.parent;
      }
    }
    list.add(above, source, target, value);
  };
  const saved = new Map<number, number[]>();
  nodes.forEach((node, reader) => {
    if (host[reader]! >= 0) return;
    eachRead(hierarchy, reader, (value, producer) => {
      if (host[producer]! >= 0) {
        const stub = stubAt.get(producer)?.get(groupOf[reader]!);
        if (stub !== undefined && column[reader] === COLUMN_FORWARD) {
          list.add(groupOf[reader]!, stubKey(stub), reader, value);
        }
        return;
      }
      if (column[producer] !== column[reader]) {
        crossing.push(producer, reader);
        if (column[producer] === COLUMN_FORWARD && column[reader] === COLUMN_BACKWARD) {
          const readers = saved.get(value);
          if (readers === undefined) saved.set(value, [reader]);
          else readers.push(reader);
        }
        return;
      }
      connect(producer, reader, value);
    });
    for (const id of node.control ?? []) {
      const first = hierarchy.indexOf.get(id);
      if (first === undefined || first === reader || column[first] !== column[reader]) continue;
      if (host[first]! >= 0) continue;
      // If a value passes anyway, the order needs no separate line.
      if (nodes[first]!.outputs.some((value) => node.inputs.includes(value))) continue;
      connect(first, reader, orderValue(id));
    }
  });
  for (const [value, readers] of saved) {
    if (readers.length < MANY_SAVED) continue;
    const producer = producerOf.get(value)!;
    for (const to of readers) {
      const group = groups[groupOf[to]!]!;
      const before = group.saved.filter((other) => other.to === to).length;
      if (before < MOST_SAVED) into(group, "saved", { to, producer, value });
    }
  }
  return list.sorted(groups.length);
}
