/**
 * The subject of the page: the selected item, and the pinned one that the inspector keeps.
 *
 * Everything that concerns "this" uses `subjectOf`: the inspector's head and all of its tabs,
 * *Why*, the value being compared, editing. The canvas and the commands that steer the program
 * (breakpoints, run to) use the selection.
 *
 * Invariant: pure. A selection by the user survives moving through training steps, and is restored
 * when the page returns to the stop or the end.
 */

import type { Item } from "@/store/page/url";

export interface Focus {
  readonly selection: Item | undefined;
  readonly pinned: Item | undefined;
  /** Whether the user made the selection, rather than a stop or a move. */
  readonly chosen: boolean;
  /** The selection at the start of a move that changed it; undefined if none did. */
  readonly home: { readonly item: Item | undefined; readonly chosen: boolean } | undefined;
}

export type FocusAct =
  /** The user selected an item: by a click, an arrow key, a search, the next NaN. */
  | { readonly type: "select"; readonly item: Item | undefined }
  /** The program stopped there. */
  | { readonly type: "stopped"; readonly item: Item | undefined }
  /** The page moved within the recording: to a node, or only to another training step. */
  | { readonly type: "moved"; readonly item: Item; readonly by: "node" | "step" }
  /** The page returned to the stop, or to the end of the run. */
  | { readonly type: "live" }
  | { readonly type: "pin" | "unpin" | "reset" };

export const NO_FOCUS: Focus = {
  selection: undefined,
  pinned: undefined,
  chosen: false,
  home: undefined,
};

/** The item that the inspector shows, which is also the subject of queries. */
export function subjectOf(focus: Focus): Item | undefined {
  return focus.pinned ?? focus.selection;
}

export function focusAfter(focus: Focus, act: FocusAct): Focus {
  switch (act.type) {
    case "select":
      return { ...focus, selection: act.item, chosen: act.item !== undefined };
    case "stopped":
      return { ...focus, selection: act.item, chosen: false, home: undefined };
    case "moved":
      if (act.by === "step" && focus.chosen) return focus;
      return {
        ...focus,
        selection: act.item,
        chosen: false,
        home: focus.home ?? { item: focus.selection, chosen: focus.chosen },
      };
    case "live":
      if (focus.home === undefined) return focus;
      // A selection that the user has made since then replaces the one before the move.
      return focus.chosen
        ? { ...focus, home: undefined }
        : { ...focus, selection: focus.home.item, chosen: focus.home.chosen, home: undefined };
    case "pin":
      return { ...focus, pinned: subjectOf(focus) };
    case "unpin":
      return { ...focus, pinned: undefined };
    case "reset":
      return NO_FOCUS;
  }
}
