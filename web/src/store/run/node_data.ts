/**
 * Numbers of nodes from a JSON file in Model Explorer's node-data format.
 *
 * Invariant: pure; only numbers, names and hexadecimal colours are taken from the file.
 */

import { parseHex } from "@/base/colour_scale";
import { plural } from "@/base/numbers";
import type { RunGraph } from "@/store/run/run_model";

export interface NodeData {
  /** By node id. */
  readonly values: ReadonlyMap<number, number>;
  /** Number of names in the file that are not nodes of the graph. */
  readonly unknown: number;
  /** The file's own colour for a number, if it has a rule for it. */
  readonly colour: ((value: number) => string | undefined) | undefined;
}

type Json = Readonly<Record<string, unknown>>;

/** The numbers in a file, or a message if there are none. */
export function readNodeData(text: string, graph: RunGraph): NodeData | string {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
  if (!isObject(file)) return OTHER;
  // Read all graphs of the file: names that are not nodes of this graph are skipped and counted.
  const graphs = [file, ...Object.values(file)].filter(isObject).filter((part) => {
    return isObject(part.results);
  });
  if (graphs.length === 0) return OTHER;
  const values = new Map<number, number>();
  let unknown = 0;
  for (const { results } of graphs) {
    for (const [name, result] of Object.entries(results as Json)) {
      const id = nodeNamed(graph, name);
      const value = numberOf(isObject(result) ? result.value : result);
      if (id === undefined) unknown += 1;
      else if (value !== undefined) values.set(id, value);
    }
  }
  if (values.size === 0) {
    return unknown > 0
      ? `None of its ${plural(unknown, "name")} is a node of this graph.`
      : "It has no numbers.";
  }
  return { values, unknown, colour: graphs.map(colourRule).find(Boolean) };
}

const OTHER = 'This is not node data, such as {"results": {"node name": {"value": 1.5}}}.';

function nodeNamed(graph: RunGraph, name: string): number | undefined {
  const known = graph.byName.get(name);
  if (known !== undefined || !/^#?\d{1,9}$/.test(name)) return known;
  const id = Number(name.replace("#", ""));
  return graph.nodes[id] === undefined ? undefined : id;
}

function numberOf(value: unknown): number | undefined {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The colour rule of a graph in the file: `thresholds` uses the first one not below the number,
 * `gradient` interpolates between its stops, from 0 to 1.
 */
function colourRule({ results, thresholds, gradient }: Json): NodeData["colour"] {
  const steps = coloursAt(thresholds, "value");
  if (steps.length > 0) return (value) => steps.find(({ at }) => value <= at)?.colour;
  const stops = coloursAt(gradient, "stop");
  if (stops.length < 2) return undefined;
  const numbers = Object.values(results as Json).flatMap(
    (result) => numberOf(isObject(result) ? result.value : result) ?? [],
  );
  const least = numbers.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const most = numbers.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  return (value) => between(stops, most > least ? (value - least) / (most - least) : 0);
}

interface ColourAt {
  readonly at: number;
  readonly colour: string;
}

function coloursAt(rows: unknown, key: "value" | "stop"): readonly ColourAt[] {
  if (!Array.isArray(rows)) return [];
  const read = rows.filter(isObject).flatMap((row): ColourAt[] => {
    const at = numberOf(row[key]);
    const colour = row.bgColor;
    const hex = typeof colour === "string" && /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.test(colour);
    return at !== undefined && hex ? [{ at, colour }] : [];
  });
  return read.sort((a, b) => a.at - b.at);
}

function between(stops: readonly ColourAt[], place: number): string | undefined {
  const upper = stops.findIndex(({ at }) => place <= at);
  const high = stops[upper < 0 ? stops.length - 1 : upper];
  const low = stops[Math.max(0, upper < 0 ? stops.length - 1 : upper - 1)];
  if (high === undefined || low === undefined) return undefined;
  const share = high.at > low.at ? (place - low.at) / (high.at - low.at) : 0;
  const [from, to] = [parseHex(low.colour), parseHex(high.colour)];
  const channel = (k: 0 | 1 | 2): string =>
    Math.round(from[k] + (to[k] - from[k]) * Math.min(1, Math.max(0, share)))
      .toString(16)
      .padStart(2, "0");
  return `#${channel(0)}${channel(1)}${channel(2)}`;
}
