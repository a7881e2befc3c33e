/**
 * Views of a graph: selection, open scopes and camera. Earlier views are kept for back and forward;
 * bookmarks are views kept by name for each program, in localStorage.
 *
 * Invariant: going to a view changes only the page. Bookmarks hold names, not ids, so that they fit
 * the program's next run. Without browser storage, they last until the page is closed.
 */

import { type Accessor, batch, createEffect, createSignal, on } from "solid-js";
import type { Store } from "@/store/page/store";
import type { ColourMode, Ui } from "@/store/page/ui";
import type { Item, Viewpoint } from "@/store/page/url";

export interface PageView {
  readonly selection: Item | undefined;
  readonly open: readonly string[];
  readonly at: Viewpoint | undefined;
  readonly colour: ColourMode;
  /** A moment in the past; undefined = live, or the end. */
  readonly seq: number | undefined;
}

/** A view as it is stored: nodes are identified by name. */
export interface Bookmark {
  readonly name: string;
  readonly selection: string;
  readonly open: readonly string[];
  readonly at?: (Omit<Viewpoint, "item"> & { readonly item: string }) | undefined;
  readonly colour: ColourMode;
}

/** The camera of the graph. */
export interface Looking {
  viewpoint(): Viewpoint | undefined;
  setViewpoint(at: Viewpoint): void;
}

export interface Views {
  readonly bookmarks: Accessor<readonly Bookmark[]>;
  readonly canGo: Accessor<{ readonly back: boolean; readonly forward: boolean }>;
  /** Records the current view; called before the page goes elsewhere. */
  mark(): void;
  go(direction: "back" | "forward"): void;
  /** The name that a new bookmark gets if the user gives none. */
  suggested(): string;
  keep(name: string): void;
  drop(index: number): void;
  show(index: number): void;
}

const MOST_VIEWS = 100;
export const MOST_BOOKMARKS = 50;
/** Moves in quicker succession count as one, such as following edges with a key held down. */
const ONE_STEP_MS = 700;

export function createViews(
  store: Store,
  ui: Ui,
  looking: () => Looking | undefined,
  storage: Storage | undefined,
  clock: () => number = () => performance.now(),
): Views {
  const [past, setPast] = createSignal<readonly PageView[]>([]);
  const [future, setFuture] = createSignal<readonly PageView[]>([]);
  const [bookmarks, setBookmarks] = createSignal<readonly Bookmark[]>([]);
  let marked = Number.NEGATIVE_INFINITY;
  const key = (): string | undefined => {
    const name = store.model()?.info.name;
    return name === undefined ? undefined : `nodescope.views ${name}`;
  };
  createEffect(on(key, (now) => setBookmarks(now === undefined ? [] : read(storage, now))));
  createEffect(
    on(
      store.runId,
      () => {
        setPast([]);
        setFuture([]);
      },
      { defer: true },
    ),
  );

  const now = (): PageView => {
    const cursor = store.cursor();
    return {
      selection: store.selection(),
      open: [...store.folds().open],
      at: looking()?.viewpoint(),
      colour: ui.colourBy(),
      seq: cursor.kind === "past" ? cursor.seq : undefined,
    };
  };
  const present = (view: PageView): void => {
    batch(() => {
      const open = new Set(view.open);
      store.refold((folds) => ({ ...folds, open }));
      store.select(view.selection);
      ui.setColourBy(view.colour);
    });
    if (view.at !== undefined) looking()?.setViewpoint(view.at);
  };
  /** Shows a view at its moment. */
  const arrive = (view: PageView): void => {
    const cursor = store.cursor();
    const seq = cursor.kind === "past" ? cursor.seq : undefined;
    // `backToLive` goes first: it opens the scopes around the stop, which the view then replaces.
    if (view.seq === undefined && seq !== undefined) store.backToLive();
    present(view);
    if (view.seq !== undefined && view.seq !== seq) void store.seek(view.seq);
  };
  const write = (next: readonly Bookmark[]): void => {
    setBookmarks(next);
    const name = key();
    try {
      if (name !== undefined) storage?.setItem(name, JSON.stringify(next));
    } catch {
      // Storage is full or forbidden: the bookmarks last as long as the page.
    }
  };
  const nameOf = (item: Item | undefined): string => {
    if (item === undefined) return "";
    const name = item.kind === "node" ? store.model()?.graph.nodes[item.id]?.name : item.path;
    return `${item.kind} ${name ?? ""}`;
  };
  const itemOf = (text: string): Item | undefined => {
    const cut = text.indexOf(" ");
    const [kind, name] = [text.slice(0, Math.max(0, cut)), text.slice(cut + 1)];
    if (kind === "scope") return { kind, path: name };
    const id = store.model()?.graph.byName.get(name);
    return kind === "node" && id !== undefined ? { kind, id } : undefined;
  };
  const views: Views = {
    bookmarks,
    canGo: () => ({ back: past().length > 0, forward: future().length > 0 }),
    mark() {
      if (store.model() === undefined) return;
      const since = clock() - marked;
      marked = clock();
      if (since < ONE_STEP_MS && past().length > 0) return;
      const view = now();
      setFuture([]);
      if (!sameView(past().at(-1), view)) setPast([...past().slice(1 - MOST_VIEWS), view]);
    },
    go(direction) {
      const [from, to, setFrom, setTo] =
        direction === "back"
          ? ([past, future, setPast, setFuture] as const)
          : ([future, past, setFuture, setPast] as const);
      const here = now();
      // Skip views equal to the current one: going there would change nothing.
      const stack = from().slice();
      while (stack.length > 1 && sameView(stack.at(-1), here)) stack.pop();
      const view = stack.pop();
      if (view === undefined) return;
      setFrom(stack);
      setTo([...to(), here]);
      marked = Number.NEGATIVE_INFINITY;
      arrive(view);
    },
    suggested() {
      const item = store.selection();
      const name = item === undefined ? "" : nameOf(item).slice(item.kind.length + 1);
      return name || `View ${bookmarks().length + 1}`;
    },
    keep(name) {
      const { selection, open, at, colour } = now();
      const looked = at && { item: nameOf(at.item), dx: at.dx, dy: at.dy, zoom: at.zoom };
      const kept: Bookmark = {
        name: name.trim() || views.suggested(),
        selection: nameOf(selection),
        open,
        at: looked,
        colour,
      };
      if (bookmarks().length >= MOST_BOOKMARKS) {
        store.notify("info", `${MOST_BOOKMARKS} bookmarks are kept; remove one first.`);
      } else write([...bookmarks(), kept]);
    },
    drop: (index) => write(bookmarks().filter((_, at) => at !== index)),
    show(index) {
      const kept = bookmarks()[index];
      if (kept === undefined) return;
      marked = Number.NEGATIVE_INFINITY;
      views.mark();
      marked = Number.NEGATIVE_INFINITY;
      const known = store.tree()?.scopes;
      const item = kept.at && itemOf(kept.at.item);
      present({
        selection: itemOf(kept.selection),
        open: kept.open.filter((path) => known?.has(path)),
        at: kept.at && item && { ...kept.at, item },
        colour: kept.colour,
        seq: undefined,
      });
    },
  };
  return views;
}

/** Whether two views show the same, regardless of the camera. */
function sameView(a: PageView | undefined, b: PageView): boolean {
  if (a === undefined) return false;
  const essence = ({ selection, open, colour, seq }: PageView): string =>
    JSON.stringify([selection, [...open].sort(), colour, seq]);
  return essence(a) === essence(b);
}

function read(storage: Storage | undefined, key: string): readonly Bookmark[] {
  try {
    const stored: unknown = JSON.parse(storage?.getItem(key) ?? "[]");
    return Array.isArray(stored) ? stored.filter(isBookmark).slice(0, MOST_BOOKMARKS) : [];
  } catch {
    // Foreign text under our key counts as no bookmarks.
    return [];
  }
}

function isBookmark(stored: unknown): stored is Bookmark {
  const { name, selection, open, at, colour } = (stored ?? {}) as Partial<Bookmark>;
  const placed =
    at === undefined ||
    (typeof at?.item === "string" && [at.dx, at.dy, at.zoom].every(Number.isFinite));
  return (
    typeof name === "string" &&
    typeof selection === "string" &&
    typeof colour === "string" &&
    Array.isArray(open) &&
    open.every((path) => typeof path === "string") &&
    placed
  );
}
