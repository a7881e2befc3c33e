/**
 * The search of the page: the matches at the moment shown, and the walk from match to match.
 *
 * Invariant: outline, graph and search field share one search; searching selects nothing; in a
 * large graph, no key waits for more than one slice of the search.
 */

import { type Accessor, createComputed, createMemo, createSignal, onCleanup } from "solid-js";
import { inSlices, type Slices } from "@/store/page/in_slices";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { Ui } from "@/store/page/ui";
import { MatchWalk } from "@/store/run/match_walk";
import { graphWith } from "@/store/run/past_values";
import { seenStep } from "@/store/run/run_model";
import { matcherOf, parseQuery, problemsOf, type Query } from "@/store/run/search";
import type { Row, Tree } from "@/store/run/tree";

/** The matches so far. */
export interface SearchResult {
  /** In the graph's order. */
  readonly ids: readonly number[];
  /** The matching rows of the outline, with the scopes around them. */
  readonly rows: readonly Row[];
  readonly problems: readonly string[];
  /** Whether all nodes have been tested. */
  readonly whole: boolean;
}

export interface Searching {
  /** Undefined while nothing is searched. */
  readonly result: Accessor<SearchResult | undefined>;
  /** All matches once the search is complete; until then, those of the previous search. */
  readonly ids: Accessor<ReadonlySet<number> | undefined>;
  /** The position of the selected node among the matches, from 1; 0 if it is not a match. */
  readonly place: Accessor<number>;
  /**
   * The match after (or before) the selected node in the graph's order, wrapping around. The first
   * call for a search returns the node with exactly that name, if there is one.
   */
  next(direction: 1 | -1): number | undefined;
}

const BEAT_MS = 200;
/** The interval between partial results. */
const TOLD_MS = 100;
/** Nodes tested between two checks of the clock: small graphs are searched in one go. */
const AT_ONCE = 2_048;

export function createSearching(store: Store, ui: Ui): Searching {
  const beat = throttled(store.tick, BEAT_MS);
  const query = createMemo(() => parseQuery(ui.search()));
  const graph = createMemo(() => {
    const graph = store.model()?.graph;
    const past = store.cursor().kind === "past";
    return graph !== undefined && past ? graphWith(graph, store.pastValues()) : graph;
  });
  const [result, setResult] = createSignal<SearchResult>();
  let shown: { readonly words: Query; readonly tree: Tree } | undefined;
  let slices: Slices | undefined;
  createComputed(() => {
    const [words, all, tree] = [query(), graph(), store.tree()];
    if (words === undefined || all === undefined || tree === undefined) {
      shown = undefined;
      setResult(undefined);
      return;
    }
    if (words.live) beat();
    const facts = { graph: all, columns: store.shown(), step: seenStep(store) };
    const walk = new MatchWalk(tree, matcherOf(words, facts));
    // When the same search runs again, its earlier result stays until the new one is complete.
    const again = shown?.words === words && shown.tree === tree;
    let told = Number.NEGATIVE_INFINITY;
    slices = inSlices(
      () => walk.advance(AT_ONCE),
      (whole) => {
        const now = performance.now();
        if (!whole && (again || now < told + TOLD_MS)) return;
        told = now;
        shown = whole ? { words, tree } : undefined;
        const [ids, rows] = whole ? [walk.ids, walk.rows] : [walk.ids.slice(), walk.rows.slice()];
        setResult({ ids, rows, problems: problemsOf(words, whole && ids.length === 0), whole });
      },
    );
    onCleanup(slices.stop);
  });
  const ids = createMemo((before: ReadonlySet<number> | undefined) => {
    const hits = result();
    return hits === undefined ? undefined : hits.whole ? new Set(hits.ids) : before;
  });
  const order = (): readonly number[] => result()?.ids ?? [];
  const selected = (): number => {
    const item = store.selection();
    return item?.kind === "node" ? order().indexOf(item.id) : -1;
  };
  /** The search text of the last call of `next`. */
  const [walked, setWalked] = createSignal("");
  return {
    result,
    ids,
    place: () => selected() + 1,
    next(direction) {
      slices?.finish();
      const ids = order();
      if (ids.length === 0) return undefined;
      const text = ui.search().trim();
      const begins = walked() !== text;
      setWalked(text);
      const exact = begins ? ids.find((id) => graph()?.nodes[id]?.name === text) : undefined;
      if (exact !== undefined) return exact;
      const from = selected();
      if (from < 0) return ids[direction > 0 ? 0 : ids.length - 1];
      return ids[(from + direction + ids.length) % ids.length];
    },
  };
}
