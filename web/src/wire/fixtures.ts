/**
 * Messages for tests, as short as possible.
 *
 * Invariant: imported by tests only; omitted fields have the values of an empty run.
 */

import type {
  Capabilities,
  ExecutionColumns,
  Lists,
  Node,
  NodeColumns,
  ProducedValue,
  Records,
  RunInfo,
  SessionInfo,
  Snapshot,
  Stop,
  TensorSpec,
  Texts,
  ValueColumns,
} from "@/wire/types.gen";

export const RUN = "0123456789abcdef";

export const CAPABILITIES: Capabilities = {
  before: true,
  edit: "replace",
  gradients: true,
  scopes: "names",
  steps: "marked",
  timing: "host",
  values: "full",
  rerun: "graph",
  workers: false,
  immutable: false,
  unrolled: false,
};

export function runInfo(change: Partial<RunInfo> = {}): RunInfo {
  return {
    id: RUN,
    name: "train.py",
    argv: [],
    pid: 7,
    started_unix_ns: 1,
    level: "summary",
    state: "live",
    recording: "",
    status: null,
    error: "",
    trouble: "",
    frameworks: [{ dialect: "nodescope", version: "", capabilities: CAPABILITIES, threads: 0 }],
    broken_loss: null,
    ...change,
  };
}

export function node(id: number, name: string, change: Partial<Node> = {}): Node {
  const cut = name.lastIndexOf("/");
  return {
    id,
    name,
    op: name.slice(cut + 1),
    family: "elementwise",
    inputs: [],
    control_inputs: [],
    outputs: [id],
    attrs: {},
    scope: cut < 0 ? "" : name.slice(0, cut),
    phase: "forward",
    device: "cpu",
    source: null,
    origin: [],
    forward: null,
    graph: 0,
    role: "op",
    dialect: "nodescope",
    native: "",
    writes: [],
    ...change,
  };
}

/** The node as plain data: nodes of a snapshot read columns. */
export function fieldsOf(given: Node): Node {
  const keys = Object.keys(node(1, "")) as (keyof Node)[];
  return Object.fromEntries(keys.map((key) => [key, given[key]])) as unknown as Node;
}

export function produced(id: number, name: string): ProducedValue {
  return { value: { id, name, spec: tensor([2, 3]), storage: 0 }, producer: id };
}

export function tensor(shape: readonly (number | null)[], dtype = "float32"): TensorSpec {
  return { kind: "tensor", shape, dtype, device: "" };
}

export interface ExecutionRow {
  readonly seq: number;
  readonly node: number;
  readonly step?: number;
  readonly start?: number;
  readonly duration?: number;
  readonly flags?: number;
  readonly times?: number;
  readonly worker?: number;
  readonly lane?: number;
}

function bytes(array: Float64Array | Uint32Array | Uint8Array): Uint8Array {
  // An odd offset, as in msgpack: a reader must not rely on alignment.
  const shifted = new Uint8Array(array.byteLength + 1);
  shifted.set(new Uint8Array(array.buffer), 1);
  return shifted.subarray(1);
}

export function columns(rows: readonly ExecutionRow[]): ExecutionColumns {
  const f64 = (pick: (row: ExecutionRow) => number) => bytes(Float64Array.from(rows, pick));
  const u32 = (pick: (row: ExecutionRow) => number) => bytes(Uint32Array.from(rows, pick));
  return {
    count: rows.length,
    seq: f64((row) => row.seq),
    node: u32((row) => row.node),
    step: u32((row) => row.step ?? 1),
    thread: u32(() => 1),
    start_ns: f64((row) => row.start ?? row.seq * 100),
    duration_ns: f64((row) => row.duration ?? 10),
    flags: bytes(Uint8Array.from(rows, (row) => row.flags ?? 0)),
    times: rows.some((row) => row.times !== undefined)
      ? u32((row) => row.times ?? 0)
      : new Uint8Array(0),
    worker: rows.some((row) => row.worker !== undefined)
      ? u32((row) => row.worker ?? 0)
      : new Uint8Array(0),
    lane: rows.some((row) => row.lane !== undefined)
      ? u32((row) => row.lane ?? 0)
      : new Uint8Array(0),
  };
}

const NOTHING = {
  time_ns: 0,
  gradients: [],
  steps: [],
  logs: [],
  executions: columns([]),
  dropped: { blobs: 0, summaries: 0, executions: 0 },
} as const;

function f64s(numbers: readonly number[]): Uint8Array {
  return bytes(Float64Array.from(numbers));
}

function distinct<T>(entries: readonly T[]): readonly [readonly T[], Uint8Array] {
  const singles = [...new Set(entries)];
  return [singles, f64s(entries.map((entry) => singles.indexOf(entry)))];
}

function texts(column: readonly string[]): Texts {
  const [entries, places] = distinct(column);
  return { texts: entries, places };
}

function lists(column: readonly (readonly number[])[]): Lists {
  return { lengths: f64s(column.map(({ length }) => length)), items: f64s(column.flat()) };
}

export function nodeColumns(nodes: readonly Node[], seqs: readonly number[] = []): NodeColumns {
  const [attrs, settings] = distinct(nodes.map((node) => node.attrs));
  const [sources, line] = distinct(nodes.map(({ source }) => source));
  return {
    count: nodes.length,
    seq: f64s(nodes.map((_, at) => seqs[at] ?? 0)),
    id: f64s(nodes.map(({ id }) => id)),
    name: texts(nodes.map(({ name }) => name)),
    inside: new Uint8Array(0),
    scope: texts(nodes.map(({ scope }) => scope)),
    kinds: nodes.map(({ op, family, phase, device, graph, role, dialect, native }) => {
      return { op, family, phase, device, graph, role, dialect, native };
    }),
    kind: f64s(nodes.map((_, at) => at)),
    inputs: lists(nodes.map(({ inputs }) => inputs)),
    control_inputs: lists(nodes.map(({ control_inputs }) => control_inputs)),
    outputs: lists(nodes.map(({ outputs }) => outputs)),
    attrs,
    settings,
    sources,
    line,
    origin: lists(nodes.map(({ origin }) => origin)),
    forward: f64s(nodes.map(({ forward }) => forward ?? 0)),
    writes: lists(nodes.map(({ writes }) => writes.flat())),
  };
}

export function valueColumns(rows: readonly ProducedValue[]): ValueColumns {
  return {
    count: rows.length,
    id: f64s(rows.map(({ value }) => value.id)),
    name: texts(rows.map(({ value }) => value.name)),
    specs: rows.map(({ value }) => value.spec),
    spec: f64s(rows.map((_, at) => at)),
    storage: f64s(rows.map(({ value }) => value.storage)),
    producer: f64s(rows.map(({ producer }) => producer ?? 0)),
  };
}

/** A snapshot, with nodes and values as rows. */
type SnapshotRows = Omit<Snapshot, "nodes" | "values"> & {
  readonly nodes: readonly Node[];
  readonly node_seqs: readonly number[];
  readonly values: readonly ProducedValue[];
};

export function snapshot(change: Partial<SnapshotRows> = {}): Snapshot {
  const { nodes, node_seqs, values, ...rest } = change;
  return {
    type: "snapshot",
    run: runInfo(),
    seq: 0,
    last_event: change.seq ?? 0,
    session: null,
    governed: null,
    keeping: null,
    nodes: nodeColumns(nodes ?? [], node_seqs),
    values: valueColumns(values ?? []),
    ...NOTHING,
    ...rest,
  };
}

export function records(change: Partial<Records> = {}): Records {
  return {
    type: "records",
    run: RUN,
    seq: 0,
    last_event: change.seq ?? 0,
    skipped: 0,
    governed: null,
    keeping: null,
    nodes: [],
    node_seqs: [],
    values: [],
    ...NOTHING,
    ...change,
  };
}

export function stopAt(id: number, name: string, change: Partial<Stop> = {}): Stop {
  return {
    reason: "breakpoint",
    node: id,
    node_name: name,
    scope: "",
    when: "after",
    step: 1,
    seq: id,
    thread: 1,
    breakpoint: 0,
    text: "",
    stack: [],
    edits: [],
    watch: 0,
    error: "",
    ...change,
  };
}

export function session(change: Partial<SessionInfo> = {}): SessionInfo {
  return {
    phase: "running",
    version: 1,
    stop: null,
    breakpoints: [],
    attended: true,
    watches: [],
    ...change,
  };
}
