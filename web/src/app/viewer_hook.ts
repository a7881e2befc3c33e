/**
 * `window.__viewer`, by which benchmarks of graph viewers drive the page, if the address has
 * `?viewer=1`.
 *
 * Invariant: it does only what a user can do; a promise resolves once its picture is drawn.
 */

import type { Hook } from "@/app/main";
import { ancestors } from "@/base/scopes";

export interface ViewerHook {
  /** Whether a picture of the graph is on the screen. */
  ready(): boolean;
  /** Opens a scope, and those around it. */
  expand(scope: string): Promise<void>;
  expandAll(): Promise<void>;
  /** The element that takes Ctrl + wheel and drags. */
  surface(): Element | null;
}

declare global {
  interface Window {
    __viewer?: ViewerHook;
  }
}

export function wantsViewerHook(search: string): boolean {
  return new URLSearchParams(search).get("viewer") === "1";
}

export function viewerHook(
  { store, view }: Pick<Hook, "store"> & { view(): Hook["view"] },
  frame: (task: () => void) => unknown = requestAnimationFrame,
): ViewerHook {
  const settled = (): Promise<void> =>
    new Promise((resolve) => {
      const look = () => (view()?.settled() ? resolve() : void frame(look));
      frame(look);
    });
  const open = (paths: Iterable<string>): Promise<void> => {
    store.setOpen(new Set([...store.folds().open, ...paths]));
    return settled();
  };
  return {
    ready: () => (store.model()?.graph.count ?? 0) > 0 && store.first.there(),
    expand: (scope) => open(ancestors(scope)),
    expandAll: () => open([...(store.tree()?.scopes.keys() ?? [])].filter(Boolean)),
    surface: () => document.querySelector(".graph-host"),
  };
}
