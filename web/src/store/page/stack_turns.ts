/**
 * The user's actions on stacks of repeated scopes: show the next scope, or all of them.
 *
 * Invariant: turning to another scope of a stack keeps the place: what was open and selected in the
 * first scope is open and selected in the other.
 */

import { NO_REPEATS, type Stack } from "@/base/repeats";
import { isWithin } from "@/base/scopes";
import { neighbourIn, shownMember, spreading, turning } from "@/store/debugger/stacks";
import type { FoldState } from "@/store/debugger/stop_follow";
import type { Item } from "@/store/page/url";
import type { NodeColumns } from "@/store/run/columns";
import type { RunModel } from "@/store/run/run_model";
import type { Tree } from "@/store/run/tree";
import { FAILED, HAS_INF, HAS_NAN, type Stop } from "@/wire/types.gen";

/** What the functions here need of the page's store. */
export interface StackedPage {
  tree(): Tree | undefined;
  model(): RunModel | undefined;
  folds(): FoldState;
  selection(): Item | undefined;
  stop(): Stop | undefined;
  shown(): NodeColumns;
  refold(change: (folds: FoldState) => FoldState): void;
  select(item: Item | undefined): void;
}

/** The scope to show first: that of the stop, of the selection or of an alarm, else the first. */
export function attended(page: StackedPage, stack: Stack): string {
  const item = page.selection();
  const scopes = [
    page.tree()?.scopeOf(page.stop()?.node ?? 0),
    item?.kind === "node" ? page.tree()?.scopeOf(item.id) : item?.path,
  ];
  for (const scope of scopes) {
    const around = stack.members.find((path) => scope && isWithin(scope, path));
    if (around !== undefined) return around;
  }
  const { flags } = page.shown();
  const alarmed = stack.members.find((path) =>
    page
      .tree()
      ?.scopes.get(path)
      ?.members.some((id) => ((flags[id] ?? 0) & (HAS_NAN | HAS_INF | FAILED)) !== 0),
  );
  return alarmed ?? stack.first;
}

/** The innermost stack that a path names or lies in. */
export function stackAt(page: StackedPage, path: string | undefined): Stack | undefined {
  const repeats = page.tree()?.repeats ?? NO_REPEATS;
  for (let at = path ?? ""; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf("/")))) {
    const stack = repeats.byPath.get(at) ?? repeats.stackOf.get(at);
    if (stack !== undefined) return stack;
  }
  return undefined;
}

/** Shows all scopes of a stack, or again only one. */
export function spreadStack(page: StackedPage, stack: Stack): void {
  page.refold((folds) => ({ ...folds, open: spreading(folds.open, stack) }));
}

/** Shows the next scope of a stack, or the one before. */
export function turnStack(page: StackedPage, stack: Stack, act: "previous" | "next"): void {
  const repeats = page.tree()?.repeats ?? NO_REPEATS;
  const { open } = page.folds();
  const from = shownMember(open, stack);
  const to = from === undefined ? attended(page, stack) : neighbourIn(stack, from, act);
  page.refold((folds) => ({ ...folds, open: turning(open, stack, to, repeats) }));
  const item = page.selection();
  if (from === undefined || item === undefined) return;
  const nodes = page.model()?.graph.nodes ?? [];
  if (item.kind === "scope") {
    const twin = isWithin(item.path, from) ? repeats.twinScope(item.path, from, to) : undefined;
    if (twin !== undefined) page.select({ kind: "scope", path: twin });
    return;
  }
  const at = repeats.operations(from).indexOf(item.id);
  const id = repeats.operations(to)[at] ?? -1;
  if (nodes[id] !== undefined) page.select({ kind: "node", id });
}
