/**
 * The first picture of a graph: which scopes are open in it.
 *
 * A guess from the outline applies until the layout has chosen, because only the layout knows the
 * size of the window. The layout may choose again as the graph grows, until the user folds or opens
 * a scope.
 *
 * Invariant: after `end`, no scope opens or folds by itself, except around a stop.
 */

import { type Accessor, createSignal } from "solid-js";
import { firstOpen, type Tree } from "@/store/run/tree";

const GUESSED_ROWS = 48;
/** The outline waits at most this long for the picture, plus a time for each node. */
const LONGEST_WAIT_MS = 1500;
const WAIT_PER_NODE_MS = 0.05;

/**
 * Whether there is a picture, or nothing to draw. Requests for which the server reads the whole
 * recording wait until then.
 */
export function pictured(store: {
  readonly first: FirstPicture;
  model(): { readonly graph: { readonly count: number } } | undefined;
}): boolean {
  return store.first.there() || store.model()?.graph.count === 0;
}

export class FirstPicture {
  /** Whether the layout may choose. */
  readonly choosing: Accessor<boolean>;
  /** Whether there is a picture. */
  readonly there: Accessor<boolean>;
  private readonly setChoosing: (choosing: boolean) => void;
  private readonly setThere: (there: boolean) => void;
  private begun = false;

  /** `open` opens scopes, in addition to the open ones or instead of them. */
  constructor(
    given: boolean,
    private readonly open: (paths: ReadonlySet<string>, instead: boolean) => void,
  ) {
    const [choosing, setChoosing] = createSignal(!given);
    const [there, setThere] = createSignal(given);
    this.choosing = choosing;
    this.there = there;
    this.setChoosing = setChoosing;
    this.setThere = setThere;
  }

  /** Starts over because another run is shown. */
  again(): void {
    this.begun = false;
    this.setChoosing(true);
    this.setThere(false);
  }

  /** Opens a guess from the outline, once there is a graph. */
  begin(tree: Tree, count: number): void {
    if (this.begun || !this.choosing()) return;
    this.begun = true;
    const wait = LONGEST_WAIT_MS + WAIT_PER_NODE_MS * count;
    setTimeout(() => this.arrived(), wait);
    this.open(firstOpen(tree, GUESSED_ROWS), false);
  }

  /** Opens the scopes that the layout has chosen. */
  choose(paths: ReadonlySet<string>): void {
    if (this.choosing()) this.open(paths, true);
  }

  /** Called when a picture is drawn, or when the outline has waited long enough for one. */
  arrived(): void {
    if (this.begun) this.setThere(true);
  }

  /** Ends the choosing because the user has folded or opened a scope. */
  end(): void {
    this.setChoosing(false);
  }
}
