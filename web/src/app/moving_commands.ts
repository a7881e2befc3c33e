/**
 * Commands that move through the graph: matches of a search, traces, views, colours, and whether
 * zooming opens scopes.
 *
 * Invariant: each has a key, or a name in the palette.
 */

import type { CommandScope } from "@/app/commands";
import type { PageCommand } from "@/app/page_command";
import { COLOURINGS, coloured } from "@/views/graph/graph_pane";

export function movingCommands(page: CommandScope): readonly PageCommand[] {
  const { store, ui } = page;
  const selected = (): boolean => store.selection() !== undefined;
  const why = (): string => (selected() ? "" : "nothing is selected");
  const searched = (): boolean => ui.search().trim() !== "";
  const match = (title: string, keys: string, direction: 1 | -1): PageCommand => ({
    title,
    keys,
    group: "Graph",
    enabled: () =>
      searched()
        ? (page.searching.result()?.ids.length ?? 0) > 0
        : (page.tracing.shown()?.ids.size ?? 0) > 0,
    why: () => (searched() ? "nothing matches" : "nothing is searched or traced"),
    run: () => {
      const id = (searched() ? page.searching : page.tracing).next(direction);
      if (id !== undefined) page.go({ kind: "node", id });
    },
  });
  const trace = (
    title: string,
    keys: string,
    kind: "inputs" | "outputs",
    depth?: number,
  ): PageCommand => ({
    title,
    keys,
    group: "Graph",
    enabled: selected,
    why,
    run: () => page.tracing.trace(kind, depth),
  });
  const view = (title: string, keys: string, direction: "back" | "forward"): PageCommand => ({
    title,
    keys,
    group: "Graph",
    enabled: () => page.views.canGo()[direction],
    run: () => page.views.go(direction),
  });
  return [
    match("Go to the next match of the search, or node of the trace", "F3", 1),
    match("Go to the match or the node before", "⇧F3", -1),
    trace("Trace the inputs of the selection, each time one step further", "I", "inputs"),
    trace("Trace the outputs of the selection, each time one step further", "U", "outputs"),
    trace("Trace all inputs of the selection", "", "inputs", Number.POSITIVE_INFINITY),
    trace("Trace all outputs of the selection", "", "outputs", Number.POSITIVE_INFINITY),
    {
      title: "Mark one end of paths; at another node, show all paths between the two",
      keys: "J",
      group: "Graph",
      enabled: selected,
      why,
      run: () => page.tracing.join(),
    },
    {
      title: "Open scopes by zooming in on them, or no longer",
      keys: "",
      group: "Graph",
      enabled: () => true,
      run: () => {
        const opens = !page.preferences.zoomOpens();
        page.preferences.setZoomOpens(opens);
        store.notify(
          "ok",
          opens
            ? "Zooming in on a folded scope opens it; zooming out folds it again."
            : "Zooming opens and folds nothing.",
        );
      },
    },
    view("Back to the last view", "Alt ←", "back"),
    view("Forward to the next view", "Alt →", "forward"),
    {
      title: "Bookmarks: keep this view, or go to a kept one",
      keys: "V",
      group: "Graph",
      enabled: () => store.model() !== undefined,
      run: () => void ui.setBookmarks(!ui.bookmarks()),
    },
    ...COLOURINGS.filter(({ id }) => id !== "file").map(
      ({ id, title }): PageCommand => ({
        title: `Colour by ${id === "flops" ? title : title.toLowerCase()}`,
        keys: "",
        unlisted: true,
        group: "Graph",
        enabled: () => store.model() !== undefined && coloured(store, page.overlays, id),
        run: () => ui.setColourBy(id),
      }),
    ),
    {
      title: "Colour by numbers of a JSON file (node data)",
      keys: "",
      group: "Graph",
      enabled: () => store.model() !== undefined,
      run: () => {
        const field = document.createElement("input");
        field.type = "file";
        field.accept = ".json,application/json";
        field.onchange = () => {
          const file = field.files?.[0];
          void file?.text().then((text) => page.overlays.take(file.name, text));
        };
        field.click();
      },
    },
    {
      title: "End the trace",
      keys: "",
      group: "Graph",
      enabled: () => page.tracing.shown() !== undefined,
      run: () => page.tracing.end(),
    },
  ];
}
