/**
 * Live state for drawing: which nodes have run, how long scopes took, which values are not finite.
 *
 * Invariant: recomputed as a whole from the store's columns, in time linear in the nodes; a node
 * that last ran in an earlier training step counts as not yet run.
 */

import { FAMILIES, type Family } from "@/base/families";
import type { Hierarchy } from "@/layout/hierarchy";
import { type ColourBy, FAILED, HAS_INF, HAS_NAN, type NodeStates } from "@/render/scene/types";

export interface LiveState {
  /** By node index: 1 = has run in the step shown. */
  readonly done: Uint8Array;
  readonly durationNs: Float64Array;
  readonly flags: Uint8Array;
  /** By group index, nested scopes included. */
  readonly groupDone: Uint8Array;
  readonly groupNs: Float64Array;
  /** Bytes of the outputs of all nodes inside. */
  readonly groupBytes: Float64Array;
  readonly groupFlags: Uint8Array;
  /** Share of each family in a group's time (or in its operations, if nothing is timed). */
  sharesOf(group: number): Float64Array;
  /** False in an export: nothing is known, so everything is drawn solid and without times. */
  readonly known: boolean;
}

export function liveState(
  hierarchy: Hierarchy,
  states: NodeStates | undefined,
  step: number,
): LiveState {
  const { nodes, groups, groupOf, host } = hierarchy;
  const done = new Uint8Array(nodes.length);
  const durationNs = new Float64Array(nodes.length);
  const flags = new Uint8Array(nodes.length);
  const groupDone = new Uint8Array(groups.length).fill(states === undefined ? 1 : 0);
  const groupNs = new Float64Array(groups.length);
  const groupFlags = new Uint8Array(groups.length);
  nodes.forEach((node, index) => {
    const leaf = node.family === "leaf";
    const runs = states?.times[node.id] ?? 0;
    // Leaves, such as parameters, run once before the first step and stay done.
    const now = states === undefined || (runs > 0 && (leaf || (states.step[node.id] ?? 0) >= step));
    const ns = runs > 0 ? (states!.durationNs[node.id] ?? 0) : 0;
    done[index] = now ? 1 : 0;
    // Memory that is never written to stays unused.
    if (ns > 0) durationNs[index] = ns;
    flags[index] = now ? (states?.flags[node.id] ?? 0) : 0;
    const group = groupOf[index]!;
    groupFlags[group]! |= flags[index]!;
    if (leaf || host[index]! >= 0) return;
    if (now) groupDone[group] = 1;
    groupNs[group]! += ns;
  });
  for (let group = groups.length - 1; group > 0; group--) {
    const parent = groups[group]!.parent;
    groupNs[parent]! += groupNs[group]!;
    groupFlags[parent]! |= groupFlags[group]!;
    groupDone[parent]! |= groupDone[group]!;
  }
  return withMade(hierarchy, {
    done,
    durationNs,
    flags,
    groupDone,
    groupNs,
    groupFlags,
    known: states !== undefined,
  });
}

type Plain = Omit<LiveState, "groupBytes" | "sharesOf">;

/**
 * Adds fields that are computed on first access. A function of its own, because a closure keeps the
 * variables around it alive.
 */
function withMade(hierarchy: Hierarchy, live: Plain): LiveState {
  const shares = new Map<number, Float64Array>();
  return {
    ...live,
    get groupBytes() {
      return bytesOf(hierarchy);
    },
    sharesOf(group) {
      const made = shares.get(group) ?? sharesIn(hierarchy, live, group);
      shares.set(group, made);
      return made;
    },
  };
}

function sharesIn({ nodes, groups }: Hierarchy, live: Plain, group: number): Float64Array {
  const shares = new Float64Array(FAMILIES.length);
  const timed = live.groupNs[group]! > 0;
  const add = (within: number): void => {
    for (const index of groups[within]!.nodes) {
      const family = FAMILIES.indexOf(nodes[index]!.family as Family);
      if (family >= 0 && nodes[index]!.family !== "leaf") {
        shares[family]! += timed ? live.durationNs[index]! : 1;
      }
    }
    for (const inner of groups[within]!.groups) add(inner);
  };
  add(group);
  const total = shares.reduce((sum, part) => sum + part, 0);
  return total > 0 ? shares.map((part) => part / total) : shares;
}

const bytesByGroup = new WeakMap<Hierarchy, Float64Array>();

/** The bytes of the outputs in each group, computed on first access. */
function bytesOf(hierarchy: Hierarchy): Float64Array {
  const known = bytesByGroup.get(hierarchy);
  if (known !== undefined) return known;
  const { nodes, groups, groupOf, host } = hierarchy;
  const bytes = new Float64Array(groups.length);
  nodes.forEach((node, index) => {
    if (node.family === "leaf" || host[index]! >= 0) return;
    bytes[groupOf[index]!]! += outputBytes(hierarchy, index);
  });
  for (let group = groups.length - 1; group > 0; group--) {
    bytes[groups[group]!.parent]! += bytes[group]!;
  }
  bytesByGroup.set(hierarchy, bytes);
  return bytes;
}

export function outputBytes(hierarchy: Hierarchy, node: number): number {
  let bytes = 0;
  for (const value of hierarchy.nodes[node]!.outputs) {
    bytes += hierarchy.values.get(value)?.bytes ?? 0;
  }
  return bytes;
}

/** The amount of a node on the scale of the colour mode: ns or bytes. */
export function nodeAmount(
  hierarchy: Hierarchy,
  live: LiveState,
  node: number,
  mode: ColourBy,
): number {
  return mode === "time" ? live.durationNs[node]! : outputBytes(hierarchy, node);
}

/** The amount of a folded scope: the sum over its contents. */
export function groupAmount(live: LiveState, group: number, mode: ColourBy): number {
  return mode === "time" ? live.groupNs[group]! : live.groupBytes[group]!;
}

/** The position of an amount relative to the maximum, 0 to 1; undefined = not on the scale. */
export function heat(value: number, most: number): number | undefined {
  // Three decades: a thousandth of the maximum counts as nothing.
  if (!(value > 0) || !(most > 0)) return undefined;
  return Math.min(1, Math.max(0, 1 + Math.log10(value / most) / 3));
}

export function isNotFinite(flags: number): boolean {
  return (flags & (HAS_NAN | HAS_INF)) !== 0;
}

export { FAILED, HAS_INF, HAS_NAN };
