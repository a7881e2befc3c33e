/**
 * Breakpoint sets, as pure functions: the page always sends the whole set, as in DAP.
 *
 * Invariant: a breakpoint that stays keeps its id, so that the session keeps its hits; these
 * restart when the breakpoint's conditions change.
 */

import type { Breakpoint, BreakpointKind, BreakpointStatus } from "@/wire/types.gen";

export type Mark = "enabled" | "disabled" | "unverified";

/** The set without the breakpoint on exactly this node or scope, or with a new one. */
export function toggled(
  statuses: readonly BreakpointStatus[],
  target: string,
  kind: "node" | "scope" = "node",
): readonly Breakpoint[] {
  const set = statuses.map((status) => status.breakpoint);
  const without = set.filter(
    (breakpoint) => !(breakpoint.kind === kind && breakpoint.target === target),
  );
  if (without.length < set.length) return without;
  return [...set, breakpointOf({ kind, target })];
}

/** The set with one breakpoint changed. */
export function changed(
  statuses: readonly BreakpointStatus[],
  id: number,
  change: Partial<Omit<Breakpoint, "id">>,
): readonly Breakpoint[] {
  return statuses.map(({ breakpoint }) =>
    breakpoint.id === id ? { ...breakpoint, ...change } : breakpoint,
  );
}

export function removed(statuses: readonly BreakpointStatus[], id: number): readonly Breakpoint[] {
  return statuses.map((status) => status.breakpoint).filter((breakpoint) => breakpoint.id !== id);
}

export function added(
  statuses: readonly BreakpointStatus[],
  wanted: Pick<Breakpoint, "kind" | "target"> & Partial<Breakpoint>,
): readonly Breakpoint[] {
  return [...statuses.map((status) => status.breakpoint), breakpointOf(wanted)];
}

function breakpointOf(
  wanted: Pick<Breakpoint, "kind" | "target"> & Partial<Breakpoint>,
): Breakpoint {
  return { ...NEW, ...wanted };
}

const NEW: Omit<Breakpoint, "kind" | "target"> = {
  id: 0,
  when: "after",
  condition: "",
  enabled: true,
  phase: "",
  first_step: 0,
  last_step: null,
  hits: "",
  log: "",
  once: false,
  group: "",
};

/** The set with all breakpoints of a group enabled or disabled. */
export function switched(
  statuses: readonly BreakpointStatus[],
  group: string,
  enabled: boolean,
): readonly Breakpoint[] {
  return statuses.map(({ breakpoint }) =>
    breakpoint.group === group ? { ...breakpoint, enabled } : breakpoint,
  );
}

/** A range of steps in text form: "", "3", "3..", "..7" or "3..7". */
export function stepsText(breakpoint: Pick<Breakpoint, "first_step" | "last_step">): string {
  const { first_step: first, last_step: last } = breakpoint;
  if (last === null) return first > 0 ? `${first}..` : "";
  return first === last ? `${first}` : `${first > 0 ? first : ""}..${last}`;
}

/** The range denoted by a text; null if it is invalid. */
export function stepsOf(text: string): Pick<Breakpoint, "first_step" | "last_step"> | null {
  const match = /^(\d{1,9})?\s*(\.\.)?\s*(\d{1,9})?$/.exec(text.trim());
  if (match === null) return null;
  const [, first, dots, last] = match;
  if (dots === undefined) {
    if (last !== undefined) return null;
    return first === undefined
      ? { first_step: 0, last_step: null }
      : { first_step: Number(first), last_step: Number(first) };
  }
  const range = {
    first_step: Number(first ?? 0),
    last_step: last === undefined ? null : Number(last),
  };
  return range.last_step !== null && range.last_step < range.first_step ? null : range;
}

/** A breakpoint's options besides its place and condition, in a few words. */
export function optionsText(breakpoint: Breakpoint): readonly string[] {
  const steps = stepsText(breakpoint);
  return [
    ...(breakpoint.when === "before" ? ["before"] : []),
    ...(breakpoint.phase !== "" ? [breakpoint.phase] : []),
    ...(steps !== "" ? [`step ${steps}`] : []),
    ...(breakpoint.hits !== "" ? [`hits ${breakpoint.hits}`] : []),
    ...(breakpoint.once ? ["once"] : []),
    ...(breakpoint.group !== "" ? [`group ${breakpoint.group}`] : []),
    ...(breakpoint.log !== "" ? [`logs “${breakpoint.log}”`] : []),
  ];
}

/** A breakpoint in short: `loss/mean`, `op:exp if step > 3`. */
export function describeBreakpoint(breakpoint: Breakpoint): string {
  const { kind, target, condition, phase } = breakpoint;
  const where = kind === "node" || kind === "source" ? target : `${kind}:${target}`;
  const steps = stepsText(breakpoint);
  const limits = [phase, steps === "" ? "" : `step ${steps}`].filter(Boolean).join(", ");
  return `${where}${limits === "" ? "" : ` [${limits}]`}${condition === "" ? "" : ` if ${condition}`}`;
}

const WHERE: Record<Breakpoint["kind"], (target: string) => string> = {
  node: (target) => `${target} runs`,
  glob: (target) => `any node whose name matches ${target} runs`,
  regex: (target) => `any node whose whole name matches ${target} runs`,
  op: (target) => `any ${target} runs`,
  scope: (target) => `the first node inside ${target} runs, each time the scope is entered`,
  source: (target) => `any node made at ${target} runs`,
};

/** The effect of a breakpoint, in a sentence. */
export function effectText(breakpoint: Breakpoint): string {
  const { condition, phase, hits, log } = breakpoint;
  const steps = stepsText(breakpoint);
  const parts = [
    `${log === "" ? "Stops" : "Logs a line without stopping,"} ${breakpoint.when} ${WHERE[
      breakpoint.kind
    ](breakpoint.target)}`,
    phase === "" ? "" : `in the ${phase} phase`,
    steps === "" ? "" : `in step ${steps}`,
    condition === "" ? "" : `if ${condition}`,
    hits === "" ? "" : hitsText(hits),
    breakpoint.once ? "once" : "",
  ];
  return `${breakpoint.enabled ? "" : "Off. "}${parts.filter(Boolean).join(", ")}.`;
}

/** A hit count in words: `% 5` is "at one in 5 hits". */
function hitsText(hits: string): string {
  const [, test = "", count = ""] = /^(==|>=|%)?\s*(\d+)$/.exec(hits.trim()) ?? [];
  if (test === "%") return `at one in ${count} hits`;
  return test === ">=" ? `from hit ${count} on` : `at hit ${count}`;
}

export function markOf(status: BreakpointStatus): Mark {
  if (!status.breakpoint.enabled) return "disabled";
  return status.verified ? "enabled" : "unverified";
}

/** Marks by node id, for breakpoints that name a single node. */
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

const KIND_PREFIX = /^(node|glob|regex|op|scope|source):\s*(?=\S)/;

/** What the form's field means: a prefix as in `op:log` takes precedence over the chosen kind. */
export function kindAndTarget(
  kind: BreakpointKind,
  typed: string,
): { readonly kind: BreakpointKind; readonly target: string } {
  const text = typed.trim();
  const prefix = KIND_PREFIX.exec(text);
  if (prefix === null) return { kind, target: text };
  return { kind: prefix[1] as BreakpointKind, target: text.slice(prefix[0].length) };
}

const NAME = /^[\w./-]*$/;

/**
 * The form's field in command-line syntax, which the server parses; "" for a plain name of the
 * chosen kind.
 */
export function specOf(kind: BreakpointKind, typed: string): string {
  const text = typed.trim();
  if (NAME.test(text) && !/^\d+$/.test(text)) return "";
  const before = /^before\s+/.exec(text)?.[0] ?? "";
  const rest = text.slice(before.length);
  return kind === "node" || KIND_PREFIX.test(rest) ? text : `${before}${kind}:${rest}`;
}
