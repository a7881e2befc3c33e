/**
 * What the page is about: the selected item, and the pinned one that the inspector keeps.
 *
 * Everything that shows or asks about "this" goes by `subjectOf`: the inspector's head and all of
 * its tabs, *Why*, what a moment is compared on, editing. The canvas and what steers the program
 * (breakpoints, run to) go by the selection.
 *
 * Invariant: pure. What was selected by hand is not taken away by moving through training steps,
 * and is back once the page is back where it left.
 */

import type { Item } from "@/store/page/url";

export interface Focus {
  readonly selection: Item | undefined;
  readonly pinned: Item | undefined;
  /** Whether the selection was made by hand, and not by a stop or a move. */
  readonly chosen: boolean;
  /** What was selected where a move began that changed it; undefined if none did. */
  readonly home: { readonly item: Item | undefined; readonly chosen: boolean } | undefined;
}

export type FocusAct =
  /** By hand: a click, an arrow, a search, the next NaN. */
  | { readonly type: "select"; readonly item: Item | undefined }
  /** The program stopped there. */
  | { readonly type: "stopped"; readonly item: Item | undefined }
  /** The page went there in the recording: to a node, or only to another training step. */
  | { readonly type: "moved"; readonly item: Item; readonly by: "node" | "step" }
  /** Back to where the program stands, or to the end. */
  | { readonly type: "live" }
  | { readonly type: "pin" | "unpin" | "reset" };

export const NO_FOCUS: Focus = {
  selection: undefined,
  pinned: undefined,
  chosen: false,
  home: undefined,
};

/** What the inspector shows, and what is asked about. */
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
      // What was chosen by hand since is newer than what was left.
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
