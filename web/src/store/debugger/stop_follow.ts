/**
 * Folding, and the effect of a stop: the current node comes into view and is selected.
 *
 * Invariant: pure; scopes folded by the user stay folded.
 */

import { NO_REPEATS, type Repeats, type Stack } from "@/base/repeats";
import { ancestors, isWithin } from "@/base/scopes";
import { foldingStack, opening, stackState } from "@/store/debugger/stacks";
import type { Item } from "@/store/page/url";
import type { RunGraph } from "@/store/run/run_model";
import type { Tree } from "@/store/run/tree";
import type { SessionInfo, Stop } from "@/wire/types.gen";

export interface FoldState {
  readonly open: ReadonlySet<string>;
  /** Folded by the user, and therefore not opened by a stop. */
  readonly shut: ReadonlySet<string>;
}

export function folded(folds: FoldState, path: string, repeats = NO_REPEATS): FoldState {
  const stack = repeats.byPath.get(path);
  const shut = new Set(folds.shut).add(path);
  if (stack !== undefined) return { open: foldingStack(folds.open, stack), shut };
  const open = new Set(folds.open);
  open.delete(path);
  return { open, shut };
}

/** Opens a scope and all scopes around it. */
export function unfolded(folds: FoldState, path: string, repeats = NO_REPEATS): FoldState {
  const chain = ancestors(path);
  const shut = new Set(folds.shut);
  for (const ancestor of chain) {
    shut.delete(ancestor);
    shut.delete(repeats.stackOf.get(ancestor)?.path ?? "");
  }
  return { open: opening(folds.open, chain, repeats), shut };
}

/**
 * Opens a folded scope or stack, and folds an open one.
 *
 * Args:
 *   first: The scope to show of a stack.
 */
export function toggledScope(
  folds: FoldState,
  path: string,
  repeats: Repeats,
  first: (stack: Stack) => string,
): FoldState {
  const stack = repeats.byPath.get(path);
  if (stack === undefined) {
    return folds.open.has(path) ? folded(folds, path) : unfolded(folds, path, repeats);
  }
  return stackState(folds.open, stack) === "folded"
    ? unfolded(folds, first(stack), repeats)
    : folded(folds, path, repeats);
}

export function followStop(
  folds: FoldState,
  stop: Stop,
  graph: RunGraph | undefined,
  tree?: Pick<Tree, "repeats" | "scopeOf">,
): { readonly folds: FoldState; readonly selection: Item | undefined } {
  const node = graph?.nodes[stop.node];
  const scope = (node && (tree?.scopeOf(node.id) ?? node.scope)) ?? stop.scope;
  const repeats = tree?.repeats ?? NO_REPEATS;
  const chain = ancestors(scope);
  const shut = chain.find(
    (path) => folds.shut.has(path) || folds.shut.has(repeats.stackOf.get(path)?.path ?? ""),
  );
  const opened = shut === undefined ? chain : chain.filter((path) => !isWithin(path, shut));
  const open = opened.every((path) => folds.open.has(path))
    ? folds.open
    : opening(folds.open, opened, repeats);
  return {
    folds: open === folds.open ? folds : { open, shut: folds.shut },
    selection: stop.node > 0 ? { kind: "node", id: stop.node } : undefined,
  };
}

/** Whether a session was already stopped at this stop. */
export function sameStop(session: SessionInfo | undefined, stop: Stop): boolean {
  const before = session?.stop;
  return (
    before !== undefined &&
    before !== null &&
    before.seq === stop.seq &&
    before.node === stop.node &&
    before.when === stop.when &&
    before.text === stop.text
  );
}
