/** Exports: each format is a command, and the server gets what the page shows. */

import { createRoot } from "solid-js";
import { expect, test } from "vitest";
import { EXPORT_FORMATS, exportCommands, exportQuery } from "@/app/exports";
import { createPreferences } from "@/store/page/preferences";
import { Store } from "@/store/page/store";

test("each format has a command, which needs a run", () => {
  createRoot((dispose) => {
    const page = {
      store: new Store(),
      preferences: createPreferences(undefined, true),
      exportSvg: () => Promise.resolve(),
    };
    // The picture on the screen is saved as it is, even without a run.
    const [visible, whole, ...commands] = exportCommands(page);
    expect([visible?.id, whole?.id]).toEqual(["svg", "svg-whole"]);
    expect(commands.map((command) => command.title)).toContain("Export as Mermaid");
    expect(new Set(commands.map((command) => command.title)).size).toBe(EXPORT_FORMATS.length);
    expect(commands.every((command) => !command.enabled())).toBe(true);
    dispose();
  });
});

test("the open scopes are sent if they fit into an address", () => {
  createRoot((dispose) => {
    const store = new Store();
    const preferences = createPreferences(undefined, true);
    store.setOpen(new Set(["net", "net/layer"]));
    expect(exportQuery(store, preferences)).toMatchObject({
      expand: "listed",
      open: ["net", "net/layer"],
      theme: preferences.theme(),
    });
    store.setOpen(new Set(Array.from({ length: 500 }, (_, place) => `s${place}`)));
    expect(exportQuery(store, preferences)).toMatchObject({ expand: "fit" });
    dispose();
  });
});
