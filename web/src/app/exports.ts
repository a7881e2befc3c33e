/**
 * Exports: the files that the page saves, and the commands that do so.
 *
 * Invariant: SVG comes from the canvas itself; the server makes all other formats, as
 * `nodescope export` does.
 */

import type { PageCommand } from "@/app/page_command";
import type { Preferences } from "@/store/page/preferences";
import type { Store } from "@/store/page/store";
import { getFile } from "@/wire/rest";
import { inWords } from "@/wire/socket";

interface ExportFormat {
  readonly id: string;
  readonly suffix: string;
  readonly title: string;
}

export const EXPORT_FORMATS: readonly ExportFormat[] = [
  { id: "png", suffix: ".png", title: "PNG" },
  { id: "pdf", suffix: ".pdf", title: "PDF" },
  { id: "html", suffix: ".html", title: "HTML" },
  { id: "dot", suffix: ".dot", title: "DOT for Graphviz" },
  { id: "mermaid", suffix: ".mmd", title: "Mermaid" },
  { id: "model-explorer", suffix: ".json", title: "JSON for Model Explorer" },
  { id: "perfetto", suffix: ".trace.json", title: "trace for Perfetto and Chrome" },
  { id: "csv", suffix: ".csv", title: "CSV table" },
];

/** Beyond this, the address would be longer than servers take. */
const MOST_OPEN = 400;

export interface ExportCommand extends PageCommand {
  readonly id: string;
  /** The label in the export menu. */
  readonly label: string;
}

/** A command for each format. */
export function exportCommands(page: {
  readonly store: Store;
  readonly preferences: Preferences;
  exportSvg(what: "screen" | "whole"): Promise<void>;
}): readonly ExportCommand[] {
  const svg = (what: "screen" | "whole", graph: string): ExportCommand => ({
    id: what === "screen" ? "svg" : "svg-whole",
    label: `SVG of the ${graph} graph`,
    title: `Export the ${graph} graph as SVG`,
    keys: "",
    group: "Page",
    enabled: () => true,
    run: () => void page.exportSvg(what),
  });
  const others = EXPORT_FORMATS.map(
    (format): ExportCommand => ({
      id: format.id,
      label: format.title.slice(0, 1).toUpperCase() + format.title.slice(1),
      title: `Export as ${format.title}`,
      keys: "",
      group: "Page",
      enabled: () => page.store.runId() !== undefined,
      run: () => void exported(page.store, page.preferences, format),
    }),
  );
  return [svg("screen", "visible"), svg("whole", "whole"), ...others];
}

async function exported(
  store: Store,
  preferences: Preferences,
  format: ExportFormat,
): Promise<void> {
  const run = store.runId();
  if (run === undefined) return;
  const name = `${fileName(store)}${format.suffix}`;
  store.notify("info", `${name} is being made…`);
  try {
    save(name, await getFile(`runs/${run}/export/${format.id}`, exportQuery(store, preferences)));
    store.notify("ok", `${name} saved.`);
  } catch (error) {
    store.notify("error", inWords(error));
  }
}

/** What the page shows: its theme, its open scopes and, for a past moment, the step. */
export function exportQuery(
  store: Store,
  preferences: Preferences,
): Readonly<Record<string, string | readonly string[]>> {
  const repeats = store.tree()?.repeats.byPath;
  const open = [...store.folds().open].map((path) => repeats?.get(path)?.first ?? path);
  return {
    theme: preferences.theme(),
    ...(open.length > MOST_OPEN ? { expand: "fit" } : { expand: "listed", open }),
    ...(store.cursor().kind === "past" ? { step: String(store.step()) } : {}),
  };
}

/** The name of a file about the run, without its ending. */
export function fileName(store: Store): string {
  return (store.model()?.info.name ?? "graph").replace(/\.py$/, "");
}

/** Saves a file, as a download. */
export function save(name: string, content: Blob): void {
  const address = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // Once begun, the download holds the blob itself.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
