/**
 * A hierarchy in columns, as the worker that built it posts it to the canvas, which needs its own
 * hierarchy of the same nodes.
 *
 * Invariant: `hierarchyFrom` returns what `buildHierarchy` would build for the canvas.
 */

import { type ById, IdTable, MadeLater } from "@/base/by_id";
import type { Repeats } from "@/base/repeats";
import { SharedTexts } from "@/base/shared_texts";
import { type Growing, type Hierarchy, into, newGroup, type Stub, trim } from "@/layout/hierarchy";
import { NO_SEGMENTS } from "@/layout/segments";
import type { LayoutNode, LayoutValue } from "@/layout/types";

export interface PostedHierarchy {
  /** By group. */
  readonly paths: readonly string[];
  readonly parent: Int32Array;
  /** Index of the group's stack; -1 = none. */
  readonly stack: Int32Array;
  readonly ops: Int32Array;
  /** By node. */
  readonly groupOf: Int32Array;
  readonly host: Int32Array;
  /** Node and group of each stub, pair by pair. */
  readonly stubs: Int32Array;
  /** A node and a leaf drawn inside it, pair by pair. */
  readonly chips: Int32Array;
  readonly crossing: Int32Array;
  readonly seed: readonly [number, number];
}

export function packedHierarchy(hierarchy: Hierarchy): PostedHierarchy {
  const { groups, repeats, stubs, chips, groupOf, host, crossing, seed } = hierarchy;
  const places = new Map(repeats.stacks.map((stack, place) => [stack, place]));
  const written: number[] = [];
  for (const [node, leaves] of chips) for (const leaf of leaves) written.push(node, leaf);
  return {
    paths: groups.map(({ path }) => path),
    parent: Int32Array.from(groups, ({ parent }) => parent),
    stack: Int32Array.from(groups, ({ stack }) => (stack && places.get(stack)) ?? -1),
    ops: Int32Array.from(groups, ({ ops }) => ops),
    groupOf: groupOf.slice(),
    host: host.slice(),
    stubs: Int32Array.from(stubs.flatMap(({ node, group }) => [node, group])),
    chips: Int32Array.from(written),
    crossing: crossing.slice(),
    seed,
  };
}

/** Args: repeats: The repeats of the nodes, with the same stacks as in the packed hierarchy. */
export function hierarchyFrom(
  posted: PostedHierarchy,
  nodes: readonly LayoutNode[],
  values: ReadonlyMap<number, LayoutValue>,
  repeats: Repeats,
): Hierarchy {
  const { paths, parent, stack, ops, groupOf, host, crossing, seed } = posted;
  const groups: Growing[] = [];
  const groupAt = new Map<string, number>();
  const names = new SharedTexts();
  const scopes = new SharedTexts(nodes.map(({ scope }) => scope));
  paths.forEach((text, index) => {
    const path = scopes.of(text);
    const above = groups[parent[index]!];
    const pile = repeats.stacks[stack[index]!];
    const group = newGroup(index, path, parent[index]!, names, pile, above);
    group.ops = ops[index]!;
    groups.push(group);
    groupAt.set(path, index);
    if (above !== undefined) into(above, "groups", index);
  });
  const indexOf = new IdTable();
  nodes.forEach(({ id }, index) => {
    indexOf.set(id, index);
    if (host[index]! < 0) into(groups[groupOf[index]!]!, "nodes", index);
  });
  const stubs: Stub[] = [];
  for (let at = 0; at < posted.stubs.length; at += 2) {
    const group = posted.stubs[at + 1]!;
    into(groups[group]!, "stubs", stubs.length);
    stubs.push({ node: posted.stubs[at]!, group });
  }
  groups.forEach(trim);
  return {
    nodes,
    values,
    indexOf,
    groups,
    groupAt,
    repeats,
    groupOf,
    stubs,
    chips: chipsIn(posted.chips),
    host,
    producerOf: producersIn(nodes),
    crossing,
    segments: NO_SEGMENTS,
    seed,
  };
}

// Functions of their own, as closures keep everything alive that the function around them has.

function producersIn(nodes: readonly LayoutNode[]): ById {
  let producers: IdTable | undefined;
  const make = (): IdTable => {
    const table = new IdTable();
    nodes.forEach(({ outputs }, index) => {
      for (const value of outputs) if (!table.has(value)) table.set(value, index);
    });
    return table;
  };
  return {
    get: (value) => {
      producers ??= make();
      return producers.get(value);
    },
  };
}

function chipsIn(pairs: Int32Array): ReadonlyMap<number, readonly number[]> {
  return new MadeLater(() => {
    const chips = new Map<number, number[]>();
    for (let at = 0; at < pairs.length; at += 2) {
      const leaves = chips.get(pairs[at]!);
      if (leaves === undefined) chips.set(pairs[at]!, [pairs[at + 1]!]);
      else leaves.push(pairs[at + 1]!);
    }
    return chips;
  });
}
