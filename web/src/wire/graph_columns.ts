/**
 * The graph of a snapshot: nodes and values that read their columns.
 *
 * Invariant: all indices are checked before the first node is made; what many nodes have in common
 * is one shared object: texts, attributes, source lines, specs, empty lists. Other lists and names
 * are made whenever they are read: kept, they would be most of a large graph's memory.
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

/** The entry of a row. */
type Column<T> = (row: number) => T;

function picked<T>(entries: readonly T[], places: Uint8Array, count: number): Column<T> {
  const place = numbersIn(places, "places", count);
  for (let row = 0; row < count; row++) {
    const at = place[row]!;
    if (entries[at] === undefined) throw new DecodeError(`entry ${at} of ${entries.length}`);
  }
  return (row) => entries[place[row]!]!;
}

function texts(column: Texts, count: number): Column<string> {
  return picked(column.texts, column.places, count);
}

function lists(column: Lists, count: number): Column<readonly number[]> {
  if (column.lengths.byteLength === 0) return () => NONE;
  const lengths = numbersIn(column.lengths, "lengths", count);
  const ends = new Uint32Array(count);
  let total = 0;
  for (let row = 0; row < count; row++) {
    total += lengths[row]!;
    ends[row] = total;
  }
  const items = numbersIn(column.items, "items", total);
  return (row) => {
    const begin = row === 0 ? 0 : ends[row - 1]!;
    const end = ends[row]!;
    return begin === end ? NONE : numberList(items, begin, end);
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

/** Readers of the columns that decide how a graph is drawn. */
export function drawnColumns<Kind, Name, Settings>(
  columns: NodeColumns,
  forms: NodeForms<Kind, Name, Settings>,
) {
  const { count } = columns;
  const names = columns.name.texts.map((text) => forms.name(text));
  return {
    count,
    id: numbersIn(columns.id, "id", count),
    /** The operation that the node differentiates; 0 = none. */
    forward: numbersIn(columns.forward, "forward", count),
    name: picked(names, columns.name.places, count),
    scope: texts(columns.scope, count),
    kind: picked(forms.kinds, columns.kind, count),
    attrs: picked(
      columns.attrs.map((attrs) => forms.attrs(attrs)),
      columns.settings,
      count,
    ),
    inputs: lists(columns.inputs, count),
    controlInputs: lists(columns.control_inputs, count),
    outputs: lists(columns.outputs, count),
  };
}

function nodeTable(columns: NodeColumns) {
  const { count, kinds } = columns;
  return {
    ...drawnColumns(columns, { kinds, name: (text) => text, attrs: (settings) => settings }),
    /** 1 where the name follows the scope. */
    inside: numbersIn(columns.inside, "inside", count),
    source: picked(columns.sources, columns.line, count),
    origin: lists(columns.origin, count),
    writes: lists(columns.writes, count),
  };
}

type NodeTable = ReturnType<typeof nodeTable>;

/** A row of the columns. */
class NodeRow implements Node {
  constructor(
    private readonly table: NodeTable,
    private readonly row: number,
  ) {}

  get id(): number {
    return this.table.id[this.row]!;
  }

  get name(): string {
    const { table, row } = this;
    const name = table.name(row);
    return table.inside[row] === 1 ? `${table.scope(row)}/${name}` : name;
  }

  get op(): string {
    return this.table.kind(this.row).op;
  }

  get family(): string {
    return this.table.kind(this.row).family;
  }

  get inputs(): readonly number[] {
    return this.table.inputs(this.row);
  }

  get control_inputs(): readonly number[] {
    return this.table.controlInputs(this.row);
  }

  get outputs(): readonly number[] {
    return this.table.outputs(this.row);
  }

  get attrs(): Node["attrs"] {
    return this.table.attrs(this.row);
  }

  get scope(): string {
    return this.table.scope(this.row);
  }

  get phase(): Node["phase"] {
    return this.table.kind(this.row).phase;
  }

  get device(): string {
    return this.table.kind(this.row).device;
  }

  get source(): Node["source"] {
    return this.table.source(this.row);
  }

  get origin(): readonly number[] {
    return this.table.origin(this.row);
  }

  get forward(): number | null {
    return this.table.forward[this.row]! || null;
  }

  get graph(): number {
    return this.table.kind(this.row).graph;
  }

  get role(): Node["role"] {
    return this.table.kind(this.row).role;
  }

  get dialect(): string {
    return this.table.kind(this.row).dialect;
  }

  get native(): string {
    return this.table.kind(this.row).native;
  }

  get writes(): Node["writes"] {
    return pairs(this.table.writes(this.row));
  }
}

/** The nodes in the order of their definitions, and the seqs of the definitions. */
export function nodesIn(columns: NodeColumns): {
  readonly nodes: readonly Node[];
  readonly seqs: ArrayLike<number>;
} {
  const table = nodeTable(columns);
  const nodes: Node[] = [];
  for (let row = 0; row < table.count; row++) nodes.push(new NodeRow(table, row));
  return { nodes, seqs: numbersIn(columns.seq, "seq", table.count) };
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

/** Names of values after their producers, whose table is made when a value is first read. */
function usualNames(nodes: readonly Node[]): (value: number) => string {
  let producers: IdTable | undefined;
  return (value) => {
    producers ??= producersIn(nodes);
    const node = nodes[producers.get(value) ?? -1];
    const port = node?.outputs.lastIndexOf(value);
    return node === undefined ? "" : port === 0 ? node.name : `${node.name}:${port}`;
  };
}

/** The last node that produces each value. */
function producersIn(nodes: readonly Node[]): IdTable {
  const producers = new IdTable();
  nodes.forEach(({ outputs }, row) => {
    for (const value of outputs) producers.set(value, row);
  });
  return producers;
}
