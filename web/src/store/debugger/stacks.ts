/**
 * Stacks of repeated scopes: which scopes of a stack are shown.
 *
 * A stack is folded, or shows one of its scopes, or all of them. All are shown if the stack itself
 * is open, or several of its scopes are (as an older address may say).
 *
 * Invariant: pure; opening a scope of a stack that shows one folds the one that was shown.
 */

import type { Repeats, Stack } from "@/base/repeats";
import { isWithin } from "@/base/scopes";

export type StackState = "folded" | "one" | "all";

export function stackState(open: ReadonlySet<string>, stack: Stack): StackState {
  const shown = stack.members.filter((path) => open.has(path)).length;
  return open.has(stack.path) || shown > 1 ? "all" : shown === 1 ? "one" : "folded";
}

/** The scope that a stack shows, if it shows exactly one; otherwise undefined. */
export function shownMember(open: ReadonlySet<string>, stack: Stack): string | undefined {
  return stackState(open, stack) === "one"
    ? stack.members.find((path) => open.has(path))
    : undefined;
}

/** The open scopes after `paths` are opened as well. */
export function opening(
  open: ReadonlySet<string>,
  paths: readonly string[],
  repeats: Repeats,
): ReadonlySet<string> {
  const after = new Set([...open, ...paths]);
  for (const path of paths) {
    const stack = repeats.stackOf.get(path);
    const before = stack && shownMember(open, stack);
    if (before !== undefined && before !== path) close(after, before);
  }
  return after;
}

/** The open scopes after a stack is folded. */
export function foldingStack(open: ReadonlySet<string>, stack: Stack): ReadonlySet<string> {
  const after = new Set(open);
  after.delete(stack.path);
  for (const path of stack.members) after.delete(path);
  return after;
}

/** The open scopes after a stack shows all of its scopes, or only one if it showed all. */
export function spreading(open: ReadonlySet<string>, stack: Stack): ReadonlySet<string> {
  if (stackState(open, stack) !== "all") return new Set([...open, stack.path]);
  const kept = stack.members.find((path) => open.has(path)) ?? stack.first;
  return new Set([...foldingStack(open, stack), kept]);
}

/** The open scopes after a stack shows another of its scopes, with the same scopes open inside. */
export function turning(
  open: ReadonlySet<string>,
  stack: Stack,
  to: string,
  repeats: Repeats,
): ReadonlySet<string> {
  const from = shownMember(open, stack);
  if (from === undefined) return opening(open, [to], repeats);
  const after = new Set(open);
  close(after, from);
  for (const path of open) {
    if (!isWithin(path, from)) continue;
    // A stack inside is named after its first scope.
    const inner = repeats.byPath.get(path);
    const twin = repeats.twinScope(inner?.first ?? path, from, to);
    const name = inner === undefined ? twin : repeats.stackOf.get(twin ?? "")?.path;
    if (name !== undefined) after.add(name);
  }
  return after;
}

/** The open scopes after a stack shows its previous or next scope, or all, or only one again. */
export function turned(
  open: ReadonlySet<string>,
  stack: Stack,
  act: "previous" | "next" | "all",
  repeats: Repeats,
): ReadonlySet<string> {
  if (act === "all") return spreading(open, stack);
  const from = shownMember(open, stack);
  const to = from === undefined ? stack.first : neighbourIn(stack, from, act);
  return turning(open, stack, to, repeats);
}

/** The open scopes after a folded scope or stack is opened, or an open one is folded. */
export function toggledPath(
  open: ReadonlySet<string>,
  path: string,
  stack: Stack | undefined,
): ReadonlySet<string> {
  if (stack !== undefined) {
    return stackState(open, stack) === "folded"
      ? new Set([...open, stack.first])
      : foldingStack(open, stack);
  }
  const after = new Set(open);
  if (!after.delete(path)) after.add(path);
  return after;
}

/** The scope before or after the one shown, wrapping around. */
export function neighbourIn(stack: Stack, shown: string, act: "previous" | "next"): string {
  const { members } = stack;
  const by = act === "next" ? 1 : -1;
  return members.at((members.indexOf(shown) + by) % members.length) ?? shown;
}

function close(open: Set<string>, scope: string): void {
  for (const path of open) if (isWithin(path, scope)) open.delete(path);
}
