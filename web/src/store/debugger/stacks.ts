/**
 * Stacks of scopes that are alike: which of them are shown.
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

/** The scope shown of a stack that shows one; undefined otherwise. */
export function shownMember(open: ReadonlySet<string>, stack: Stack): string | undefined {
  return stackState(open, stack) === "one"
    ? stack.members.find((path) => open.has(path))
    : undefined;
}

/** What is open once `paths` are, too. */
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

/** What is open once a stack is folded. */
export function foldingStack(open: ReadonlySet<string>, stack: Stack): ReadonlySet<string> {
  const after = new Set(open);
  after.delete(stack.path);
  for (const path of stack.members) after.delete(path);
  return after;
}

/** What is open once all scopes of a stack are shown, or again only one. */
export function spreading(open: ReadonlySet<string>, stack: Stack): ReadonlySet<string> {
  if (stackState(open, stack) !== "all") return new Set([...open, stack.path]);
  const kept = stack.members.find((path) => open.has(path)) ?? stack.first;
  return new Set([...foldingStack(open, stack), kept]);
}

/** What is open once a stack shows another of its scopes, with the same scopes open inside. */
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

/** What is open once another scope of a stack is shown, or all of them, or again only one. */
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

/** What is open once a scope, or a stack, is opened if it is folded, or else folded. */
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

/** The scope before or after the one shown, around the ends. */
export function neighbourIn(stack: Stack, shown: string, act: "previous" | "next"): string {
  const { members } = stack;
  const by = act === "next" ? 1 : -1;
  return members.at((members.indexOf(shown) + by) % members.length) ?? shown;
}

function close(open: Set<string>, scope: string): void {
  for (const path of open) if (isWithin(path, scope)) open.delete(path);
}
