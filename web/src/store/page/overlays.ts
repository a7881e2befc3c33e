/**
 * Numbers by which the graph is coloured beyond its own: zeros, gradients, those of a file.
 *
 * Invariant: statistics are asked for only while they are shown, and are of the moment shown.
 */

import { type Accessor, createEffect, createMemo, createSignal, on } from "solid-js";
import { formatNumber, plural } from "@/base/numbers";
import { answered, createQuery, failureOf } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { ColourMode, Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import { momentShown } from "@/store/run/cursor";
import { type NodeData, readNodeData } from "@/store/run/node_data";
import { gradientOf } from "@/store/run/run_model";
import { idsOf, numbersOf } from "@/wire/decode";
import type { Node, Statistics } from "@/wire/types.gen";

/** As the canvas takes them. */
export interface Numbers {
  readonly values: ReadonlyMap<number, number>;
  readonly weights?: ReadonlyMap<number, number> | undefined;
  readonly join: "mean" | "norm" | "largest";
  readonly least: number | undefined;
  readonly most: number;
  colour?: ((value: number) => string | undefined) | undefined;
}

export interface NumberOverlay {
  readonly title: string;
  readonly numbers: Numbers;
  /** How a folded scope has its number. */
  readonly folded: string;
  /** What is missing, or "". */
  readonly note: string;
  format(value: number): string;
}

export interface Overlays {
  /** While the graph is coloured by such numbers. */
  readonly shown: Accessor<NumberOverlay | undefined>;
  /** The name of the file whose numbers are there. */
  readonly file: Accessor<string | undefined>;
  /** Takes the numbers of a file, and shows them; what is wrong with it is said. */
  take(name: string, text: string): void;
  /** The number of an item in the overlay shown. */
  of(item: Item | undefined): number | undefined;
}

const ASKED: ReadonlySet<ColourMode> = new Set<ColourMode>(["zeros", "gradient"]);
const REFRESH_MS = 1000;
const MOST_FILE_BYTES = 64 << 20;

export function createOverlays(store: Store, ui: Ui): Overlays {
  const beat = throttled(store.tick, REFRESH_MS);
  const [file, setFile] = createSignal<{ name: string; data: NodeData } | undefined>();
  createEffect(on(store.runId, () => setFile(undefined), { defer: true }));
  const answer = createQuery(
    store,
    "statistics",
    () => {
      const run = store.runId();
      if (run === undefined || store.model() === undefined || !ASKED.has(ui.colourBy())) return;
      return { type: "get_statistics", run, seq: momentShown(store) };
    },
    () => ASKED.has(ui.colourBy()) && beat(),
  );
  const shown = createMemo((): NumberOverlay | undefined => {
    const mode = ui.colourBy();
    const own = file();
    if (mode === "file") return own && fileOverlay(own.name, own.data);
    const nodes = store.model()?.graph.nodes;
    if (!ASKED.has(mode) || nodes === undefined) return undefined;
    const statistics = answered(answer());
    if (statistics === undefined) {
      const note = failureOf(answer()) ?? "Reading statistics…";
      return mode === "zeros"
        ? zerosOverlay([], NO_ROWS, note)
        : gradientOverlay([], NO_ROWS, note);
    }
    const rows = rowsOf(statistics);
    if (mode === "zeros") return zerosOverlay(nodes, rows, "");
    const model = store.model();
    const seq = store.seq() ?? undefined;
    const of = (value: number) => model && gradientOf(model, value, seq);
    return gradientOverlay(nodes, rows, "", of);
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

interface StatisticsRow {
  readonly elements: number;
  readonly zeros: number;
  readonly norm: number;
}

type Rows = ReadonlyMap<number, StatisticsRow>;
const NO_ROWS: Rows = new Map();

function rowsOf({ count, values, elements, zeros, norms }: Statistics): Rows {
  const ids = idsOf(values, count);
  const columns = [elements, zeros, norms].map((column) => numbersOf(column, count));
  const rows = new Map<number, StatisticsRow>();
  ids.forEach((id, row) => {
    const [all = 0, none = 0, norm = Number.NaN] = columns.map((column) => column[row] ?? 0);
    rows.set(id, { elements: all, zeros: none, norm });
  });
  return rows;
}

function zerosOverlay(
  nodes: readonly (Node | undefined)[],
  rows: Rows,
  note: string,
): NumberOverlay {
  const values = new Map<number, number>();
  const weights = new Map<number, number>();
  for (const node of nodes) {
    const outputs = node?.outputs.flatMap((value) => rows.get(value) ?? []) ?? [];
    const elements = outputs.reduce((sum, row) => sum + row.elements, 0);
    if (node === undefined || elements === 0) continue;
    values.set(node.id, outputs.reduce((sum, row) => sum + row.zeros, 0) / elements);
    weights.set(node.id, elements);
  }
  return {
    title: "Zeros in the outputs",
    numbers: { values, weights, join: "mean", least: 0, most: 1 },
    folded: "of all elements in it",
    note: note || (values.size === 0 ? "No statistics are kept." : ""),
    format: (value) => `${formatNumber(100 * value, 3)} %`,
  };
}

function gradientOverlay(
  nodes: readonly (Node | undefined)[],
  rows: Rows,
  note: string,
  gradient: (value: number) => number | undefined = () => undefined,
): NumberOverlay {
  const values = new Map<number, number>();
  let most = 0;
  for (const node of nodes) {
    const norms = node?.outputs.flatMap((value) => rows.get(gradient(value) ?? -1)?.norm ?? []);
    if (node === undefined || norms === undefined || norms.length === 0) continue;
    const norm = Math.hypot(...norms);
    values.set(node.id, norm);
    if (norm > most) most = norm;
  }
  return {
    title: "Norm of the gradient",
    numbers: { values, join: "norm", least: undefined, most },
    folded: "of all gradients in it",
    note: note || (values.size === 0 ? "No gradient is known at this moment." : ""),
    format: (value) => formatNumber(value, 4),
  };
}

function fileOverlay(name: string, data: NodeData): NumberOverlay {
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  for (const value of data.values.values()) {
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  return {
    title: name,
    numbers: { values: data.values, join: "largest", least, most, colour: data.colour },
    folded: "the largest in it",
    note: data.unknown > 0 ? `${plural(data.unknown, "name")} not in this graph` : "",
    format: (value) => formatNumber(value, 4),
  };
}

/** The number of a scope, as the canvas joins it. */
function joined(
  { values, weights, join }: Numbers,
  members: readonly number[],
): number | undefined {
  let [sum, weight, largest] = [0, 0, Number.NEGATIVE_INFINITY];
  for (const id of members) {
    const value = values.get(id);
    if (value === undefined || Number.isNaN(value)) continue;
    const share = weights?.get(id) ?? 1;
    sum += join === "norm" ? value * value : value * share;
    weight += share;
    largest = Math.max(largest, value);
  }
  if (largest === Number.NEGATIVE_INFINITY) return undefined;
  if (join === "norm") return Math.sqrt(sum);
  return join === "mean" ? sum / weight : largest;
}
