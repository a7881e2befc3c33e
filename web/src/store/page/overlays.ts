/**
 * The number overlays that colour the graph: those of `overlays/`, or the numbers of a file.
 *
 * Invariant: statistics are requested only while they are shown, and belong to the moment shown.
 */

import { type Accessor, createEffect, createMemo, createSignal, on } from "solid-js";
import { plural } from "@/base/numbers";
import { fileOverlay } from "@/store/overlays/file";
import { OVERLAYS } from "@/store/overlays/kinds";
import { joined, NO_ROWS, type NumberOverlay, rowsOf } from "@/store/overlays/overlay";
import { answered, createQuery, failureOf } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import { momentShown } from "@/store/run/cursor";
import { type NodeData, readNodeData } from "@/store/run/node_data";

export interface Overlays {
  /** The overlay that colours the graph; undefined while the graph is coloured otherwise. */
  readonly shown: Accessor<NumberOverlay | undefined>;
  /** The name of the file whose numbers are loaded. */
  readonly file: Accessor<string | undefined>;
  /** Reads the numbers of a file and shows them; reports what is wrong with the file. */
  take(name: string, text: string): void;
  /** The number of an item in the overlay shown. */
  of(item: Item | undefined): number | undefined;
}

const REFRESH_MS = 1000;
const MOST_FILE_BYTES = 64 << 20;

export function createOverlays(store: Store, ui: Ui): Overlays {
  const beat = throttled(store.tick, REFRESH_MS);
  const [file, setFile] = createSignal<{ name: string; data: NodeData } | undefined>();
  createEffect(on(store.runId, () => setFile(undefined), { defer: true }));
  const kind = () => OVERLAYS.get(ui.colourBy());
  const answer = createQuery(
    store,
    "statistics",
    () => {
      const run = store.runId();
      if (run === undefined || store.model() === undefined || kind()?.asks !== true) return;
      return { type: "get_statistics", run, seq: momentShown(store) };
    },
    () => kind()?.asks === true && beat(),
  );
  const shown = createMemo((): NumberOverlay | undefined => {
    const own = file();
    if (ui.colourBy() === "file") return own && fileOverlay(own.name, own.data);
    const model = store.model();
    const chosen = kind();
    if (chosen === undefined || model === undefined) return undefined;
    const moment = { model, columns: store.shown(), seq: store.seq() ?? undefined };
    if (!chosen.asks) {
      beat();
      return chosen.make({ ...moment, rows: NO_ROWS, note: "" });
    }
    const statistics = answered(answer());
    const note = failureOf(answer()) ?? "Reading statistics…";
    return chosen.make(
      statistics === undefined
        ? { ...moment, rows: NO_ROWS, note }
        : { ...moment, rows: rowsOf(statistics), note: "" },
    );
  });
  return {
    shown,
    file: () => file()?.name,
    take(name, text) {
      const graph = store.model()?.graph;
      if (graph === undefined) return store.notify("info", "Open a run first.");
      const data = text.length > MOST_FILE_BYTES ? "It is too large." : readNodeData(text, graph);
      if (typeof data === "string") return store.notify("error", `${name}: ${data}`);
      setFile({ name, data });
      ui.setColourBy("file");
      const unknown = data.unknown > 0 ? `; ${plural(data.unknown, "name")} not in this graph` : "";
      store.notify("ok", `${name}: numbers of ${plural(data.values.size, "node")}${unknown}.`);
    },
    of(item) {
      const numbers = shown()?.numbers;
      if (item === undefined || numbers === undefined) return undefined;
      if (item.kind === "node") return numbers.values.get(item.id);
      return joined(numbers, store.tree()?.scopes.get(item.path)?.members ?? []);
    },
  };
}
