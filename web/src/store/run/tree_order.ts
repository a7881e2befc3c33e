/**
 * The order of the outline for nodes that appeared late: a step that goes further than earlier ones
 * creates nodes that belong before others that were known first.
 *
 * Invariant: nodes that appeared in data-flow order keep their order; otherwise the producer of a
 * value, in this step or an earlier one, comes before its users, and apart from that the order of
 * appearance holds.
 */

import { IdTable } from "@/base/by_id";
import type { RunGraph } from "@/store/run/run_model";
import type { ScopeEntry, TreeEntry } from "@/store/run/tree";
import type { Node } from "@/wire/types.gen";

/** Puts the children of scopes into data-flow order, if they did not appear in it. */
export function orderByFlow(graph: RunGraph, scopes: ReadonlyMap<string, ScopeEntry>): void {
  const wrong = new Set<string>();
  eachFlow(graph, (producer, reader) => {
    if (producer.id > reader.id) wrong.add(commonScope(producer.scope, reader.scope));
  });
  if (wrong.size === 0) return;
  const flows: (readonly [Node, Node])[] = [];
  eachFlow(graph, (producer, reader) => flows.push([producer, reader]));
  for (const path of wrong) {
    const scope = scopes.get(path);
    if (scope !== undefined) sortChildren(scope, flows);
  }
}

/** Producers and readers of values, in this step and in earlier ones. */
function eachFlow(graph: RunGraph, act: (producer: Node, reader: Node) => void): void {
  const producers = new IdTable();
  for (const node of graph.nodes) {
    for (const value of node?.outputs ?? []) producers.set(value, node?.id ?? 0);
  }
  const add = (input: number, reader: Node): void => {
    const id = producers.get(input) ?? graph.values.get(input)?.producer ?? -1;
    const producer = graph.nodes[id];
    if (producer !== undefined && producer !== reader) act(producer, reader);
  };
  for (const reader of graph.nodes) {
    for (const input of reader?.inputs ?? []) if (reader !== undefined) add(input, reader);
  }
  for (const [id, inputs] of inputsOnce(graph)) {
    const reader = graph.nodes[id];
    for (const input of inputs) if (reader !== undefined) add(input, reader);
  }
}

/** Inputs that nodes had in other steps: a shorter step keeps the order of longer ones. */
function inputsOnce(graph: RunGraph): ReadonlyMap<number, ReadonlySet<number>> {
  const followers = new Map<number, Set<number>>();
  for (const { node, before } of graph.history.rewirings) {
    const inputs = followers.get(node) ?? new Set();
    for (const value of before) inputs.add(value);
    followers.set(node, inputs);
  }
  return followers;
}

function commonScope(a: string, b: string): string {
  if (a === b) return a;
  const left = a.split("/");
  const right = b.split("/");
  let same = 0;
  while (same < left.length && same < right.length && left[same] === right[same]) same += 1;
  return left.slice(0, same).join("/");
}

function sortChildren(scope: ScopeEntry, flows: readonly (readonly [Node, Node])[]): void {
  const { path, children } = scope;
  const place = new Map(children.map((child, at) => [keyOf(child), at]));
  const before = path === "" ? "" : `${path}/`;
  /** Place of the child that is or contains a node; undefined if none does. */
  const childOf = (node: Node): number | undefined => {
    if (node.scope === path) return place.get(`n${node.id}`);
    if (!node.scope.startsWith(before)) return undefined;
    const end = node.scope.indexOf("/", before.length);
    return place.get(`s${end < 0 ? node.scope : node.scope.slice(0, end)}`);
  };
  const needs: Set<number>[] = children.map(() => new Set());
  for (const [producer, reader] of flows) {
    const from = childOf(producer);
    const to = childOf(reader);
    if (from !== undefined && to !== undefined && from !== to) needs[to]?.add(from);
  }
  const sorted: TreeEntry[] = [];
  const seen = new Uint8Array(children.length);
  // In order of appearance, each after its inputs; in a cycle, the first to appear goes first.
  for (const first of children.keys()) {
    const stack = [first];
    for (let at = stack.at(-1); at !== undefined; at = stack.at(-1)) {
      if (seen[at] === 0) {
        seen[at] = 1;
        const open = [...(needs[at] ?? [])].filter((need) => seen[need] === 0);
        stack.push(...open.sort((first, other) => other - first));
        continue;
      }
      stack.pop();
      const child = children[at];
      if (seen[at] === 2 || child === undefined) continue;
      seen[at] = 2;
      sorted.push(child);
    }
  }
  children.splice(0, children.length, ...sorted);
}

function keyOf(entry: TreeEntry): string {
  return entry.kind === "scope" ? `s${entry.path}` : `n${entry.id}`;
}
