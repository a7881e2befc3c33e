/**
 * The graph of a snapshot: from columns to nodes and values.
 *
 * Invariant: what many nodes have in common is one object for all of them: texts, attributes, lines
 * of the program, specs, empty lists.
 */

import { IdTable, MadeById } from "@/base/by_id";
import { numberList } from "@/base/number_list";
import { DecodeError, numbersIn } from "@/wire/decode";
import type {
  Lists,
  Node,
  NodeColumns,
  ProducedValue,
  Texts,
  ValueColumns,
} from "@/wire/types.gen";

const NONE: readonly never[] = [];

/** One entry for each row. */
type Column<T> = (row: number) => T;

function picked<T>(entries: readonly T[], places: Uint8Array, count: number): Column<T> {
  const place = numbersIn(places, "places", count);
  return (row) => {
    const entry = entries[place[row]!];
    if (entry === undefined) throw new DecodeError(`entry ${place[row]} of ${entries.length}`);
    return entry;
  };
}

function texts(column: Texts, count: number): Column<string> {
  return picked(column.texts, column.places, count);
}

/** To be read row by row, in order. */
function lists(column: Lists, count: number): Column<readonly number[]> {
  if (column.lengths.byteLength === 0) return () => NONE;
  const lengths = numbersIn(column.lengths, "lengths", count);
  let total = 0;
  for (const length of lengths) total += length;
  const items = numbersIn(column.items, "items", total);
  let at = 0;
  return (row) => {
    const length = lengths[row]!;
    if (length === 0) return NONE;
    at += length;
    return numberList(items, at - length, at);
  };
}

/** The definitions in order, and the seqs of these. */
export function nodesIn(columns: NodeColumns): {
  readonly nodes: readonly Node[];
  readonly seqs: ArrayLike<number>;
} {
  const { count } = columns;
  const numbers = (name: "id" | "seq" | "inside" | "forward") =>
    numbersIn(columns[name], name, count);
  const id = numbers("id");
  const inside = numbers("inside");
  const forward = numbers("forward");
  const name = texts(columns.name, count);
  const scope = texts(columns.scope, count);
  const kind = picked(columns.kinds, columns.kind, count);
  const attrs = picked(columns.attrs, columns.settings, count);
  const source = picked(columns.sources, columns.line, count);
  const inputs = lists(columns.inputs, count);
  const controlInputs = lists(columns.control_inputs, count);
  const outputs = lists(columns.outputs, count);
  const origin = lists(columns.origin, count);
  const writes = lists(columns.writes, count);
  const nodes: Node[] = [];
  for (let row = 0; row < count; row++) {
    const { op, family, phase, device, graph, role, dialect, native } = kind(row);
    const path = scope(row);
    nodes.push({
      id: id[row]!,
      name: inside[row] === 1 ? `${path}/${name(row)}` : name(row),
      op,
      family,
      inputs: inputs(row),
      control_inputs: controlInputs(row),
      outputs: outputs(row),
      attrs: attrs(row),
      scope: path,
      phase,
      device,
      source: source(row),
      origin: origin(row),
      forward: forward[row] === 0 ? null : forward[row]!,
      graph,
      role,
      dialect,
      native,
      writes: pairs(writes(row)),
    });
  }
  return { nodes, seqs: numbers("seq") };
}

function pairs(list: readonly number[]): Node["writes"] {
  if (list.length === 0) return NONE;
  return Array.from({ length: list.length / 2 }, (_, at) => [list[2 * at]!, list[2 * at + 1]!]);
}

/** Values by id. Args: nodes: Those that produce the values, in order. */
export function valuesIn(
  columns: ValueColumns,
  nodes: readonly Node[],
): ReadonlyMap<number, ProducedValue> {
  const { count } = columns;
  const id = numbersIn(columns.id, "id", count);
  const storage = numbersIn(columns.storage, "storage", count);
  const producer = numbersIn(columns.producer, "producer", count);
  const name = texts(columns.name, count);
  const spec = picked(columns.specs, columns.spec, count);
  const usual = usualNames(nodes);
  return new MadeById(id, (row) => ({
    value: {
      id: id[row]!,
      spec: spec(row),
      name: name(row) || usual(id[row]!),
      storage: storage[row]!,
    },
    producer: producer[row] === 0 ? null : producer[row]!,
  }));
}

function usualNames(nodes: readonly Node[]): (value: number) => string {
  const producers = new IdTable();
  nodes.forEach(({ outputs }, row) => {
    for (const value of outputs) producers.set(value, row);
  });
  return (value) => {
    const node = nodes[producers.get(value) ?? -1];
    const port = node?.outputs.lastIndexOf(value);
    return node === undefined ? "" : port === 0 ? node.name : `${node.name}:${port}`;
  };
}
