/**
 * The first picture of a graph: which scopes are open in it.
 *
 * A guess from the outline is taken until the layout has chosen: it knows the window. Whoever folds
 * or opens a scope by hand ends this.
 *
 * Invariant: after `there` no scope opens or folds by itself, except around a stop.
 */

import { type Accessor, createSignal } from "solid-js";
import { firstOpen, type Tree } from "@/store/run/tree";

const GUESSED_ROWS = 48;
/** The outline waits so long for the picture, and so much longer for each node. */
const LONGEST_WAIT_MS = 1500;
const WAIT_PER_NODE_MS = 0.05;

/**
 * Whether there is a picture, or nothing to draw: only then is the server asked for what reads
 * through the whole recording.
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

  /** `open` opens scopes: besides those that are open, or in their place. */
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

  /** Another run is shown. */
  again(): void {
    this.begun = false;
    this.setChoosing(true);
    this.setThere(false);
  }

  /** There is a graph: guess. */
  begin(tree: Tree, count: number): void {
    if (this.begun || !this.choosing()) return;
    this.begun = true;
    const wait = LONGEST_WAIT_MS + WAIT_PER_NODE_MS * count;
    setTimeout(() => this.arrived(), wait);
    this.open(firstOpen(tree, GUESSED_ROWS), false);
  }

  /** The layout has chosen. */
  choose(paths: ReadonlySet<string>): void {
    if (this.choosing()) this.open(paths, true);
  }

  /** A picture of a graph is drawn. */
  arrived(): void {
    if (this.begun) this.setThere(true);
  }

  /** Somebody has folded or opened a scope by hand. */
  end(): void {
    this.setChoosing(false);
  }
}
