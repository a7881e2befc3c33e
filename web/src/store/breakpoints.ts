/**
 * Breakpoint sets, as pure functions: the page always sends the whole set, as in DAP.
 *
 * Invariant: a breakpoint that stays keeps its id, so that the session keeps its hits.
 */

import type { Breakpoint, BreakpointStatus } from "@/wire/types.gen";

export type Mark = "enabled" | "disabled" | "unverified";

/** The set without the breakpoint on exactly this node or scope, or with a new one. */
export function toggled(
  statuses: readonly BreakpointStatus[],
  target: string,
  kind: "node" | "scope" = "node",
): readonly Breakpoint[] {
  const set = statuses.map((each) => each.breakpoint);
  const without = set.filter((each) => !(each.kind === kind && each.target === target));
  if (without.length < set.length) return without;
  return [...set, made({ kind, target })];
}

/** The set with one breakpoint changed. */
export function changed(
  statuses: readonly BreakpointStatus[],
  id: number,
  change: Partial<Pick<Breakpoint, "condition" | "enabled" | "when" | "target" | "kind">>,
): readonly Breakpoint[] {
  return statuses.map(({ breakpoint }) =>
    breakpoint.id === id ? { ...breakpoint, ...change } : breakpoint,
  );
}

export function removed(statuses: readonly BreakpointStatus[], id: number): readonly Breakpoint[] {
  return statuses.map((each) => each.breakpoint).filter((each) => each.id !== id);
}

export function added(
  statuses: readonly BreakpointStatus[],
  wanted: Pick<Breakpoint, "kind" | "target"> & Partial<Breakpoint>,
): readonly Breakpoint[] {
  return [...statuses.map((each) => each.breakpoint), made(wanted)];
}

function made(wanted: Pick<Breakpoint, "kind" | "target"> & Partial<Breakpoint>): Breakpoint {
  return { id: 0, when: "after", condition: "", enabled: true, ...wanted };
}

export function markOf(status: BreakpointStatus): Mark {
  if (!status.breakpoint.enabled) return "disabled";
  return status.verified ? "enabled" : "unverified";
}

/** Marks by node id, of the breakpoints that name one node. */
export function nodeMarks(
  statuses: readonly BreakpointStatus[],
  byName: ReadonlyMap<string, number>,
): ReadonlyMap<number, Mark> {
  const marks = new Map<number, Mark>();
  for (const status of statuses) {
    if (status.breakpoint.kind !== "node") continue;
    const id = byName.get(status.breakpoint.target);
    if (id !== undefined) marks.set(id, markOf(status));
  }
  return marks;
}
