/**
 * The button that exports: a menu of the formats.
 *
 * Invariant: works by keyboard as by pointer: arrows, Enter, Escape; letters typed here do not
 * trigger the page's commands.
 */

import { createSignal, For, type JSX, onCleanup, onMount, Show } from "solid-js";
import { takeFocus } from "@/widgets/focus";
import { IconButton } from "@/widgets/icon";

/** One format. */
export interface ExportEntry {
  readonly id: string;
  readonly label: string;
  enabled(): boolean;
  run(): void;
}

export function ExportMenu(props: { readonly entries: readonly ExportEntry[] }): JSX.Element {
  const [open, setOpen] = createSignal(false);
  return (
    <span class="bookmarks-place">
      <IconButton
        icon="share"
        label="Export the graph"
        testid="export"
        onClick={() => setOpen(!open())}
      />
      <Show when={open()}>
        <Menu entries={props.entries} onClose={() => setOpen(false)} />
      </Show>
    </span>
  );
}

function Menu(props: { readonly entries: readonly ExportEntry[]; onClose(): void }): JSX.Element {
  let box!: HTMLDivElement;
  takeFocus(() => box, "button");
  // A press on the button that opened the menu is ignored: the button itself closes the menu.
  const elsewhere = (target: EventTarget | null): boolean =>
    target instanceof Node && !(box.parentElement ?? box).contains(target);
  onMount(() => {
    const press = (event: PointerEvent): void => {
      if (elsewhere(event.target)) props.onClose();
    };
    document.addEventListener("pointerdown", press);
    onCleanup(() => document.removeEventListener("pointerdown", press));
  });
  const keys = (event: KeyboardEvent): void => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const rows = [...box.querySelectorAll<HTMLElement>("button:not(:disabled)")];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    if (event.key === "Escape") props.onClose();
    else if (event.key === "ArrowDown") rows[(at + 1) % rows.length]?.focus();
    else if (event.key === "ArrowUp") rows.at(Math.max(at, 0) - 1)?.focus();
    else if (event.key === "Home") rows[0]?.focus();
    else if (event.key === "End") rows.at(-1)?.focus();
    else {
      if (event.key.length === 1) event.stopPropagation();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="bookmarks export-menu"
      ref={box}
      role="menu"
      aria-label="Export the graph"
      data-testid="export-menu"
      onKeyDown={keys}
      onFocusOut={(event) => {
        if (elsewhere(event.relatedTarget)) props.onClose();
      }}
    >
      <For each={props.entries}>
        {(entry) => (
          <button
            type="button"
            role="menuitem"
            class="bookmark-go"
            data-testid={`export-${entry.id}`}
            disabled={!entry.enabled()}
            onClick={() => {
              props.onClose();
              entry.run();
            }}
          >
            {entry.label}
          </button>
        )}
      </For>
    </div>
  );
}
