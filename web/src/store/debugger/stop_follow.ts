/**
 * Folding, and the effect of a stop: the current node comes into view and is selected.
 *
 * Invariant: pure; scopes folded by the user stay folded.
 */

import { ancestors, isWithin } from "@/base/scopes";
import type { Item } from "@/store/page/url";
import type { RunGraph } from "@/store/run/run_model";
import type { SessionInfo, Stop } from "@/wire/types.gen";

export interface FoldState {
  readonly open: ReadonlySet<string>;
  /** Folded by the user, and therefore not opened by a stop. */
  readonly shut: ReadonlySet<string>;
}

export function folded(folds: FoldState, path: string): FoldState {
  const open = new Set(folds.open);
  open.delete(path);
  return { open, shut: new Set(folds.shut).add(path) };
}

/** Opens a scope and all scopes around it. */
export function unfolded(folds: FoldState, path: string): FoldState {
  const chain = ancestors(path);
  const shut = new Set(folds.shut);
  for (const ancestor of chain) shut.delete(ancestor);
  return { open: new Set([...folds.open, ...chain]), shut };
}

export function followStop(
  folds: FoldState,
  stop: Stop,
  graph: RunGraph | undefined,
): { readonly folds: FoldState; readonly selection: Item | undefined } {
  const node = graph?.nodes[stop.node];
  const scope = node?.scope ?? stop.scope;
  const chain = ancestors(scope);
  const shut = chain.find((path) => folds.shut.has(path));
  const opened = shut === undefined ? chain : chain.filter((path) => !isWithin(path, shut));
  const open = opened.every((path) => folds.open.has(path))
    ? folds.open
    : new Set([...folds.open, ...opened]);
  return {
    folds: open === folds.open ? folds : { open, shut: folds.shut },
    selection: stop.node > 0 ? { kind: "node", id: stop.node } : undefined,
  };
}

/** Whether a session was stopped where a stop is. */
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
