/**
 * Scopes that open by zooming in on them, and fold again as the view zooms out.
 *
 * Invariant: folds only what it opened itself; a scope that the user folded stays folded, and one
 * that holds what the user opened or selected stays open.
 */

import { createEffect } from "solid-js";
import { isWithin } from "@/base/scopes";
import { shownMember } from "@/store/debugger/stacks";
import { unfolded } from "@/store/debugger/stop_follow";
import { attended } from "@/store/page/stack_turns";
import type { Store } from "@/store/page/store";

/** From this zoom on, a folded scope has more room than it fills. */
const OPENS_AT = 1.5;
/** A scope inside an opened one opens only at a zoom higher by this factor. */
const FURTHER = 1.2;
/** A scope folds below this fraction of the zoom at which it opened; the gap prevents flicker. */
const FOLDS_AT = 0.5;

export interface ZoomFolds {
  /**
   * Called when the user has zoomed.
   *
   * Args:
   *   into: Path of the folded scope or stack under the pointer, when zooming in.
   */
  zoomed(zoom: number, into: string | undefined): void;
}

export function createZoomFolds(store: Store, enabled: () => boolean): ZoomFolds {
  /** The zoom at which each scope was opened, in order. */
  const opened = new Map<string, number>();
  let run = store.runId();
  // Forget scopes that were folded in between: if the user opens them again, they stay open.
  createEffect(() => {
    const { open } = store.folds();
    for (const path of opened.keys()) if (!open.has(path)) opened.delete(path);
  });
  const into = (zoom: number, path: string): void => {
    const inner = [...opened].filter(([outer]) => isWithin(path, outer)).map(([, at]) => at);
    if (zoom < Math.max(OPENS_AT, FURTHER * Math.max(0, ...inner))) return;
    const { open, shut } = store.folds();
    const stack = store.tree()?.repeats.byPath.get(path);
    const scope = stack === undefined ? path : (shownMember(open, stack) ?? attended(store, stack));
    if (open.has(scope) || shut.has(path) || shut.has(scope)) return;
    opened.set(scope, zoom);
    store.refold((folds, repeats) => unfolded(folds, scope, repeats));
  };
  const attendedPath = (): string => {
    const item = store.selection();
    if (item === undefined) return "";
    return item.kind === "scope" ? item.path : (store.tree()?.scopeOf(item.id) ?? "");
  };
  const out = (zoom: number): void => {
    const { open } = store.folds();
    const folding = new Set<string>();
    // Inner scopes first: an inner scope that stays open keeps the outer ones open.
    for (const [path, at] of [...opened].reverse()) {
      if (zoom >= at * FOLDS_AT) continue;
      const kept = [...open].some((other) => {
        return other !== path && isWithin(other, path) && !folding.has(other);
      });
      if (kept || isWithin(attendedPath(), path)) continue;
      folding.add(path);
      opened.delete(path);
    }
    if (folding.size === 0) return;
    store.refold((folds) => ({
      ...folds,
      open: new Set([...folds.open].filter((path) => !folding.has(path))),
    }));
  };
  return {
    zoomed(zoom, scope) {
      if (run !== store.runId()) opened.clear();
      run = store.runId();
      if (!enabled()) return;
      if (scope === undefined) out(zoom);
      else into(zoom, scope);
    },
  };
}
