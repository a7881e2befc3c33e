/**
 * The page's model of a run, and the pure function that updates it by a message.
 *
 * Invariant: a `RunModel` is never changed; parts that a message does not touch are shared with the
 * previous model. Applying the records after a snapshot gives the same model as a later snapshot.
 */

import { assertNever } from "@/base/assert";
import { MadeLater } from "@/base/by_id";
import { formatCount } from "@/base/numbers";
import type { NodeColumns } from "@/store/run/columns";
import { type GraphHistory, NO_HISTORY, withDefinitions } from "@/store/run/graph_history";
import { graphIn, identityOf } from "@/wire/graph_columns";
import { isLeaf } from "@/wire/roles";
import {
  type Dropped,
  FAILED,
  type Governed,
  type GradientRow,
  type Keeping,
  type LogRow,
  type Node,
  type ProducedValue,
  type Records,
  type RunChanged,
  type RunInfo,
  type SessionChanged,
  type SessionInfo,
  type Snapshot,
  type StepRow,
  type Stop,
} from "@/wire/types.gen";

export const MAX_LOGS = 5000;

/** The graph so far. `version` grows with each change of structure. */
export interface RunGraph {
  readonly version: number;
  /** By id; with holes for unused ids. */
  readonly nodes: readonly (Node | undefined)[];
  readonly count: number;
  readonly byName: ReadonlyMap<string, number>;
  readonly values: ReadonlyMap<number, ProducedValue>;
  readonly history: GraphHistory;
  /** The identity of the columns that it was made from, if nothing has changed since. */
  readonly origin?: object | undefined;
}

export interface RunModel {
  readonly info: RunInfo;
  readonly seq: number;
  /** Seq of the last record of the program's own activity; records of what is kept do not count. */
  readonly lastEvent: number;
  readonly timeNs: number;
  readonly graph: RunGraph;
  /** Gradient rows by value, in order of seq. */
  readonly gradients: ReadonlyMap<number, readonly GradientRow[]>;
  /** In order of step. */
  readonly steps: readonly StepRow[];
  readonly logs: readonly LogRow[];
  /** Number of lines no longer kept on the page. */
  readonly logsCut: number;
  readonly dropped: Dropped;
  /** The governor's latest report; undefined for a run without a limit. */
  readonly governed: Governed | undefined;
  /** What the recording keeps; undefined if it does not say. */
  readonly keeping: Keeping | undefined;
  /** Executions that the server left out of the live stream. */
  readonly skipped: number;
  readonly session: SessionInfo | undefined;
}

export type RunMessage = Snapshot | Records | SessionChanged | RunChanged;

export const EMPTY_GRAPH: RunGraph = {
  version: 0,
  nodes: [],
  count: 0,
  byName: new Map(),
  values: new Map(),
  history: NO_HISTORY,
};

/** The model after a message; undefined if there is still none to apply it to. */
export function update(model: RunModel | undefined, message: RunMessage): RunModel | undefined {
  if (message.type === "snapshot") return fromSnapshot(model, message);
  if (model === undefined) return undefined;
  switch (message.type) {
    case "records":
      return message.run === model.info.id ? append(model, message) : model;
    case "session":
      return message.run === model.info.id ? withSession(model, message.info) : model;
    case "run":
      return message.run.id === model.info.id ? { ...model, info: message.run } : model;
    default:
      return assertNever(message);
  }
}

function fromSnapshot(before: RunModel | undefined, message: Snapshot): RunModel {
  const same = before?.info.id === message.run.id;
  const { nodes, seqs, values } = graphIn(message);
  return {
    info: message.run,
    seq: message.seq,
    lastEvent: message.last_event,
    timeNs: message.time_ns,
    graph: {
      ...extend({ ...EMPTY_GRAPH, version: same ? before.graph.version : 0 }, nodes, seqs, values),
      origin: identityOf(message.nodes),
    },
    gradients: withGradients(new Map(), message.gradients),
    steps: withSteps([], message.steps),
    logs: message.logs,
    logsCut: 0,
    dropped: message.dropped,
    governed: message.governed ?? undefined,
    keeping: message.keeping ?? undefined,
    skipped: 0,
    session: newer(same ? before.session : undefined, message.session ?? undefined),
  };
}

function append(model: RunModel, message: Records): RunModel {
  const logs = message.logs.length === 0 ? model.logs : [...model.logs, ...message.logs];
  const cut = Math.max(0, logs.length - MAX_LOGS);
  return {
    ...model,
    seq: Math.max(model.seq, message.seq),
    lastEvent: Math.max(model.lastEvent, message.last_event),
    timeNs: Math.max(model.timeNs, message.time_ns),
    graph: extend(
      model.graph,
      message.nodes,
      message.node_seqs,
      new Map(message.values.map((value) => [value.value.id, value])),
    ),
    gradients: withGradients(model.gradients, message.gradients),
    steps: withSteps(model.steps, message.steps),
    logs: cut > 0 ? logs.slice(cut) : logs,
    logsCut: model.logsCut + cut,
    dropped: message.dropped,
    governed: message.governed ?? model.governed,
    keeping: message.keeping ?? model.keeping,
    skipped: model.skipped + message.skipped,
  };
}

/** The model with the steps around a moment, for a run whose steps it does not hold completely. */
export function withStepsAround(
  model: RunModel | undefined,
  rows: readonly StepRow[],
): RunModel | undefined {
  if (model === undefined || rows.length === 0) return model;
  return { ...model, steps: withSteps(model.steps, rows) };
}

function withSession(model: RunModel, info: SessionInfo): RunModel {
  const session = newer(model.session, info);
  return session === model.session ? model : { ...model, session };
}

/** The session state with the higher version; a restarted debuggee counts from 0 in a new run. */
function newer(a: SessionInfo | undefined, b: SessionInfo | undefined): SessionInfo | undefined {
  if (a === undefined || b === undefined) return b ?? a;
  return b.version >= a.version ? b : a;
}

function extend(
  graph: RunGraph,
  nodes: readonly Node[],
  seqs: ArrayLike<number>,
  values: ReadonlyMap<number, ProducedValue>,
): RunGraph {
  if (nodes.length === 0 && values.size === 0) return graph;
  let known = graph.values.size === 0 ? values : graph.values;
  if (values.size > 0 && known !== values) known = new Map([...graph.values, ...values]);
  // A changed shape alone does not change the structure.
  const reshaped = nodes.length === 0 && [...values.keys()].every((id) => graph.values.has(id));
  if (reshaped) return { ...graph, values: known, origin: undefined };
  const all = graph.nodes.slice();
  let count = graph.count;
  for (const node of nodes) {
    if (all[node.id] === undefined) count += 1;
    all[node.id] = node;
  }
  const byName = new MadeLater(() => namesOf(all));
  const history = withDefinitions(graph.history, graph.nodes, nodes, seqs);
  return { version: graph.version + 1, nodes: all, count, byName, values: known, history };
}

function namesOf(nodes: readonly (Node | undefined)[]): ReadonlyMap<string, number> {
  const names = new Map<string, number>();
  for (const node of nodes) if (node !== undefined) names.set(node.name, node.id);
  return names;
}

/** Whether the graph has control edges: an order between nodes that pass no value. */
export function hasControlEdges(graph: RunGraph | undefined): boolean {
  return graph?.nodes.some((node) => (node?.control_inputs.length ?? 0) > 0) ?? false;
}

function withGradients(
  known: ReadonlyMap<number, readonly GradientRow[]>,
  rows: readonly GradientRow[],
): ReadonlyMap<number, readonly GradientRow[]> {
  if (rows.length === 0) return known;
  const all = new Map(known);
  for (const row of rows) {
    const before = all.get(row.value) ?? [];
    if (before.some((other) => other.seq === row.seq && other.gradient === row.gradient)) continue;
    all.set(
      row.value,
      [...before, row].sort((a, b) => a.seq - b.seq),
    );
  }
  return all;
}

function withSteps(known: readonly StepRow[], rows: readonly StepRow[]): readonly StepRow[] {
  if (rows.length === 0) return known;
  const last = known.at(-1)?.step ?? -1;
  // The usual case, checked first: a new step begins.
  if (rows.length === 1 && rows[0] !== undefined && rows[0].step > last) return [...known, rows[0]];
  const all = new Map(known.map((row) => [row.step, row]));
  for (const row of rows) all.set(row.step, row);
  return [...all.values()].sort((a, b) => a.step - b.step);
}

/** The value that holds the gradient of `value` at `seq` (undefined = latest). */
export function gradientOf(
  model: RunModel,
  value: number,
  seq: number | undefined,
): number | undefined {
  let best: number | undefined;
  for (const row of model.gradients.get(value) ?? []) {
    if (seq === undefined || row.seq <= seq) best = row.gradient;
  }
  return best;
}

/**
 * Why nothing is known about executions at `seq`, if the governor left the step out; else "".
 *
 * Args:
 *   why: Why the governor leaves out steps.
 */
export function leftOutAt(steps: readonly StepRow[], seq: number, why: string): string {
  const row = stepAt(steps, seq);
  return row === undefined || row.observed || (row.end_seq !== null && seq > row.end_seq)
    ? ""
    : `Values of step ${formatCount(row.step)} were not recorded: it ran unobserved, ${why}.`;
}

/** The last observed step up to `step`; `step` itself if unknown. */
export function lastObserved(steps: readonly StepRow[], step: number): number {
  let at = steps.findLastIndex((row) => row.step <= step);
  if (steps[at]?.step !== step) return step;
  while (at >= 0 && !steps[at]?.observed) at -= 1;
  return steps[at]?.step ?? step;
}

/** The step to show while the program runs: the current one, or the last observed one before it. */
export function seenWhileRunning(
  steps: readonly StepRow[],
  now: StepRow | undefined,
): StepRow | undefined {
  if (now === undefined || now.observed) return now;
  return stepNumbered(steps, lastObserved(steps, now.step)) ?? now;
}

/** The training step of the moment shown, observed or not. */
export function stepShown(store: {
  model(): RunModel | undefined;
  seq(): number | null;
  step(): number;
}): number {
  const past = store.seq();
  if (past === null) return store.step();
  // `store.step()` is then the step of the last execution, which may be an earlier one.
  return stepAt(store.model()?.steps ?? [], past)?.step ?? store.step();
}

/**
 * The training step whose executions are shown: the last observed one up to the step shown. If the
 * program failed at an operation, it is the step shown: nothing ran in it after the operation.
 */
export function seenStep(store: {
  model(): RunModel | undefined;
  step(): number;
  failure?(): number;
}): number {
  const step = store.step();
  return (store.failure?.() ?? 0) > 0 ? step : lastObserved(store.model()?.steps ?? [], step);
}

/**
 * The step whose shapes and times the graph shows in place of those of an unobserved step;
 * undefined while the program runs, because steps then pass too quickly.
 */
export function earlierStep(store: {
  model(): RunModel | undefined;
  stop(): unknown;
  seq(): number | null;
  step(): number;
  failure?(): number;
}): number | undefined {
  const running = store.model()?.info.state === "live" && store.stop() === undefined;
  if (running && store.seq() === null) return undefined;
  const step = stepShown(store);
  const seen =
    store.seq() === null ? seenStep(store) : lastObserved(store.model()?.steps ?? [], step);
  return seen < step ? seen : undefined;
}

/** A note that the value shown belongs to an earlier step than the one shown, and why. */
export function earlierWords(
  steps: readonly StepRow[],
  from: number,
  step: number,
  why: string,
): string {
  const observed = stepNumbered(steps, step)?.observed ?? true;
  return observed
    ? `From step ${formatCount(from)}; hasn't run yet in step ${formatCount(step)}.`
    : `From step ${formatCount(from)}; step ${formatCount(step)} ran unobserved, ${why}.`;
}

/**
 * Whether a program raised in a step, so that no operation ran after it and its end is in that
 * step.
 *
 * Args:
 *   live: When each node ran last.
 */
export function raisedIn(
  step: StepRow | undefined,
  model: RunModel | undefined,
  live: Pick<NodeColumns, "seq">,
): boolean {
  const error = model?.info.error || model?.session?.stop?.error || "";
  if (model === undefined || error === "" || step !== model.steps.at(-1)) return false;
  const end = step?.end_seq ?? 0;
  // Leaves are recorded once more when a run ends.
  return !model.graph.nodes.some(
    (node) => node !== undefined && !isLeaf(node) && (live.seq[node.id] ?? 0) > end,
  );
}

/**
 * The node at which the last operation of a program raised; 0 if the last one did not raise.
 *
 * Args:
 *   live: When each node ran last, and how.
 */
export function failedLast(
  model: RunModel | undefined,
  live: Pick<NodeColumns, "seq" | "flags">,
): number {
  let last = 0;
  for (const node of model?.graph.nodes ?? []) {
    // Leaves are recorded once more when a run ends.
    if (node === undefined || isLeaf(node)) continue;
    if ((live.seq[node.id] ?? 0) > (live.seq[last] ?? 0)) last = node.id;
  }
  return ((live.flags[last] ?? 0) & FAILED) !== 0
    ? causeOf(model?.graph.nodes ?? [], live, last)
    : 0;
}

/** The failed task that kept the last node from running; the last node itself if there is none. */
function causeOf(nodes: RunGraph["nodes"], live: Pick<NodeColumns, "flags">, last: number): number {
  const makers = new Map<number, Node>();
  for (const node of nodes) {
    if (node?.role !== "task" || ((live.flags[node.id] ?? 0) & FAILED) === 0) continue;
    for (const value of node.outputs) makers.set(value, node);
  }
  const met = new Set<number>();
  let node = nodes[last];
  while (node !== undefined && node.role === "task" && !met.has(node.id)) {
    met.add(node.id);
    const maker = node.inputs.map((value) => makers.get(value)).find((task) => task);
    if (maker === undefined) return node.id;
    node = maker;
  }
  return last;
}

/** Whether the moment shown comes after the end of its step; all views word this alike. */
export function standsAfter(store: {
  model(): RunModel | undefined;
  seq(): number | null;
  stop(): Stop | undefined;
  readonly live: Pick<NodeColumns, "seq" | "lastSeq">;
}): boolean {
  const model = store.model();
  if (model === undefined) return false;
  // While the program runs, the last execution counts: the gap between two steps does not show.
  const running = model.info.state === "live" && store.stop() === undefined;
  const seq = store.seq() ?? (running ? store.live.lastSeq : model.seq);
  const step = stepAt(model.steps, seq);
  return isAfter(step, seq) && !raisedIn(step, model, store.live);
}

/** Whether a step had ended by `seq`: executions between steps are not part of it. */
export function isAfter(step: StepRow | undefined, seq: number): boolean {
  const end = step?.end_seq;
  return end !== undefined && end !== null && seq > end;
}

/** Whether the last execution came after the step shown, as in an evaluation. */
export function ranAfterStep(store: {
  model(): RunModel | undefined;
  step(): number;
  shown(): { readonly lastSeq: number };
}): boolean {
  const ran = store.shown().lastSeq;
  const step = stepAt(store.model()?.steps ?? [], ran);
  return step?.step === store.step() && isAfter(step, ran);
}

/** The step that contains `seq`, or precedes it, if the steps around it are known. */
export function stepAt(steps: readonly StepRow[], seq: number): StepRow | undefined {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((steps[middle]?.start_seq ?? 0) <= seq) low = middle + 1;
    else high = middle;
  }
  const step = steps[low - 1];
  const next = steps[low];
  // Of very many steps, the page holds only some: the server sends those around a moment with it.
  const between = step !== undefined && next !== undefined && next.step > step.step + 1;
  return between && step.end_seq !== null && seq > step.end_seq ? undefined : step;
}

/** The step with the given number, if the page holds it. */
export function stepNumbered(steps: readonly StepRow[], step: number): StepRow | undefined {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((steps[middle]?.step ?? 0) < step) low = middle + 1;
    else high = middle;
  }
  const atStep = steps[low];
  return atStep?.step === step ? atStep : undefined;
}

/** Whether the run is a graph that was not and will not be run, such as that of a graph file. */
export function neverRuns(model: RunModel | undefined, columns: { lastNode: number }): boolean {
  if (model === undefined || columns.lastNode > 0) return false;
  return model.info.level === "graph" && model.info.state !== "live";
}

/** Whether there is anything for a timeline, a console and a list of problems or breakpoints. */
export function hasCourse(model: RunModel | undefined, columns: { lastNode: number }): boolean {
  return !neverRuns(model, columns) || model?.info.error !== "";
}
