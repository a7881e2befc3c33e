/**
 * The outline: scopes and nodes as a tree, and its visible rows.
 *
 * Invariant: pure; children are in order of first execution, or of the data flow where that
 * differs; only open scopes have rows.
 */

import { printable } from "@/base/printable";
import { findRepeats, type Held, type Repeats, type Stack } from "@/base/repeats";
import { leafName, parentScope } from "@/base/scopes";
import { sectionScopes } from "@/base/sections";
import { shownMember, stackState } from "@/store/debugger/stacks";
import { knownOf } from "@/store/run/known_structure";
import type { RunGraph } from "@/store/run/run_model";
import { orderByFlow } from "@/store/run/tree_order";
import { isLeaf } from "@/wire/roles";
import type { Node } from "@/wire/types.gen";

export interface ScopeEntry {
  readonly kind: "scope";
  readonly path: string;
  readonly children: TreeEntry[];
  /** Ids of all nodes inside, at any depth. */
  readonly members: readonly number[];
  /** The stack of repeated scopes that this entry stands for; its children are those scopes. */
  readonly stack?: Stack | undefined;
}

export interface NodeEntry {
  readonly kind: "node";
  readonly id: number;
  readonly path: string;
}

export type TreeEntry = ScopeEntry | NodeEntry;

const NOTHING: never[] = [];

class Scope implements ScopeEntry {
  readonly kind = "scope";
  private listed: readonly number[] | undefined;
  private entries: (Scope | NodeEntry)[] | undefined;

  /** `parts`: What is in the scope, until its entries are made. */
  constructor(
    readonly path: string,
    private parts: (Scope | Node)[] = [],
    readonly stack?: Stack,
  ) {}

  add(part: Scope | Node): void {
    this.parts.push(part);
  }

  /** Frees the spare capacity of a list that grew, by copying it. */
  trim(): void {
    this.parts = this.parts.slice();
  }

  /** Made on first use, because most scopes are never opened. */
  get children(): (Scope | NodeEntry)[] {
    if (this.entries === undefined) {
      this.entries = this.parts.map((part) => (part instanceof Scope ? part : new Listed(part)));
      this.parts = NOTHING;
    }
    return this.entries;
  }

  /** Computed on first use, because the members of most scopes are never needed. */
  get members(): readonly number[] {
    this.listed ??= this.list([]).slice();
    return this.listed;
  }

  /** Adds the ids of all nodes inside, in ascending order; a stack adds them scope by scope. */
  private list(ids: number[]): number[] {
    if (this.stack === undefined) {
      const own: number[] = [];
      this.collect(own);
      own.sort((a, b) => a - b);
      for (const id of own) ids.push(id);
    } else for (const scope of this.children) if (scope instanceof Scope) scope.list(ids);
    return ids;
  }

  private collect(ids: number[]): void {
    for (const child of this.entries ?? this.parts) {
      if (child instanceof Scope) child.collect(ids);
      else ids.push(child.id);
    }
  }
}

/** Reads the node instead of copying it: the names of most nodes are never shown. */
class Listed implements NodeEntry {
  constructor(private readonly node: Node) {}

  get kind(): "node" {
    return "node";
  }

  get id(): number {
    return this.node.id;
  }

  get path(): string {
    return this.node.name;
  }
}

/** The part of a tree that determines how the graph is drawn. */
export interface GraphStructure {
  /** Whether large scopes without structure are divided into sections. */
  readonly sectioned: boolean;
  /** Scopes by node id, with these sections; undefined if there are none. */
  readonly sections: readonly (string | undefined)[] | undefined;
  readonly repeats: Repeats;
}

export interface Tree extends GraphStructure {
  readonly root: ScopeEntry;
  /** The scope of a node, "" at the top. */
  scopeOf(id: number): string;
  /** Scopes and stacks by path. */
  readonly scopes: ReadonlyMap<string, ScopeEntry>;
}

export interface Row {
  readonly entry: TreeEntry;
  readonly depth: number;
  readonly open: boolean;
  readonly label: string;
}

/** The part of a graph that determines its structure. */
interface Structured {
  /** By id. */
  readonly nodes: readonly (StructuredNode | undefined)[];
  readonly origin?: object | undefined;
}

type StructuredNode = Pick<Node, "op" | "family" | "role" | "scope" | "inputs" | "outputs">;

/** Args: sectioned: Whether large scopes without structure are divided into sections. */
export function structureOf(given: Structured, sectioned = true): GraphStructure {
  const holds = (index: number): Held => heldBy(given.nodes[index]);
  const known = sectioned ? knownOf(given) : undefined;
  const sections = known ? known.sections : sectioned ? sectionsOf(given, holds) : undefined;
  const nodes = sections === undefined ? given.nodes : inSections(given.nodes, sections);
  return { sectioned, sections, repeats: findRepeats(nodes, holds, known?.stacks, known?.spans) };
}

function sectionsOf(
  { nodes }: Structured,
  holds: (index: number) => Held,
): readonly (string | undefined)[] | undefined {
  const scopes = sectionScopes(nodes, holds);
  return scopes.some((scope, id) => scope !== nodes[id]?.scope) ? scopes : undefined;
}

/** Args: sectioned: Whether large scopes without structure are divided into sections. */
export function buildTree(given: RunGraph, sectioned = true): Tree {
  const structure = structureOf(given, sectioned);
  const { sections, repeats } = structure;
  const graph =
    sections === undefined ? given : { ...given, nodes: inSections(given.nodes, sections) };
  const root = new Scope("");
  const scopes = new Map<string, Scope>([["", root]]);
  const scopeOf = (path: string): Scope => {
    const known = scopes.get(path);
    if (known !== undefined) return known;
    const around = scopeOf(parentScope(path));
    const scope = new Scope(path);
    scopes.set(path, scope);
    around.add(scope);
    return scope;
  };
  /** The scope of the last node: the next node is often in the same one. */
  let inner = root;
  const moved = scopesOfReaders(graph.nodes);
  for (const node of graph.nodes) {
    if (node === undefined) continue;
    const scope = moved.get(node.id) ?? node.scope;
    if (inner.path !== scope) inner = scopeOf(scope);
    inner.add(node);
  }
  orderByFlow(graph, scopes);
  for (const stack of repeats.stacks) pile(stack, scopes);
  for (const scope of scopes.values()) scope.trim();
  return {
    ...structure,
    root,
    scopes,
    scopeOf: (id) => graph.nodes[id]?.scope ?? "",
  };
}

/**
 * The scopes in which to list weights whose layer runs elsewhere: if `fc/weight` is read in
 * `loss/encoder/fc` and nothing runs in `fc`, it is listed where it is read, as in the picture.
 */
function scopesOfReaders(nodes: readonly (Node | undefined)[]): ReadonlyMap<number, string> {
  const computing = new Set<string>();
  const weights: Node[] = [];
  for (const node of nodes) {
    if (node === undefined) continue;
    if (!isLeaf(node)) computing.add(node.scope);
    else if (heldBy(node) === "parameter" && node.scope !== "") weights.push(node);
  }
  const moved = new Map<number, string>();
  const elsewhere = new Map<number, Node>();
  for (const weight of weights) {
    if (computing.has(weight.scope)) continue;
    for (const value of weight.outputs) elsewhere.set(value, weight);
  }
  if (elsewhere.size === 0) return moved;
  for (const node of nodes) {
    if (node === undefined || node.phase !== "forward" || isLeaf(node)) continue;
    for (const input of node.inputs) {
      const weight = elsewhere.get(input);
      if (weight === undefined || moved.has(weight.id)) continue;
      if (node.scope.endsWith(`/${weight.scope}`)) moved.set(weight.id, node.scope);
    }
  }
  return moved;
}

function inSections<Of extends StructuredNode>(
  nodes: readonly (Of | undefined)[],
  scopes: readonly (string | undefined)[],
): readonly (Of | undefined)[] {
  return nodes.map((node, id) => {
    if (node === undefined || node.scope === scopes[id]) return node;
    const like = Object.assign(Object.create(Object.getPrototypeOf(node)), node) as Of;
    // Nodes that read columns have no scope of their own to assign to.
    return Object.defineProperty(like, "scope", { value: scopes[id] ?? node.scope });
  });
}

function heldBy(node: Pick<Node, "role"> | undefined): Held {
  if (node === undefined || !isLeaf(node)) return undefined;
  return node.role === "parameter" || node.role === "buffer" ? "parameter" : "data";
}

/** Puts the scopes of a stack into one entry, where the first of them was. */
function pile(stack: Stack, scopes: Map<string, Scope>): void {
  const around = scopes.get(parentScope(stack.path));
  const children = stack.members.flatMap((path) => scopes.get(path) ?? []);
  if (around === undefined || children.length === 0) return;
  const entry = new Scope(stack.path, children, stack);
  const inside = new Set<TreeEntry>(children);
  const at = around.children.findIndex((child) => inside.has(child));
  const rest = around.children.filter((child) => !inside.has(child));
  around.children.splice(0, around.children.length, ...rest.toSpliced(at, 0, entry));
  scopes.set(stack.path, entry);
}

/** Rows of the open scopes, top to bottom. */
export function visibleRows(tree: Tree, open: ReadonlySet<string>): readonly Row[] {
  const rows: Row[] = [];
  const visit = (scope: ScopeEntry, depth: number): void => {
    for (const entry of scope.children) {
      if (entry.kind === "node") {
        rows.push(new OutlineRow(entry, depth, false));
        continue;
      }
      const { stack } = entry;
      const isOpen =
        stack === undefined ? open.has(entry.path) : stackState(open, stack) !== "folded";
      rows.push(new OutlineRow(entry, depth, isOpen));
      // A stack that shows one scope has a row for that scope only.
      const only = stack && shownMember(open, stack);
      if (only !== undefined) {
        visit(
          { ...entry, children: entry.children.filter(({ path }) => path === only) },
          depth + 1,
        );
      } else if (isOpen) visit(entry, depth + 1);
    }
  };
  visit(tree.root, 0);
  return rows;
}

export class OutlineRow implements Row {
  constructor(
    readonly entry: TreeEntry,
    readonly depth: number,
    readonly open: boolean,
  ) {}

  /** Computed on use: of thousands of rows, only a few are visible. */
  get label(): string {
    const stack = this.entry.kind === "scope" ? this.entry.stack : undefined;
    return printable(stack?.name ?? leafName(this.entry.path));
  }
}

/** Scopes open at first: breadth first, as long as at most `limit` rows are visible. */
export function firstOpen(tree: Tree, limit: number): ReadonlySet<string> {
  const open = new Set<string>();
  let visible = tree.root.children.length;
  let level = tree.root.children;
  while (level.length > 0) {
    const next: TreeEntry[] = [];
    for (const entry of level) {
      // Stacks stay folded.
      if (entry.kind !== "scope" || entry.stack !== undefined) continue;
      if (visible + entry.children.length > limit) continue;
      open.add(entry.path);
      visible += entry.children.length;
      next.push(...entry.children);
    }
    level = next;
  }
  return open;
}
