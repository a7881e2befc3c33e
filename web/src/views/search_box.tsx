/**
 * The search field above the outline; the canvas dims nodes that do not match.
 *
 * Invariant: typing selects nothing; Enter selects one match after the other.
 */

import { createSignal, For, type JSX, Show } from "solid-js";
import { formatCount } from "@/base/numbers";
import type { Searching } from "@/store/page/searching";
import type { Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import { SEARCH_WORDS } from "@/store/run/search";
import { Icon } from "@/widgets/icon";

export function SearchBox(props: {
  readonly ui: Ui;
  readonly searching: Searching;
  go(item: Item): void;
  ref(field: HTMLInputElement): void;
}): JSX.Element {
  let field!: HTMLInputElement;
  /** The element that had the focus before the field. */
  let before: HTMLElement | undefined;
  const [focused, setFocused] = createSignal(false);
  const problems = () => props.searching.result()?.problems ?? [];
  const count = () => {
    const matches = props.searching.result()?.ids.length ?? 0;
    const place = props.searching.place();
    return place > 0 ? `${formatCount(place)} / ${formatCount(matches)}` : formatCount(matches);
  };
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "Escape" && props.ui.search() !== "") {
      props.ui.setSearch("");
      event.stopPropagation();
    } else if (event.key === "Escape") {
      field.blur();
      if (before?.isConnected) before.focus({ preventScroll: true });
      event.stopPropagation();
    } else if (event.key === "Enter") {
      const id = props.searching.next(event.shiftKey ? -1 : 1);
      if (id === undefined) return;
      event.preventDefault();
      props.go({ kind: "node", id });
    } else if (event.key === "ArrowDown") {
      // From here on, the arrow keys walk through the tree.
      event.preventDefault();
      document.querySelector<HTMLElement>('[data-testid="outline"]')?.focus({
        preventScroll: true,
      });
    }
  };
  const insert = (word: string): void => {
    props.ui.setSearch(word);
    field.focus();
  };
  return (
    <div class="search-area">
      <div class="search" classList={{ wrong: problems().length > 0 }}>
        <Icon name="search" size={13} />
        <input
          ref={(made) => {
            field = made;
            props.ref(made);
          }}
          data-testid="search"
          value={props.ui.search()}
          spellcheck={false}
          placeholder="name or op:matmul"
          title="Enter: next match; ⇧Enter: previous match; ↓: into the outline"
          aria-label="Search the outline"
          aria-invalid={problems().length > 0}
          aria-describedby="search-said"
          onInput={(event) => props.ui.setSearch(event.currentTarget.value)}
          onKeyDown={keys}
          onFocus={(event) => {
            setFocused(true);
            const from = event.relatedTarget;
            before = from instanceof HTMLElement ? from : undefined;
          }}
          onBlur={() => setFocused(false)}
        />
        <Show when={props.searching.result()} fallback={<kbd>/</kbd>}>
          <span class="mi t3" data-testid="search-count" role="status">
            {count()}
          </span>
        </Show>
      </div>
      <Show when={problems().length > 0}>
        <div class="search-wrong" id="search-said" role="alert" data-testid="search-error">
          <For each={problems()}>{(problem) => <div>{problem}</div>}</For>
        </div>
      </Show>
      <Show when={focused() && props.ui.search() === ""}>
        <div class="search-words" data-testid="search-words">
          <For each={SEARCH_WORDS}>
            {(entry) => (
              <button
                type="button"
                tabindex={-1}
                title={entry.example}
                // The field keeps the focus.
                onPointerDown={(event) => event.preventDefault()}
                onClick={() => insert(entry.word)}
              >
                <span class="mi">{entry.word}</span>
                <span class="t3 ell">{entry.finds}</span>
              </button>
            )}
          </For>
        </div>
      </Show>
    </div>
  );
}
