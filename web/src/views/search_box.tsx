/**
 * The search over the outline, which dims on the canvas what does not match.
 *
 * Invariant: searching selects nothing; Enter does, the first match.
 */

import { createMemo, type JSX, Show } from "solid-js";
import { formatCount } from "@/base/numbers";
import type { Store } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import { firstMatch, parseQuery, search } from "@/store/run/tree";
import { Icon } from "@/widgets/icon";

export function SearchBox(props: {
  readonly store: Store;
  readonly ui: Ui;
  go(item: Item): void;
  ref(field: HTMLInputElement): void;
}): JSX.Element {
  const count = createMemo(() => {
    const query = parseQuery(props.ui.search());
    const graph = props.store.model()?.graph;
    if (query === undefined || graph === undefined) return undefined;
    return search(graph, props.store.shown(), query);
  });
  /** Where the focus was before. */
  let before: HTMLElement | undefined;
  const keys = (event: KeyboardEvent & { currentTarget: HTMLInputElement }): void => {
    const field = event.currentTarget;
    if (event.key === "Escape" && props.ui.search() !== "") {
      props.ui.setSearch("");
      event.stopPropagation();
    } else if (event.key === "Escape") {
      field.blur();
      if (before?.isConnected) before.focus({ preventScroll: true });
      event.stopPropagation();
    } else if (event.key === "Enter") {
      const graph = props.store.model()?.graph;
      const id = graph && firstMatch(graph, count() ?? new Set(), props.ui.search());
      if (id === undefined) return;
      event.preventDefault();
      props.go({ kind: "node", id });
      // From here on, the arrow keys walk through the tree.
      const outline = document.querySelector<HTMLElement>('[data-testid="outline"]');
      if (outline === null) field.blur();
      else outline.focus({ preventScroll: true });
    }
  };
  return (
    <div class="search">
      <Icon name="search" size={13} />
      <input
        ref={props.ref}
        data-testid="search"
        value={props.ui.search()}
        spellcheck={false}
        placeholder="name or op:matmul"
        title="Part of a name, op:matmul, family:loss, scope:, phase:, nan:true. Enter goes there"
        aria-label="Search the outline"
        onInput={(event) => props.ui.setSearch(event.currentTarget.value)}
        onKeyDown={keys}
        onFocus={(event) => {
          const from = event.relatedTarget;
          before = from instanceof HTMLElement ? from : undefined;
        }}
      />
      <Show when={count()} fallback={<kbd>/</kbd>}>
        {(now) => <span class="mi t3">{formatCount(now().size)}</span>}
      </Show>
    </div>
  );
}
