/**
 * Repeats: sibling scopes that are built alike, such as the layers of a model, the unrolled steps of
 * a loop or the updates of its parameters.
 *
 * Two scopes are alike if, in the order of the program, they hold the same operations and scopes,
 * connected alike at the same input ports, and read values from outside at the same places; a
 * parameter never matches a computed value. Names, shapes, attributes, control edges, and which
 * results are read outside do not matter.
 *
 * Invariant: pure, and exact: scopes are compared by their contents, not by a hash. The members of
 * a stack have names that differ only in numbers (except updates, which are named after
 * parameters), and drawing a stack as one box adds no cycle.
 */

import { type ById, IdTable } from "@/base/by_id";
import { SpanTwins } from "@/base/repeats_twins";
import { leafName, parentScope } from "@/base/scopes";

export interface ScopedNode {
  readonly op: string;
  readonly scope: string;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
}

/** What a leaf node holds; undefined for an operation. */
export type Held = "parameter" | "data" | undefined;

export interface Stack {
  /** Identifies the stack among scope paths; no scope has this path. */
  readonly path: string;
  /** `block_0–11`. */
  readonly name: string;
  /** The path of its first scope. */
  readonly first: string;
  /** Paths of the scopes, in the order of the program; at least `FEWEST`. */
  readonly members: readonly string[];
}

export interface Repeats {
  readonly stacks: readonly Stack[];
  /** By the path of a member. */
  readonly stackOf: ReadonlyMap<string, Stack>;
  readonly byPath: ReadonlyMap<string, Stack>;
  /** The counterpart in `to` of a value computed in `from` or read by it from outside. */
  twinValue(value: number, from: string, to: string): number | undefined;
  /** The counterpart in `to` of a scope in `from`. */
  twinScope(scope: string, from: string, to: string): string | undefined;
  /** Indices of the operations inside a member, in an order that all members share. */
  operations(member: string): readonly number[];
  /** The operations of all members as plain data. */
  spans(): Spans;
}

/** Operations of all members, in the order of `stacks`; each member has a range of `order`. */
export interface Spans {
  readonly order: Int32Array;
  /** Where the range of each member starts and ends. */
  readonly starts: Int32Array;
  readonly ends: Int32Array;
}

/** Fewer scopes that are alike are drawn one by one. */
export const FEWEST = 3;

/** Scopes inside this one are named after parameters. */
const UPDATES = "optimizer";
/** Top-level scopes that are never members of a stack. */
const APART: ReadonlySet<string> = new Set(["backward", UPDATES, "recompute", "initialisation"]);

/** The path of a stack, made from its first member so that it stays as members are added. */
function stackPath(first: string): string {
  return `${first}…`;
}

export const NO_REPEATS: Repeats = {
  stacks: [],
  stackOf: new Map(),
  byPath: new Map(),
  twinValue: () => undefined,
  twinScope: () => undefined,
  operations: () => [],
  spans: () => ({ order: new Int32Array(0), starts: new Int32Array(0), ends: new Int32Array(0) }),
};

/**
 * Finds the stacks. Linear in nodes and edges, times the depth of scopes for edges between them.
 *
 * Args:
 *   known: The stacks, if they have been found before.
 *   spans: The operations of the known stacks, if available.
 */
export function findRepeats(
  nodes: readonly (ScopedNode | undefined)[],
  held: (index: number) => Held,
  known?: readonly Stack[],
  spans?: Spans,
): Repeats {
  if (known?.length === 0) return NO_REPEATS;
  // Built on demand, and not kept for the stacks: most graphs never need their scope tree again.
  let made: ScopeTree | undefined;
  const within = (): ScopeTree => {
    made ??= scopeTree(nodes, held);
    return made;
  };
  const stacks = known ?? stacksAmong(within());
  if (stacks.length === 0) return NO_REPEATS;
  let ranges = known && spans;
  const spansNow = (): Spans => {
    if (ranges === undefined) {
      ranges = spansOf(within(), stacks);
      made = undefined;
    }
    return ranges;
  };
  if (known === undefined) spansNow();
  const twins = new SpanTwins(nodes, stacks, spansNow);
  const stackOf = new Map(
    stacks.flatMap((stack) => stack.members.map((path) => [path, stack] as const)),
  );
  return {
    stacks,
    stackOf,
    byPath: new Map(stacks.map((stack) => [stack.path, stack])),
    twinValue: (value, from, to) => twins.value(value, from, to),
    twinScope: (path, from, to) => {
      const tree = within();
      const a = tree.at.get(from);
      const b = tree.at.get(to);
      const scope = tree.at.get(path);
      if (a === undefined || b === undefined || scope === undefined) return undefined;
      const at = tree.preorder[tree.rank[scope]! - tree.rank[a]! + tree.rank[b]!];
      return at === undefined ? undefined : tree.scopes[at]!.path;
    },
    operations: (member) => twins.operations(member),
    spans: spansNow,
  };
}

function spansOf({ order, scopes, at }: ScopeTree, stacks: readonly Stack[]): Spans {
  const members = stacks.flatMap((stack) => stack.members.map((path) => scopes[at.get(path)!]!));
  return {
    order: Int32Array.from(order),
    starts: Int32Array.from(members, ({ start }) => start),
    ends: Int32Array.from(members, ({ end }) => end),
  };
}

function stacksAmong(tree: ScopeTree): Stack[] {
  const classes = classify(tree);
  const stacks = tree.scopes.flatMap((scope) => stacksIn(tree, scope, classes));
  for (const scope of tree.scopes) forget(scope);
  return stacks;
}

/** The items of a scope after `forget`; never changed. */
const NOTHING: number[] = [];

/** Frees what is seldom needed after the stacks are found. */
function forget(scope: Scope): void {
  scope.items = NOTHING;
  scope.outside = undefined;
}

interface Scope {
  readonly path: string;
  readonly index: number;
  /** Operations (index ≥ 0) and scopes (-1 - index), in the order of their first operation. */
  items: number[];
  /** Its operations are `order[start]` to `order[end - 1]`. */
  start: number;
  end: number;
  /** Values that its operations read from outside, in the order of first use, once computed. */
  outside: readonly number[] | undefined;
}

interface ScopeTree {
  readonly nodes: readonly (ScopedNode | undefined)[];
  readonly held: (index: number) => Held;
  readonly scopes: readonly Scope[];
  readonly at: ReadonlyMap<string, number>;
  readonly producer: ById;
  /** Operations, scope after scope. */
  readonly order: number[];
  /** The index of each node in `order`; -1 = holds data. */
  readonly place: Int32Array;
  /** Scopes in the same order, and the index of each. */
  readonly preorder: number[];
  readonly rank: Int32Array;
}

function scopeTree(
  nodes: readonly (ScopedNode | undefined)[],
  held: (index: number) => Held,
): ScopeTree {
  const scopes: Scope[] = [];
  const at = new Map<string, number>();
  const scopeFor = (path: string): Scope => {
    const known = at.get(path);
    if (known !== undefined) return scopes[known]!;
    const around = path === "" ? undefined : scopeFor(parentScope(path));
    const scope = { path, index: scopes.length, items: [], start: 0, end: 0, outside: undefined };
    at.set(path, scope.index);
    scopes.push(scope);
    around?.items.push(-1 - scope.index);
    return scope;
  };
  const producer = new IdTable();
  let last = scopeFor("");
  nodes.forEach((node, index) => {
    if (node === undefined) return;
    for (const value of node.outputs) if (!producer.has(value)) producer.set(value, index);
    if (held(index) !== undefined) return;
    if (node.scope !== last.path) last = scopeFor(node.scope);
    last.items.push(index);
  });
  const order: number[] = [];
  const place = new Int32Array(nodes.length).fill(-1);
  const preorder: number[] = [];
  const rank = new Int32Array(scopes.length);
  const visit = (scope: Scope): void => {
    scope.start = order.length;
    rank[scope.index] = preorder.length;
    preorder.push(scope.index);
    // Copied, because a list that grew has spare capacity.
    scope.items = scope.items.slice();
    for (const item of scope.items) {
      if (item < 0) {
        visit(scopes[-1 - item]!);
        continue;
      }
      place[item] = order.length;
      order.push(item);
    }
    scope.end = order.length;
  };
  visit(scopes[0]!);
  return { nodes, held, scopes, at, producer, order, place, preorder, rank };
}

function holds(tree: ScopeTree, scope: Scope, node: number): boolean {
  const place = tree.place[node]!;
  return place >= scope.start && place < scope.end;
}

/** The values that an item reads; for a scope, those from outside it. */
function readBy(tree: ScopeTree, item: number): readonly number[] {
  return item < 0 ? outsideOf(tree, tree.scopes[-1 - item]!) : tree.nodes[item]!.inputs;
}

function outsideOf(tree: ScopeTree, scope: Scope): readonly number[] {
  if (scope.outside !== undefined) return scope.outside;
  const values = new Set<number>();
  for (let at = scope.start; at < scope.end; at++) {
    for (const value of tree.nodes[tree.order[at]!]!.inputs) {
      const producer = tree.producer.get(value);
      if (producer === undefined || !holds(tree, scope, producer)) values.add(value);
    }
  }
  scope.outside = [...values];
  return scope.outside;
}

/**
 * The class of each scope: equal for scopes that are alike. Each scope is described once, by its
 * operations, the classes of the scopes in it, and the values that these read.
 */
function classify(tree: ScopeTree): Int32Array {
  const classes = new Int32Array(tree.scopes.length);
  const known = new Map<string, number>();
  const ops = new Map<string, number>();
  const opOf = (op: string): number => {
    const number = ops.get(op) ?? ops.size;
    if (number === ops.size) ops.set(op, number);
    return number;
  };
  // Inner scopes come after those around them.
  for (let index = tree.scopes.length - 1; index > 0; index--) {
    const scope = tree.scopes[index]!;
    const ordinals = new Map<number, number>();
    let text = "";
    for (const item of scope.items) {
      text += item < 0 ? `;#${classes[-1 - item]}` : `;${opOf(tree.nodes[item]!.op)}`;
      for (const value of readBy(tree, item)) {
        const producer = tree.producer.get(value);
        if (producer !== undefined && holds(tree, scope, producer)) {
          const port = tree.nodes[producer]!.outputs.indexOf(value);
          text += ` ${tree.place[producer]! - scope.start}.${port}`;
          continue;
        }
        let ordinal = ordinals.get(value);
        if (ordinal === undefined) {
          ordinal = ordinals.size;
          ordinals.set(value, ordinal);
        }
        const parameter = producer !== undefined && tree.held(producer) === "parameter";
        text += `${parameter ? " p" : " v"}${ordinal}`;
      }
    }
    scope.outside = [...ordinals.keys()];
    const same = known.get(text);
    classes[index] = same ?? known.size + 1;
    if (same === undefined) known.set(text, known.size + 1);
  }
  return classes;
}

/** The stacks among the scopes directly inside a scope. */
function stacksIn(tree: ScopeTree, scope: Scope, classes: Int32Array): Stack[] {
  const byKind = new Map<string, number>();
  const kinds = scope.items.map((item): string => {
    if (item >= 0) return "";
    const { path } = tree.scopes[-1 - item]!;
    if (scope.path === "" && APART.has(path)) return "";
    const updates = scope.path === UPDATES || scope.path.startsWith(`${UPDATES}/`);
    const stem = updates ? "" : leafName(path).replaceAll(/\d+/g, "#");
    const kind = `${classes[-1 - item]} ${stem}`;
    byKind.set(kind, (byKind.get(kind) ?? 0) + 1);
    return kind;
  });
  const wanted = kinds.map((kind) => ((byKind.get(kind) ?? 0) >= FEWEST ? kind : ""));
  if (!wanted.some((kind) => kind !== "")) return [];
  const runs = acyclicRuns(itemEdges(tree, scope), wanted);
  return runs
    .filter((run) => run.length >= FEWEST)
    .map((run) => {
      const members = run.map((at) => tree.scopes[-1 - scope.items[at]!]!.path);
      const first = members[0]!;
      const name = stackName(members.map(leafName));
      return { path: stackPath(first), name, first, members };
    });
}

/** For each item of a scope, the earlier items whose values it reads. */
function itemEdges(tree: ScopeTree, scope: Scope): readonly (readonly number[])[] {
  const starts = Int32Array.from(scope.items, (item) =>
    item < 0 ? tree.scopes[-1 - item]!.start : tree.place[item]!,
  );
  return scope.items.map((item, at) => {
    const before = new Set<number>();
    for (const value of readBy(tree, item)) {
      const producer = tree.producer.get(value);
      if (producer === undefined || !holds(tree, scope, producer)) continue;
      const from = lastAtMost(starts, tree.place[producer]!);
      if (from < at) before.add(from);
    }
    return [...before];
  });
}

function lastAtMost(sorted: Int32Array, value: number): number {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sorted[middle]! <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * Runs of items of one kind, such that drawing each run as one box leaves a graph without cycles.
 *
 * Args:
 *   edges: For each item, the earlier items that it reads.
 *   kinds: The kind of each item; "" for an item that is in no run.
 */
export function acyclicRuns(
  edges: readonly (readonly number[])[],
  kinds: readonly string[],
): number[][] {
  const runs: number[][] = [];
  /** For each run, the other runs that reach it; for each item, the runs that reach it. */
  const reaching: Set<number>[] = [];
  const reachingItem: Set<number>[] = [];
  const runOf = new Int32Array(kinds.length).fill(-1);
  const latest = new Map<string, number>();
  kinds.forEach((kind, at) => {
    const through = new Set<number>();
    const beside = new Set<number>();
    for (const before of edges[at]!) {
      const run = runOf[before]!;
      if (run >= 0) beside.add(run);
      for (const other of run >= 0 ? reaching[run]! : reachingItem[before]!) through.add(other);
    }
    let run = kind === "" ? -1 : (latest.get(kind) ?? -1);
    if (kind !== "" && (run < 0 || through.has(run))) {
      run = runs.length;
      runs.push([]);
      reaching.push(new Set());
      latest.set(kind, run);
    }
    runOf[at] = run;
    const into = run < 0 ? new Set<number>() : reaching[run]!;
    for (const other of [...through, ...beside]) if (other !== run) into.add(other);
    reachingItem.push(into);
    if (run >= 0) runs[run]!.push(at);
  });
  // A run may become reachable after its followers were processed: the smallest run is dissolved.
  for (let stuck = onCycles(edges, runOf); stuck.length > 0; stuck = onCycles(edges, runOf)) {
    const [least] = stuck.sort((a, b) => runs[a]!.length - runs[b]!.length);
    for (const at of runs[least!]!.splice(0)) runOf[at] = -1;
  }
  return runs.filter((run) => run.length > 0);
}

/** Runs on cycles, or between cycles, of the graph in which each run is one node. */
function onCycles(edges: readonly (readonly number[])[], runOf: Int32Array): number[] {
  const count = edges.length;
  const boxOf = (at: number): number => (runOf[at]! >= 0 ? count + runOf[at]! : at);
  const readers = new Map<number, number[]>();
  const missing = new Map<number, number>();
  edges.forEach((befores, at) => {
    const box = boxOf(at);
    if (!missing.has(box)) missing.set(box, 0);
    for (const before of befores) {
      const from = boxOf(before);
      if (from === box) continue;
      const list = readers.get(from);
      if (list === undefined) readers.set(from, [box]);
      else list.push(box);
      missing.set(box, missing.get(box)! + 1);
    }
  });
  const ready = [...missing].filter(([, needs]) => needs === 0).map(([box]) => box);
  for (let box = ready.pop(); box !== undefined; box = ready.pop()) {
    missing.delete(box);
    for (const reader of readers.get(box) ?? []) {
      const needs = missing.get(reader)! - 1;
      missing.set(reader, needs);
      if (needs === 0) ready.push(reader);
    }
  }
  return [...missing.keys()].filter((box) => box >= count).map((box) => box - count);
}

/** `block_0–11` for names with consecutive numbers, else `first … last`. */
export function stackName(names: readonly string[]): string {
  const first = names[0]!;
  const last = names.at(-1)!;
  const parts = /^(.*?)(\d+)(\D*)$/.exec(first);
  if (parts === null) return `${first} … ${last}`;
  const [, before, digits, after] = parts as unknown as [string, string, string, string];
  const numbers = names.map((name) => {
    const inside = name.startsWith(before) && name.endsWith(after);
    const text = inside ? name.slice(before.length, name.length - after.length) : "";
    return /^\d+$/.test(text) ? Number(text) : Number.NaN;
  });
  const step = numbers[1]! - numbers[0]!;
  const consecutive =
    Math.abs(step) === 1 && numbers.every((number, at) => number === numbers[0]! + at * step);
  return consecutive ? `${before}${digits}–${numbers.at(-1)}${after}` : `${first} … ${last}`;
}
