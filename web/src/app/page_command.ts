/**
 * A command of the page: what the palette, the keyboard and the menus run.
 */

export interface PageCommand {
  readonly title: string;
  /** As written for people: `F5`, `⇧F11`, `Ctrl K`; "" = none. */
  readonly keys: string;
  readonly group: "Debugger" | "Graph" | "Page";
  enabled(): boolean;
  /** Why it can do nothing now, where that is not plain to see. */
  why?(): string;
  run(): void;
}
