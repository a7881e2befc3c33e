/**
 * The bookmarks of a program: a list to which the view shown is added, and whose views are shown.
 *
 * Invariant: everything in it has a key; digits go to a view only while no name is being typed.
 */

import { For, type JSX, onCleanup, onMount, Show } from "solid-js";
import type { Views } from "@/store/page/views";
import { takeFocus } from "@/widgets/focus";
import { IconButton } from "@/widgets/icon";

export function Bookmarks(props: { readonly views: Views; onClose(): void }): JSX.Element {
  let box!: HTMLDivElement;
  let field!: HTMLInputElement;
  takeFocus(() => box);
  // A press on the button that opened the list is ignored: the button itself closes the list.
  const elsewhere = (target: EventTarget | null): boolean =>
    target instanceof Node && !(box.parentElement ?? box).contains(target);
  onMount(() => {
    const press = (event: PointerEvent): void => {
      if (elsewhere(event.target)) props.onClose();
    };
    document.addEventListener("pointerdown", press);
    onCleanup(() => document.removeEventListener("pointerdown", press));
  });
  const show = (index: number): void => {
    if (props.views.bookmarks()[index] === undefined) return;
    props.onClose();
    props.views.show(index);
  };
  const rows = () => [...box.querySelectorAll<HTMLElement>(".bookmark-go")];
  const keys = (event: KeyboardEvent): void => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const digit = /^[1-9]$/.test(event.key) && field.value === "";
    const at = rows().indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") props.onClose();
    else if (digit) show(Number(event.key) - 1);
    else if (event.key === "Enter" && at < 0) {
      props.views.keep(field.value);
      field.value = "";
    } else if (event.key === "ArrowDown") rows()[at + 1]?.focus();
    else if (event.key === "ArrowUp") (at > 0 ? rows()[at - 1] : field)?.focus();
    else if (event.key === "Delete" && at >= 0) {
      props.views.drop(at);
      (rows()[Math.min(at, rows().length - 1)] ?? field).focus();
    } else {
      // Letters typed here do not trigger the page's commands; Tab and Enter on buttons still work.
      if (event.key.length === 1) event.stopPropagation();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="bookmarks"
      ref={box}
      role="dialog"
      aria-label="Bookmarks of views"
      data-testid="bookmarks"
      onKeyDown={keys}
      onFocusOut={(event) => {
        if (elsewhere(event.relatedTarget)) props.onClose();
      }}
    >
      <div class="bookmark-new">
        <input
          ref={field}
          data-testid="bookmark-name"
          placeholder={props.views.suggested()}
          aria-label="Name of the view; Enter keeps it"
          maxlength={80}
          spellcheck={false}
        />
        <button
          type="button"
          class="btn"
          onClick={() => {
            props.views.keep(field.value);
            field.value = "";
            field.focus();
          }}
        >
          Keep view
        </button>
      </div>
      <Show
        when={props.views.bookmarks().length > 0}
        fallback={
          <p class="empty">No views yet. A view keeps selection, open scopes and camera.</p>
        }
      >
        <ol class="bookmark-list">
          <For each={props.views.bookmarks()}>
            {(bookmark, index) => (
              <li>
                <button
                  type="button"
                  class="bookmark-go"
                  data-testid="bookmark"
                  title={bookmark.name}
                  onClick={() => show(index())}
                >
                  <kbd classList={{ none: index() > 8 }}>{index() < 9 ? index() + 1 : ""}</kbd>
                  <span class="ell">{bookmark.name}</span>
                </button>
                <IconButton
                  small
                  icon="close"
                  label={`Remove ${bookmark.name} (Delete)`}
                  onClick={() => {
                    props.views.drop(index());
                    field.focus();
                  }}
                />
              </li>
            )}
          </For>
        </ol>
      </Show>
    </div>
  );
}
