/**
 * The search of the page: what matches at the moment shown, and the walk from match to match.
 *
 * Invariant: searched once for outline, graph and field alike; searching selects nothing.
 */

import { type Accessor, createMemo, createSignal } from "solid-js";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { Ui } from "@/store/page/ui";
import { graphWith } from "@/store/run/past_values";
import { seenStep } from "@/store/run/run_model";
import { graphOrder, parseQuery, type SearchResult, search } from "@/store/run/search";

export interface Searching {
  /** Undefined while nothing is searched. */
  readonly result: Accessor<SearchResult | undefined>;
  /** The place of the selected node among the matches, from 1; 0 if it is none of them. */
  readonly place: Accessor<number>;
  /** The match after the last one gone to, or before it, in the graph's order; around the end. */
  next(direction: 1 | -1): number | undefined;
}

const BEAT_MS = 200;

export function createSearching(store: Store, ui: Ui): Searching {
  const beat = throttled(store.tick, BEAT_MS);
  const query = createMemo(() => parseQuery(ui.search()));
  const graph = createMemo(() => {
    const graph = store.model()?.graph;
    const past = store.cursor().kind === "past";
    return graph !== undefined && past ? graphWith(graph, store.pastValues()) : graph;
  });
  const result = createMemo((): SearchResult | undefined => {
    const [words, all] = [query(), graph()];
    if (words === undefined || all === undefined) return undefined;
    if (words.live) beat();
    return search(words, { graph: all, columns: store.shown(), step: seenStep(store) });
  });
  const order = createMemo((): readonly number[] => {
    const [found, tree] = [result(), store.tree()];
    if (found === undefined || tree === undefined) return [];
    return graphOrder(tree).filter((id) => found.ids.has(id));
  });
  const selected = (): number => {
    const item = store.selection();
    return item?.kind === "node" ? order().indexOf(item.id) : -1;
  };
  /** The search in which a match was last gone to. */
  const [walked, setWalked] = createSignal("");
  return {
    result,
    place: () => selected() + 1,
    next(direction) {
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
