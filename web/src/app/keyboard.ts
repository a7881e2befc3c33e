/**
 * The keyboard: keys of the command table, and arrows along the graph's edges.
 *
 * Invariant: a key typed into a field belongs to the field; function keys go to the debugger
 * wherever the focus is.
 */

import type { CommandScope } from "@/app/commands";
import type { PageCommand } from "@/app/page_command";
import { StepQueue } from "@/app/step_queue";
import { breakOff, opening } from "@/store/page/breaking_off";

const DIRECTIONS = {
  ArrowUp: "up",
  ArrowDown: "down",
  ArrowLeft: "left",
  ArrowRight: "right",
} as const;

const ARROWS: Readonly<Record<string, string>> = { ArrowLeft: "←", ArrowRight: "→" };

/** A key in the command table's notation: `⇧F11`, `Ctrl K`, `F`, `/`. */
export function keyName(
  event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey">,
): string {
  // Other keys with Alt have no command: they open the browser's menus or type other characters.
  if (event.altKey) return `Alt ${ARROWS[event.key] ?? ""}`;
  const single = event.key.length === 1;
  const key = single ? event.key.toUpperCase() : event.key;
  const control = event.ctrlKey || event.metaKey ? "Ctrl " : "";
  // For `?` and similar characters, Shift is part of the character.
  const shift = event.shiftKey && !single ? "⇧" : "";
  return `${control}${shift}${key}`;
}

export function listen(
  target: Window,
  commands: readonly PageCommand[],
  page: CommandScope,
): () => void {
  const byKey = new Map(
    commands.filter((command) => command.keys !== "").map((command) => [command.keys, command]),
  );
  const queue = new StepQueue(page.store);
  const onKey = (event: KeyboardEvent): void => {
    if (event.defaultPrevented) return;
    const name = keyName(event);
    const element = event.target instanceof HTMLElement ? event.target : undefined;
    const typing =
      element?.matches("input:not([type=range]):not([type=checkbox]), textarea, select") ?? false;
    const always = /F\d+$/.test(name) || name === "Ctrl K";
    if (typing && !always) {
      if (event.key === "Escape") element?.blur();
      return;
    }
    const command = byKey.get(name);
    if (command !== undefined) {
      // F5 and similar keys must never reach the browser, even if they have no effect now.
      event.preventDefault();
      page.store.board.commanded();
      if (queue.add(command, event.repeat)) return;
      queue.clear();
      if (command.enabled()) command.run();
      else if (command.why?.()) page.store.notify("info", `${command.title}: ${command.why()}.`);
      return;
    }
    if (event.altKey) return;
    if (event.key === "Escape" && closeOne(page)) return;
    if (element?.closest("[role=tablist], [role=separator], input") != null) return;
    if (event.ctrlKey || event.metaKey) return;
    graphKey(event, page);
  };
  target.addEventListener("keydown", onKey);
  return () => {
    target.removeEventListener("keydown", onKey);
    queue.dispose();
  };
}

/** Closes the topmost open overlay, or cancels a long operation; false if there is neither. */
function closeOne(page: CommandScope): boolean {
  const { store, ui, watches, tracing } = page;
  if (ui.overlay() !== "none") ui.setOverlay("none");
  else if (ui.editing()) ui.setEditing(false);
  else if (ui.adding()) ui.setAdding(false);
  else if (watches.gallery()) watches.setGallery(false);
  else if (ui.outlineOpen()) ui.setOutlineOpen(false);
  else if (ui.bookmarks()) ui.setBookmarks(false);
  else if (opening(store)) page.stopOpening();
  else if (breakOff(store, page.view())) return true;
  else if (tracing.shown() !== undefined) tracing.end();
  else return false;
  return true;
}

function graphKey(event: KeyboardEvent, page: CommandScope): void {
  const item = page.store.selection();
  const direction = DIRECTIONS[event.key as keyof typeof DIRECTIONS];
  if (direction !== undefined && item !== undefined) {
    const next = page.view()?.neighbour(item, direction);
    if (next !== undefined) page.go(next);
    event.preventDefault();
  } else if (
    event.key === "Enter" &&
    item?.kind === "scope" &&
    !(event.target instanceof HTMLButtonElement)
  ) {
    page.store.toggleScope(item.path);
    event.preventDefault();
  } else if (event.key === "+" || event.key === "=") {
    page.view()?.zoomBy(1.25);
  } else if (event.key === "-") {
    page.view()?.zoomBy(0.8);
  }
}
