/**
 * The matching nodes of a tree and their rows in the outline, found a few at a time.
 *
 * Invariant: matches are in the graph's order; a scope has a row once something in it matches.
 */

import { OutlineRow, type Row, type ScopeEntry, type Tree } from "@/store/run/tree";

interface Place {
  readonly scope: ScopeEntry;
  next: number;
}

export class MatchWalk {
  readonly ids: number[] = [];
  readonly rows: Row[] = [];
  /** From the root to the scope that the walk is in. */
  private readonly around: Place[];
  /** How many of these scopes are done with their rows, counting the root, which needs none. */
  private listed = 1;

  constructor(
    { root }: Tree,
    private readonly matches: (id: number) => boolean,
  ) {
    this.around = [{ scope: root, next: 0 }];
  }

  /** Looks at up to `count` more nodes; false once there are no more. */
  advance(count: number): boolean {
    const { around } = this;
    let left = count;
    while (left > 0) {
      const place = around.at(-1);
      if (place === undefined) return false;
      const entry = place.scope.children[place.next++];
      if (entry === undefined) {
        around.pop();
        this.listed = Math.min(this.listed, Math.max(1, around.length));
      } else if (entry.kind === "scope") around.push({ scope: entry, next: 0 });
      else {
        left--;
        if (!this.matches(entry.id)) continue;
        this.listScopes();
        this.ids.push(entry.id);
        this.rows.push(new OutlineRow(entry, around.length - 1, false));
      }
    }
    return true;
  }

  private listScopes(): void {
    for (const { scope } of this.around.slice(this.listed)) {
      this.rows.push(new OutlineRow(scope, this.listed - 1, true));
      this.listed++;
    }
  }
}
