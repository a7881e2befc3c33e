/**
 * The graph of a snapshot: from columns to nodes and values.
 *
 * Invariant: what many nodes have in common is one shared object: texts, attributes, source lines,
 * specs, empty lists.
 */

import { IdTable, MadeById } from "@/base/by_id";
import { numberList } from "@/base/number_list";
import { DecodeError, numbersIn } from "@/wire/decode";
import type {
  Lists,
  Node,
  NodeColumns,
  ProducedValue,
  Snapshot,
  Texts,
  ValueColumns,
} from "@/wire/types.gen";

const NONE: readonly never[] = [];
/** Lists of larger numbers are not shared: their table would have more gaps than entries. */
const LARGEST_SHARED = 1 << 24;

/** The entry of a row. */
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

/** Lists of one number, by that number: a node's only output is often another's only input. */
type Singles = (readonly number[] | undefined)[];

/** Every row must be read once, in order; equal lists of one number are one list. */
function lists(column: Lists, count: number, singles: Singles = []): Column<readonly number[]> {
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
    if (length > 1) return numberList(items, at - length, at);
    const only = items[at - 1]!;
    if (!Number.isInteger(only) || only >= LARGEST_SHARED) return [only];
    const known = singles[only] ?? [only];
    singles[only] = known;
    return known;
  };
}

/** The graph of a snapshot. */
export interface SnapshotGraph {
  readonly nodes: readonly Node[];
  readonly seqs: ArrayLike<number>;
  readonly values: ReadonlyMap<number, ProducedValue>;
}

/** An object that identifies these columns without keeping the other columns alive. */
export function identityOf({ kinds }: NodeColumns): object {
  return kinds;
}

/** Graphs made ahead and not taken yet, by their columns. */
const made = new WeakMap<NodeColumns, SnapshotGraph>();

/** Makes the graph of a snapshot before it is needed. */
export function makeAhead({ nodes, values }: GraphColumns): void {
  try {
    made.set(nodes, madeOf(nodes, values));
  } catch {
    // `graphIn` meets the same fault and throws it.
  }
}

export function graphIn({ nodes, values }: GraphColumns): SnapshotGraph {
  const known = made.get(nodes);
  made.delete(nodes);
  return known ?? madeOf(nodes, values);
}

type GraphColumns = Pick<Snapshot, "nodes" | "values">;

function madeOf(columns: NodeColumns, values: ValueColumns): SnapshotGraph {
  const { nodes, seqs } = nodesIn(columns);
  return { nodes, seqs, values: valuesIn(values, nodes) };
}

/** Conversions of what many rows share (kinds, names, attributes), made once for each. */
interface NodeForms<Kind, Name, Settings> {
  readonly kinds: readonly Kind[];
  name(text: string): Name;
  attrs(attrs: Node["attrs"]): Settings;
}

/** Readers of the columns that decide how a graph is drawn; lists must be read in order. */
export function drawnColumns<Kind, Name, Settings>(
  columns: NodeColumns,
  forms: NodeForms<Kind, Name, Settings>,
) {
  const { count } = columns;
  const id = numbersIn(columns.id, "id", count);
  const forward = numbersIn(columns.forward, "forward", count);
  const names = columns.name.texts.map((text) => forms.name(text));
  const singles: Singles = [];
  return {
    count,
    id: (row: number): number => id[row]!,
    /** The operation that the node differentiates; 0 = none. */
    forward: (row: number): number => forward[row]!,
    name: picked(names, columns.name.places, count),
    scope: texts(columns.scope, count),
    kind: picked(forms.kinds, columns.kind, count),
    attrs: picked(
      columns.attrs.map((attrs) => forms.attrs(attrs)),
      columns.settings,
      count,
    ),
    inputs: lists(columns.inputs, count, singles),
    controlInputs: lists(columns.control_inputs, count),
    outputs: lists(columns.outputs, count, singles),
  };
}

/** The nodes in the order of their definitions, and the seqs of the definitions. */
export function nodesIn(columns: NodeColumns): {
  readonly nodes: readonly Node[];
  readonly seqs: ArrayLike<number>;
} {
  const { count } = columns;
  const { id, forward, name, scope, kind, attrs, inputs, controlInputs, outputs } = drawnColumns(
    columns,
    { kinds: columns.kinds, name: (text) => text, attrs: (settings) => settings },
  );
  const inside = numbersIn(columns.inside, "inside", count);
  // The prefix is made once for all names in a scope.
  const within = picked(
    columns.scope.texts.map((path) => `${path}/`),
    columns.scope.places,
    count,
  );
  const source = picked(columns.sources, columns.line, count);
  const origin = lists(columns.origin, count);
  const writes = lists(columns.writes, count);
  const nodes: Node[] = [];
  for (let row = 0; row < count; row++) {
    const { op, family, phase, device, graph, role, dialect, native } = kind(row);
    const path = scope(row);
    nodes.push({
      id: id(row),
      name: inside[row] === 1 ? within(row) + name(row) : name(row),
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
      forward: forward(row) === 0 ? null : forward(row),
      graph,
      role,
      dialect,
      native,
      writes: pairs(writes(row)),
    });
  }
  return { nodes, seqs: numbersIn(columns.seq, "seq", count) };
}

function pairs(list: readonly number[]): Node["writes"] {
  if (list.length === 0) return NONE;
  return Array.from({ length: list.length / 2 }, (_, at) => [list[2 * at]!, list[2 * at + 1]!]);
}

/** Values by id. Args: nodes: The nodes that produce the values, in order. */
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

/** A map by value id whose entries are made from the value's spec when they are first read. */
export function madeOfSpecs<V>(
  columns: ValueColumns,
  make: (id: number, spec: ProducedValue["value"]["spec"]) => V,
): ReadonlyMap<number, V> {
  const id = numbersIn(columns.id, "id", columns.count);
  const spec = picked(columns.specs, columns.spec, columns.count);
  return new MadeById(id, (row) => make(id[row]!, spec(row)));
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
