/**
 * A command of the page: what the palette, the keyboard and the menus run.
 */

export interface PageCommand {
  readonly title: string;
  /** In display form: `F5`, `⇧F11`, `Ctrl K`; "" = none. */
  readonly keys: string;
  readonly group: "Debugger" | "Graph" | "Page";
  /** Whether the list of commands leaves it out. */
  readonly unlisted?: boolean;
  enabled(): boolean;
  /** Why it is unavailable now, where that is not obvious. */
  why?(): string;
  /** Whether a press of its key while it is unavailable counts for the next stop. */
  later?(): boolean;
  run(): void;
}
