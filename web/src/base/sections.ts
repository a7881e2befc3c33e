/**
 * Sections: scopes for graphs that have none, such as exported or hand-built ones.
 *
 * A scope with many operations of its own is cut into sections of consecutive operations, in the
 * order in which values flow. Where the same operations repeat, connected alike, each repetition is
 * a section, so that they make a stack (`repeats.ts`); the rest is cut where few values pass. In a
 * smaller scope, twins make a section: operations of one kind with the same producers and the same
 * readers, such as slices that take the rows of a batch one by one.
 *
 * Invariant: pure; each section is an interval of some topological order of its scope's operations,
 * so that drawing it as one box adds no cycle. Its name says what is in it, in ‹›, which marks it.
 */

import { type ById, IdTable } from "@/base/by_id";
import type { Held, ScopedNode } from "@/base/repeats";

export interface FamilyNode extends ScopedNode {
  readonly family: string;
}

/** Scopes with fewer operations of their own are left as they are. */
export const FEWEST_OPERATIONS = 150;
const LONGEST_PERIOD = 400;
const SHORTEST_PERIOD = 4;
/** Least and most operations in a section without repetition. */
const LEAST = 8;
const MOST = 24;
/** Fewer operations make no section. */
const SMALLEST = 3;
/** Weight of a repetition that occurs only twice, against the others. */
const TWICE = 0.25;
/** Longer repetitions are also cut inside. */
const LONG = 60;

/** Fewer twins, or twins that are a larger share of their scope, make no section. */
const FEWEST_TWINS = 8;
const MOST_TWINS = 0.75;

/** Up to this many data leaves of a scope are drawn outside its sections. */
const MOST_DATA = 24;

/** Families that say little about what a section does. */
const QUIET: ReadonlySet<string> = new Set(["elementwise", "layout", "index", "other", "leaf"]);

export function isSection(path: string): boolean {
  return path.slice(path.lastIndexOf("/") + 1).startsWith("‹");
}

/** The scope of each node, with sections; the nodes' own scopes where there is nothing to cut. */
export function sectionScopes(
  nodes: readonly (FamilyNode | undefined)[],
  held: (index: number) => Held,
): readonly (string | undefined)[] {
  const scopes = nodes.map((node) => node?.scope);
  const direct = new Map<string, number[]>();
  nodes.forEach((node, index) => {
    if (node === undefined || held(index) !== undefined) return;
    const list = direct.get(node.scope);
    if (list === undefined) direct.set(node.scope, [index]);
    else list.push(index);
  });
  const large = [...direct].filter(([, operations]) => operations.length >= FEWEST_OPERATIONS);
  const alike = [...direct].filter(([, operations]) => haveTwins(nodes, operations));
  if (large.length === 0 && alike.length === 0) return scopes;
  const producer = new IdTable();
  nodes.forEach((node, index) => {
    for (const value of node?.outputs ?? []) if (!producer.has(value)) producer.set(value, index);
  });
  for (const { path, members } of twins(nodes, producer, alike)) {
    for (const index of members) scopes[index] = path;
  }
  if (large.length === 0) return scopes;
  for (const [scope, operations] of large) {
    const flow = { nodes, held, producer, order: inFlow(nodes, producer, operations) };
    const counts = new Map<string, number>();
    for (const [from, to, inner] of sectionsOf(flow)) {
      if (to - from < SMALLEST) continue;
      const path = `${scope === "" ? "" : `${scope}/`}${nameOf(flow, from, to, counts)}`;
      const insides = new Map<string, number>();
      for (const [begin, end] of inner.length > 1 ? inner : []) {
        const name = `${path}/${nameOf(flow, begin, end, insides)}`;
        for (let at = begin; at < end; at++) scopes[flow.order[at]!] = name;
      }
      if (inner.length > 1) continue;
      for (let at = from; at < to; at++) scopes[flow.order[at]!] = path;
    }
  }
  placeLeaves(nodes, held, producer, scopes);
  return scopes;
}

/** Whether a scope that is too small to be cut holds enough operations of one kind. */
function haveTwins(
  nodes: readonly (FamilyNode | undefined)[],
  operations: readonly number[],
): boolean {
  if (operations.length < FEWEST_TWINS || operations.length >= FEWEST_OPERATIONS) return false;
  const counts = new Map<string, number>();
  for (const index of operations) {
    const { op } = nodes[index]!;
    const count = (counts.get(op) ?? 0) + 1;
    if (count >= FEWEST_TWINS) return true;
    counts.set(op, count);
  }
  return false;
}

interface Twins {
  readonly path: string;
  readonly members: readonly number[];
}

function twins(
  nodes: readonly (FamilyNode | undefined)[],
  producer: ById,
  scopes: readonly (readonly [string, readonly number[]])[],
): Twins[] {
  const readers = new Map<number, number[]>();
  for (const [, operations] of scopes) for (const index of operations) readers.set(index, []);
  nodes.forEach((node, index) => {
    for (const value of node?.inputs ?? []) readers.get(producer.get(value) ?? -1)?.push(index);
  });
  return scopes.flatMap(([scope, operations]) => {
    const groups = new Map<string, number[]>();
    for (const index of operations) {
      const { op, inputs } = nodes[index]!;
      const read = inputs.map((value) => producer.get(value) ?? `value ${value}`);
      if (read.length === 0) continue;
      const key = `${op} ${read.join()} ${[...new Set(readers.get(index))].join()}`;
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [index]);
      else group.push(index);
    }
    const counts = new Map<string, number>();
    return [...groups.values()]
      .filter(({ length }) => length >= FEWEST_TWINS && length <= MOST_TWINS * operations.length)
      .map((members) => {
        const op = nodes[members[0]!]!.op.replaceAll("/", "∕");
        const number = (counts.get(op) ?? 0) + 1;
        counts.set(op, number);
        return { path: `${scope === "" ? "" : `${scope}/`}‹${op} ${number}›`, members };
      });
  });
}

/** Moves leaves with a single reader to its section: parameters, and data if a scope has much. */
function placeLeaves(
  nodes: readonly (FamilyNode | undefined)[],
  held: (index: number) => Held,
  producer: ById,
  scopes: (string | undefined)[],
): void {
  const reader = new Map<number, number>();
  nodes.forEach((node, index) => {
    for (const value of node?.inputs ?? []) {
      const from = producer.get(value);
      if (from === undefined || held(from) === undefined) continue;
      reader.set(from, reader.has(from) && reader.get(from) !== index ? -1 : index);
    }
  });
  const moving: (readonly [leaf: number, reader: number])[] = [];
  const amount = new Map<string, number>();
  for (const [leaf, index] of reader) {
    const { scope } = nodes[leaf]!;
    if (index < 0 || scope !== nodes[index]!.scope || scopes[index] === scope) continue;
    moving.push([leaf, index]);
    if (held(leaf) === "data") amount.set(scope, (amount.get(scope) ?? 0) + 1);
  }
  for (const [leaf, index] of moving) {
    const shown = held(leaf) === "data" && amount.get(nodes[leaf]!.scope)! <= MOST_DATA;
    if (!shown) scopes[leaf] = scopes[index];
  }
}

interface Flow {
  readonly nodes: readonly (FamilyNode | undefined)[];
  readonly held: (index: number) => Held;
  readonly producer: ById;
  /** The operations, producers first. */
  readonly order: readonly number[];
}

/** Begin, end (exclusive), and the same for the sections inside. */
type Section = readonly [number, number, readonly (readonly [number, number])[]];

/** The operations in the order of the program, but each after its producers. */
function inFlow(
  nodes: readonly (FamilyNode | undefined)[],
  producer: ById,
  operations: readonly number[],
): number[] {
  const inside = new Set(operations);
  const state = new Map<number, number>();
  const order: number[] = [];
  for (const first of operations) {
    const stack = [first];
    for (let at = stack.at(-1); at !== undefined; at = stack.at(-1)) {
      if (state.get(at) === undefined) {
        state.set(at, 1);
        for (const value of nodes[at]!.inputs) {
          const before = producer.get(value);
          if (before === undefined || !inside.has(before)) continue;
          if (state.get(before) === undefined) stack.push(before);
        }
        continue;
      }
      stack.pop();
      if (state.get(at) === 2) continue;
      state.set(at, 2);
      order.push(at);
    }
  }
  return order;
}

function sectionsOf(flow: Flow): Section[] {
  const passing = valuesPassing(flow);
  const tokens = tokensOf(flow);
  const sections: Section[] = [];
  const cut = (from: number, to: number): void => {
    const run = repetition(tokens, from, to);
    if (run === undefined) {
      for (const [begin, end] of cuts(passing, from, to)) sections.push([begin, end, []]);
      return;
    }
    const { period, count } = run;
    const start = run.start + bestPhase(passing, run);
    const whole = Math.min(count, Math.floor((run.end - start) / period));
    const inner = period > LONG ? cuts(passing, start, start + period) : [];
    cut(from, start);
    for (let k = 0; k < whole; k++) {
      const off = k * period;
      const moved = inner.map(([begin, end]) => [begin + off, end + off] as const);
      sections.push([start + off, start + off + period, moved]);
    }
    cut(start + whole * period, to);
  };
  cut(0, flow.order.length);
  return sections;
}

/** For each place in the order, the number of values made before it and read there or later. */
function valuesPassing({ nodes, producer, order }: Flow): Int32Array {
  const place = new Map(order.map((node, at) => [node, at]));
  const last = new Map<number, number>();
  order.forEach((node, at) => {
    for (const value of nodes[node]!.inputs) {
      if (place.has(producer.get(value) ?? -1)) last.set(value, at);
    }
  });
  const change = new Int32Array(order.length + 1);
  for (const [value, end] of last) {
    const made = place.get(producer.get(value)!)!;
    if (made >= end) continue;
    change[made + 1]! += 1;
    change[end + 1]! -= 1;
  }
  let now = 0;
  return change.map((step) => (now += step));
}

/** A number per operation, equal for the same op with inputs from the same relative places. */
function tokensOf({ nodes, held, producer, order }: Flow): Int32Array {
  const place = new Map(order.map((node, at) => [node, at]));
  const known = new Map<string, number>();
  return Int32Array.from(order, (node, at) => {
    const { op, inputs } = nodes[node]!;
    const reads = inputs.map((value) => {
      const from = producer.get(value);
      const before = place.get(from ?? -1);
      if (before !== undefined) return at - before < LONGEST_PERIOD ? at - before : "far";
      return from !== undefined && held(from) === "parameter" ? "p" : "v";
    });
    const text = `${op} ${reads.join(" ")}`;
    const token = known.get(text) ?? known.size;
    known.set(text, token);
    return token;
  });
}

interface Repetition {
  readonly start: number;
  readonly end: number;
  readonly period: number;
  readonly count: number;
}

/** The repetition that covers most of a stretch, with the shortest period; undefined if none. */
function repetition(tokens: Int32Array, from: number, to: number): Repetition | undefined {
  let best: Repetition | undefined;
  let most = 0;
  const longest = Math.min(LONGEST_PERIOD, Math.floor((to - from) / 2));
  for (let period = SHORTEST_PERIOD; period <= longest; period++) {
    let start = from;
    for (let at = from; at <= to - period; at++) {
      if (at < to - period && tokens[at] === tokens[at + period]) continue;
      const end = at + period;
      const count = Math.floor((end - start) / period);
      // A longer period, above all a multiple of a shorter one, must cover clearly more.
      const covered = count * period;
      const weight = covered * (count > 2 ? 1 : TWICE);
      if (at > start && count >= 2 && weight > 1.05 * most && covered >= 2 * LEAST) {
        most = weight;
        best = { start, end, period, count };
      }
      start = at + 1;
    }
  }
  return best && longEnough(best);
}

/** Joins several periods into one if they are too short and would make too many sections. */
function longEnough(run: Repetition): Repetition {
  const times = Math.min(Math.ceil(LEAST / run.period), Math.floor(run.count / 2));
  const period = run.period * Math.max(times, 1);
  return { ...run, period, count: Math.floor((run.end - run.start) / period) };
}

/** The offset of the first section: where the fewest values pass, if all sections still fit. */
function bestPhase(passing: Int32Array, { start, end, period, count }: Repetition): number {
  let best = 0;
  const room = Math.min(period, end - start - count * period + 1);
  for (let phase = 1; phase < room; phase++) {
    if (passing[start + phase]! < passing[start + best]!) best = phase;
  }
  return best;
}

/** Cuts a stretch where few values pass. */
function cuts(passing: Int32Array, from: number, to: number): (readonly [number, number])[] {
  const parts: (readonly [number, number])[] = [];
  let begin = from;
  while (to - begin > MOST) {
    let best = begin + MOST;
    for (let at = begin + MOST - 1; at >= begin + LEAST; at--) {
      if (passing[at]! < passing[best]!) best = at;
    }
    if (to - best < LEAST && to - begin <= MOST + LEAST) break;
    parts.push([begin, best]);
    begin = best;
  }
  if (to > begin) parts.push([begin, to]);
  return parts;
}

/** `‹conv2d…relu 3›`, by its first and last telling operation. */
function nameOf(
  { nodes, order }: Flow,
  from: number,
  to: number,
  counts: Map<string, number>,
): string {
  const inside = order.slice(from, to).map((node) => nodes[node]!);
  const loud = inside.filter(({ family }) => !QUIET.has(family));
  const telling = loud.length > 0 ? loud : inside;
  // The number at the end tells sections apart; long words would push it out of narrow places.
  const [first, last] = [telling[0]!.op, telling.at(-1)!.op].map((op) =>
    op.replaceAll("/", "∕").replace(/normalization$/i, (end) => end.slice(0, 4)),
  );
  const words = first === last ? first! : `${first}…${last}`;
  const number = (counts.get(words) ?? 0) + 1;
  counts.set(words, number);
  return `‹${words} ${number}›`;
}
