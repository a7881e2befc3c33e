// Generated from the Python types by `python -m tools.page_types --write`. Do not edit.
//
// Integers arrive as numbers; those beyond 2^53 (started_unix_ns) are rounded.

export const PROTOCOL_VERSION = 1;
export const CONTROLLER_GRACE_S = 5.0;
export const HAS_NAN = 1;
export const HAS_INF = 2;
export const FAILED = 4;
export const HAS_SUMMARY = 8;
export const LEVELS = ["graph", "timing", "summary", "values"] as const;
export const PHASES = ["forward", "backward", "optimizer", "recompute", "other"] as const;
export const FATES = ["kept", "renamed", "rewritten", "folded", "merged", "fused", "recomputed", "eliminated"] as const;
export const PARTS = ["forward", "backward", "optimizer", "other", "data", "waiting", "python", "compiling", "between", "held"] as const;

/** A numbered request; the answer carries the same id. */
export interface Request {
  readonly id: number;
  readonly body: RequestBody;
}

/** The first request on a socket. */
export interface Initialize {
  readonly type: "initialize";
  readonly client: string;
  readonly protocol: number;
}

/** The page is responsive: the answer to a `Heartbeat`. */
export interface Alive {
  readonly type: "alive";
}

/**
 * Follow a run. A snapshot comes first, unless `seq` is recent enough for a replay.
 *
 * Attributes:
 *     seq: The last seq that the client has; 0 for none. Reconnecting means replaying.
 */
export interface Subscribe {
  readonly type: "subscribe";
  readonly run: string;
  readonly seq?: number;
}

/** Stop following the run. */
export interface Unsubscribe {
  readonly type: "unsubscribe";
  readonly run: string;
}

/** A debugger command for a live run. */
export interface Control {
  readonly type: "control";
  readonly run: string;
  readonly command: Command;
}

/** Run until the next breakpoint. */
export interface Continue {
  readonly type: "continue";
  readonly thread?: number | null;
  readonly alone?: boolean;
}

/** Stop at the next node. */
export interface Pause {
  readonly type: "pause";
}

/** Stop after the next node, in any scope. */
export interface StepNode {
  readonly type: "step_node";
  readonly thread?: number | null;
  readonly alone?: boolean;
}

/**
 * Step in: stop after the first node whose scope is neither this one nor one around it.
 *
 * Attributes:
 *     scope: Step into this scope instead: stop after the first node inside it.
 */
export interface StepIn {
  readonly type: "step_in";
  readonly scope?: string | null;
  readonly thread?: number | null;
  readonly alone?: boolean;
}

/**
 * Stop after the next node whose scope is not deeper than the current one.
 *
 * Attributes:
 *     scope: Step over this whole scope instead: stop at the first node outside it.
 */
export interface StepOver {
  readonly type: "step_over";
  readonly scope?: string | null;
  readonly thread?: number | null;
  readonly alone?: boolean;
}

/** Stop after the first node outside the current scope. */
export interface StepOut {
  readonly type: "step_out";
  readonly thread?: number | null;
  readonly alone?: boolean;
}

/** Stop after the first node of the next training step. */
export interface NextStep {
  readonly type: "next_step";
}

/**
 * Run until a node has run, once.
 *
 * Attributes:
 *     node: The node's name.
 *     by_end: Whether the end of its name suffices, for a node that has not run yet.
 */
export interface RunTo {
  readonly type: "run_to";
  readonly node: string;
  readonly by_end?: boolean;
}

/** Let the program run to its end; it is recorded but no longer stops. */
export interface Detach {
  readonly type: "detach";
}

/**
 * Replace the whole set of breakpoints, as in DAP.
 *
 * A breakpoint that keeps its id keeps its hits. They restart when its place, condition, phase,
 * steps or hit condition changes.
 */
export interface SetBreakpoints {
  readonly type: "set_breakpoints";
  readonly breakpoints: readonly Breakpoint[];
}

/**
 * Where and when to stop.
 *
 * Attributes:
 *     id: Chosen by the session, from 1 up; 0 in a request for a new one.
 *     kind: The kind of target: `node` is an exact name, `glob` a shell pattern and `regex`
 *         a regular expression over whole names, `op` an op's name, `scope` a scope path
 *         (stops at the first node inside, each time it is entered), `source` a line of the
 *         program, `model.py:42`.
 *     target: The name, pattern, op, path or line.
 *     when: Before or after the node runs. A condition on `value` needs `after`.
 *     condition: Expression that must be true, or `""`. A condition on `grad` is evaluated
 *         when the gradient of the node's output becomes known.
 *     enabled: Whether it is armed; a disabled breakpoint is kept.
 *     phase: Only nodes of this phase of training; `""` for any.
 *     first_step, last_step: Only in these training steps, both inclusive; None for no limit.
 *     hits: Which of the hits stop, counted when everything else holds: `== 3`, `>= 3`, `%
 *         5` (every fifth); `""` for every hit. DAP's `hitCondition`.
 *     log: A line to log instead of stopping; `{expression}` is evaluated. `""` stops.
 *     once: Whether its first stop disables it.
 *     group: A name shared by breakpoints that are switched together; or `""`.
 */
export interface Breakpoint {
  readonly kind: BreakpointKind;
  readonly target: string;
  readonly id: number;
  readonly when: When;
  readonly condition: string;
  readonly enabled: boolean;
  readonly phase: "" | "forward" | "backward" | "optimizer" | "recompute" | "other";
  readonly first_step: number;
  readonly last_step: number | null;
  readonly hits: string;
  readonly log: string;
  readonly once: boolean;
  readonly group: string;
}

/**
 * Change a value at the node where the program is stopped; it continues with the new one.
 *
 * Gradients flow as if the operation had produced the new value: its rule is evaluated there.
 *
 * Attributes:
 *     value: Value id of an output or an input of the node.
 *     how: The change: `set` to `number`, `add` it, `scale` by it, `clip` to `low` and
 *         `high`, add `noise` (normal, of standard deviation `number`, from `seed`), or
 *         take the elements of an array file, `npy`.
 *     index: The elements to change, in NumPy's notation: `3, :, 1:5`, or `isnan` for a
 *         condition on the elements; `""` for all.
 *     imaginary: The imaginary part of the number, for complex values.
 *     npy: The content of a .npy file, in the shape of the elements that it replaces.
 */
export interface SetValue {
  readonly type: "set_value";
  readonly value: number;
  readonly how?: "set" | "add" | "scale" | "clip" | "noise" | "npy";
  readonly number?: number;
  readonly index?: string;
  readonly low?: number | null;
  readonly high?: number | null;
  readonly seed?: number;
  readonly npy?: Uint8Array;
  readonly imaginary?: number;
}

/**
 * Replace the whole set of watch rules. A rule with unchanged text keeps its state.
 *
 * Attributes:
 *     watches: The watches as text.
 */
export interface SetWatches {
  readonly type: "set_watches";
  readonly watches: readonly string[];
}

/**
 * Set what is kept from now on, beyond what the program was started with.
 *
 * Attributes:
 *     everything: Whether to keep every element of every node, whatever it costs, and leave no
 *         step out.
 *     nodes: Ids of nodes that are being viewed: every element of these is kept.
 */
export interface SetKeeping {
  readonly type: "set_keeping";
  readonly everything?: boolean;
  readonly nodes?: readonly number[];
}

/** Set whether the program stops where a node raises; initially it does. */
export interface SetExceptions {
  readonly type: "set_exceptions";
  readonly stop: boolean;
}

/**
 * Run to the backward node of this forward node, or to the forward node of this backward
 * node.
 */
export interface StepTwin {
  readonly type: "step_twin";
}

/**
 * The latest execution of every node at or before `seq`: the picture of a past moment.
 *
 * Attributes:
 *     since: The moment whose state the page has: only differences are sent. None for the whole
 *         state.
 */
export interface GetState {
  readonly type: "get_state";
  readonly run: string;
  readonly seq: number;
  readonly since?: number | null;
}

/**
 * A value at a moment: its statistics, and a two-dimensional slice of its elements.
 *
 * Attributes:
 *     value: Value id.
 *     seq: The moment; None for the latest.
 *     index: One entry per fixed leading axis; the last two axes stay. Missing entries are 0.
 *         Ignored for at most two dimensions.
 *     rows, cols: First row and column of the window, and the most rows and columns (a page of the
 *         grid).
 *     branch: A what-if branch: if it changes the value, its value is sent; 0 for none.
 */
export interface GetValue {
  readonly type: "get_value";
  readonly run: string;
  readonly value: number;
  readonly seq?: number | null;
  readonly index?: readonly number[];
  readonly row?: number;
  readonly col?: number;
  readonly rows?: number;
  readonly cols?: number;
  readonly branch?: number;
}

/** The executions of one node, oldest first, thinned to at most `limit`. */
export interface GetHistory {
  readonly type: "get_history";
  readonly run: string;
  readonly node: number;
  readonly until_seq?: number | null;
  readonly limit?: number;
}

/** Executions between two times, all nodes, at most `limit` (the longest are kept). */
export interface GetTimeline {
  readonly type: "get_timeline";
  readonly run: string;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly limit?: number;
}

/** The text of a source file that the recording refers to. */
export interface GetSource {
  readonly type: "get_source";
  readonly run: string;
  readonly file: string;
}

/** Get the class and settings of a scope's module. */
export interface GetScope {
  readonly type: "get_scope";
  readonly run: string;
  readonly scope: string;
}

/**
 * The moment to which a command leads in the recording.
 *
 * Attributes:
 *     seq: The moment being viewed.
 *     command: A stepping command, or `continue` to the next breakpoint in the direction.
 *     back: Whether to go towards the beginning.
 *     breakpoint: A breakpoint to search for in place of the session's.
 *     live: Whether to start where the program is stopped, possibly before a node that has not
 *         run.
 */
export interface Move {
  readonly type: "move";
  readonly run: string;
  readonly seq: number;
  readonly command: Command;
  readonly back?: boolean;
  readonly breakpoint?: Breakpoint | null;
  readonly live?: boolean;
}

/** Parse a breakpoint in command-line syntax; nothing is set. */
export interface ReadBreakpoint {
  readonly type: "read_breakpoint";
  readonly run: string;
  readonly text: string;
}

/**
 * Get the origin of an element.
 *
 * Attributes:
 *     value: Value id.
 *     index: The element; None for `which`.
 *     which: `nan inf nonfinite zero max min`: all elements of that kind. `""` for the first
 *         NaN, else the first Inf, else the largest.
 *     seq: The moment; None for the latest.
 *     branch: The what-if branch in which it is asked; 0 for the recorded run.
 */
export interface AskWhy {
  readonly type: "ask_why";
  readonly run: string;
  readonly value: number;
  readonly index?: readonly number[] | null;
  readonly which?: string;
  readonly seq?: number | null;
  readonly branch?: number;
}

/** Get the history of NaN and Inf in a training step. */
export interface AskSpread {
  readonly type: "ask_spread";
  readonly run: string;
  readonly step: number;
}

/**
 * Rerun the dependents of a value, with another content.
 *
 * Attributes:
 *     seq: The moment of the value; None for the latest.
 *     edit: The edit of a value at that moment.
 *     name: The name of the branch; `""` for the description of the edit.
 *     parent: Id of a branch to start from; 0 for the recorded run.
 *     steps: Number of training steps to rerun beyond the moment's own; None for all recorded
 *         ones. A branch goes at least as far as its parent.
 */
export interface WhatIf {
  readonly type: "what_if";
  readonly run: string;
  readonly seq: number | null;
  readonly edit: SetValue;
  readonly name?: string;
  readonly parent?: number;
  readonly steps?: number | null;
}

/** All branches of a run. */
export interface GetBranches {
  readonly type: "get_branches";
  readonly run: string;
}

/** Get the changes in a branch. */
export interface GetBranch {
  readonly type: "get_branch";
  readonly run: string;
  readonly branch: number;
}

/** Rename a branch. */
export interface RenameBranch {
  readonly type: "rename_branch";
  readonly run: string;
  readonly branch: number;
  readonly name: string;
}

/** Delete a branch, with its descendants. */
export interface DropBranch {
  readonly type: "drop_branch";
  readonly run: string;
  readonly branch: number;
}

/** Get all rules, and the watches recommended for the program. */
export interface GetRules {
  readonly type: "get_rules";
  readonly run: string;
}

/** Parse a watch, before it is set. */
export interface ReadWatch {
  readonly type: "read_watch";
  readonly run: string;
  readonly text: string;
}

/**
 * Evaluate watches on the recording.
 *
 * Attributes:
 *     text: One or several watches as text.
 */
export interface AskWatch {
  readonly type: "ask_watch";
  readonly run: string;
  readonly text: string;
}

/**
 * Compare a value at two moments, with a window of the difference of its elements.
 *
 * Attributes:
 *     value: Value id.
 *     one, other: The moments; None for the latest.
 *     index, row, col, rows, cols: As in `GetValue`.
 */
export interface CompareMoments {
  readonly type: "compare_moments";
  readonly run: string;
  readonly value: number;
  readonly one: number | null;
  readonly other?: number | null;
  readonly index?: readonly number[];
  readonly row?: number;
  readonly col?: number;
  readonly rows?: number;
  readonly cols?: number;
}

/** Get the attributes of a node's op at a moment; None for the latest. */
export interface GetAttributes {
  readonly type: "get_attributes";
  readonly run: string;
  readonly node: number;
  readonly seq?: number | null;
}

/** Get the memory that a training step needs while a node runs. */
export interface GetMemory {
  readonly type: "get_memory";
  readonly run: string;
  readonly node: number;
  readonly step: number;
}

/** Get statistics of all values at a moment; None for the latest. */
export interface GetStatistics {
  readonly type: "get_statistics";
  readonly run: string;
  readonly seq?: number | null;
}

/** Get the nodes that produced NaN or Inf or raised, in the whole recording. */
export interface GetProblems {
  readonly type: "get_problems";
  readonly run: string;
}

/**
 * Get the times of the steps that overlap a span of time.
 *
 * Attributes:
 *     limit: If there are more steps, neighbours are joined.
 *     step: A step to be answered separately as well, in `here`; 0 for none.
 *     after: Whether to include the time after that step, if anything ran then.
 */
export interface GetStepTimes {
  readonly type: "get_step_times";
  readonly run: string;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly limit?: number;
  readonly step?: number;
  readonly after?: boolean;
}

/**
 * Get the longest chain of a step, see `nodescope.record.critical_path`.
 *
 * Attributes:
 *     data: The chain by data alone, not as the step ran.
 *     start_ns, end_ns: The span of time whose members are requested, at most `limit` of them.
 */
export interface GetCriticalPath {
  readonly type: "get_critical_path";
  readonly run: string;
  readonly step: number;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly data?: boolean;
  readonly limit?: number;
}

/**
 * Get the memory that a step needs over time, see `nodescope.record.live_memory`.
 *
 * Attributes:
 *     start_ns, end_ns: The span of time that is shown, at about `limit` moments of it.
 *     at_seq: The execution at which values needed in memory are listed; None for the peak.
 */
export interface GetStepMemory {
  readonly type: "get_step_memory";
  readonly run: string;
  readonly step: number;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly limit?: number;
  readonly at_seq?: number | null;
}

/** The answer to the request with the same id. */
export interface Response {
  readonly type: "response";
  readonly id: number;
  readonly body: ResponseBody;
}

/** The server's identity and its runs. */
export interface Initialized {
  readonly type: "initialized";
  readonly server_version: string;
  readonly protocol: number;
  readonly runs: readonly RunInfo[];
}

/**
 * An entry in the list of runs.
 *
 * Attributes:
 *     id: 16 hexadecimal digits, unguessable enough to be a path component, never a path itself.
 *     name: The script's file name.
 *     argv: The command line.
 *     level: Capture level.
 *     state: `live` while connected, `finished` after its end, `lost` if it died without
 *         saying so, `recorded` when opened from a file.
 *     recording: Path of the `.nscope` file on the machine of the program.
 *     status: Exit status once finished.
 *     error: Last line of the traceback, or `""`.
 *     trouble: A current fault of the recording, in a line, or `""`.
 *     frameworks: The frameworks observed so far, with their capabilities; none for a live run
 *         that has not begun.
 *     broken_loss: The loss at the end, if it is not finite; known once the run is over.
 */
export interface RunInfo {
  readonly id: string;
  readonly name: string;
  readonly argv: readonly string[];
  readonly pid: number;
  readonly started_unix_ns: number;
  readonly level: Level;
  readonly state: "live" | "finished" | "lost" | "recorded";
  readonly recording: string;
  readonly status: number | null;
  readonly error: string;
  readonly trouble: string;
  readonly frameworks: readonly Framework[];
  readonly broken_loss: BrokenLoss | null;
}

/**
 * A library observed by a run.
 *
 * Attributes:
 *     dialect: The dialect of its nodes (`Node.dialect`): its adapter's name.
 *     version: The library's version, or `""`.
 *     capabilities: What can be observed of its nodes, and done with them.
 *     threads: The number of threads that compute an operation; 0 if that does not matter.
 */
export interface Framework {
  readonly dialect: string;
  readonly version: string;
  readonly capabilities: Capabilities;
  readonly threads: number;
}

/**
 * What can be observed of a run, and what can be done with it.
 *
 * Attributes:
 *     before: Whether the run can stop before a node, with its inputs.
 *     edit: How a value is changed at a stop: not at all, in place, or by replacing its array.
 *     gradients: Whether gradients of values are reported.
 *     scopes: The scopes of nodes: none, names given by the program, or its modules.
 *     steps: What ends a training step: marks in the program, a step of an optimizer, a call of
 *         the outermost module, a line that is reached again, or nothing.
 *     timing: Which times are known: none, the host's, or the device's.
 *     values: What is kept of values: nothing, statistics, or every element.
 *     rerun: What can be rerun from a recording: nothing, single nodes, or whole graphs.
 *     workers: Whether nodes run in several processes.
 *     immutable: Whether no operation changes an existing value.
 *     unrolled: Whether each call is a node of its own, also in a loop without steps.
 */
export interface Capabilities {
  readonly before: boolean;
  readonly edit: "none" | "in_place" | "replace";
  readonly gradients: boolean;
  readonly scopes: "none" | "names" | "modules";
  readonly steps: "marked" | "optimizer" | "root_call" | "source_line" | "none";
  readonly timing: "none" | "host" | "device";
  readonly values: "none" | "summary" | "full";
  readonly rerun: "none" | "node" | "graph";
  readonly workers: boolean;
  readonly immutable: boolean;
  readonly unrolled: boolean;
}

/**
 * A loss that is NaN or infinite at the end of a run, or now.
 *
 * Attributes:
 *     kind: `nan` or `inf`: which it became first.
 *     step: The training step since which it is not finite.
 */
export interface BrokenLoss {
  readonly kind: "nan" | "inf";
  readonly step: number;
}

/** The request was carried out, without further answer. */
export interface Done {
  readonly type: "done";
}

/**
 * One row per node that has run by `seq`; `step` is the training step at that moment.
 *
 * Attributes:
 *     since: If not None, there are only rows of nodes whose latest execution differs from that at
 *         `since`.
 *     gone: Nodes that had run by `since`, but not by `seq`.
 *     values: Values whose shape or dtype has changed during the run, as of `seq`.
 *     steps: Steps around `seq`, in a run with more than a snapshot contains; else empty.
 */
export interface StateAt {
  readonly type: "state_at";
  readonly seq: number;
  readonly step: number;
  readonly time_ns: number;
  readonly executions: ExecutionColumns;
  readonly since: number | null;
  readonly gone: readonly number[];
  readonly values: readonly ProducedValue[];
  readonly steps: readonly StepRow[];
}

/**
 * Executions column by column: numbers as in `graph_messages`.
 *
 * Attributes:
 *     count: Number of rows.
 *     flags: Bits of record.rows.
 *     times: The number of executions of the node up to this row; only in snapshots and states.
 *     worker, lane: The process that ran it and the queue of its device, as in
 *         `nodescope.events.NodeFinished`.
 */
export interface ExecutionColumns {
  readonly count: number;
  readonly seq: Uint8Array;
  readonly node: Uint8Array;
  readonly step: Uint8Array;
  readonly thread: Uint8Array;
  readonly start_ns: Uint8Array;
  readonly duration_ns: Uint8Array;
  readonly flags: Uint8Array;
  readonly times: Uint8Array;
  readonly worker: Uint8Array;
  readonly lane: Uint8Array;
}

/** A value with the node that produces it; None for a fed value. */
export interface ProducedValue {
  readonly value: Value;
  readonly producer: number | null;
}

/**
 * The tensor of an edge: the value at one output port of a node.
 *
 * Attributes:
 *     id: Unique in the run.
 *     spec: Shape and dtype as first seen; a later execution may carry another shape.
 *     name: `<node name>` for the first output, `<node name>:<port>` for the others.
 *     storage: A number for its memory: values with the same one are views of each other. 0 if
 *         unknown.
 */
export interface Value {
  readonly id: number;
  readonly spec: TensorSpec | OpaqueSpec;
  readonly name: string;
  readonly storage: number;
}

/**
 * Shape and NumPy dtype name of a tensor, such as `((32, 10), "float32")`.
 *
 * Attributes:
 *     shape: A size per axis; None where the framework does not know it.
 *     dtype: NumPy's name, or the framework's own where NumPy has none.
 *     device: Where the elements are; `""` stands for where the node ran.
 */
export interface TensorSpec {
  readonly kind: "tensor";
  readonly shape: readonly (number | null)[];
  readonly dtype: string;
  readonly device: string;
}

/**
 * A value that is not an array, such as a list, a dataset or an object in Ray's store.
 *
 * Attributes:
 *     type: Its class, as `module.Name`.
 *     nbytes: Its size in bytes; None if unknown.
 */
export interface OpaqueSpec {
  readonly kind: "opaque";
  readonly type: string;
  readonly nbytes: number | null;
}

/**
 * A training step. `end_ns` and `end_seq` are None while it runs.
 *
 * Attributes:
 *     observed: False if the governor left the step out: nothing is known about what ran in it.
 */
export interface StepRow {
  readonly step: number;
  readonly start_seq: number;
  readonly start_ns: number;
  readonly end_seq: number | null;
  readonly end_ns: number | null;
  readonly observed: boolean;
}

/**
 * A value at a moment.
 *
 * Attributes:
 *     found: Whether the value had been computed by then.
 *     seq, step: The execution that wrote it.
 *     summary: None at the levels graph and timing.
 *     shape: The full shape; `index` the leading indices used.
 *     data: The window's elements, row by row, float64 little-endian (integers and bools too;
 *         complex as magnitude; int64 beyond 2^53 is rounded). Empty if not `available`.
 *     window: row, col, rows, cols of `data`.
 *     grid: rows and cols of the whole two-dimensional slice.
 *     available: Whether the elements could be read. If not, `reason` says why.
 *     branch: The what-if branch whose value it is; 0 for the recorded one.
 */
export interface ValueSlice {
  readonly type: "value_slice";
  readonly value: number;
  readonly found: boolean;
  readonly seq: number;
  readonly step: number;
  readonly spec: TensorSpec | OpaqueSpec | null;
  readonly summary: TensorSummary | null;
  readonly shape: readonly number[];
  readonly index: readonly number[];
  readonly window: readonly [number, number, number, number];
  readonly grid: readonly [number, number];
  readonly data: Uint8Array;
  readonly available: boolean;
  readonly reason: string;
  readonly branch: number;
}

/**
 * Statistics of a tensor at a moment.
 *
 * Attributes:
 *     spec: Shape and dtype of the tensor at that moment.
 *     nbytes: Size of its elements in bytes.
 *     min, max, mean, std, norm: Over finite elements, as float64; None without any. `std` is
 *         the population's (ddof 0), `norm` the Euclidean norm. For complex tensors these are of
 *         the magnitude; for bool tensors, of 0 and 1. An extreme of zero has no sign: which of
 *         0.0 and -0.0 is less depends on the order in which elements are compared.
 *     nan_count, inf_count, zero_count: Exact counts of elements.
 *     histogram: Counts of finite elements in equal bins from `min` to `max`; empty if none.
 *     preview: The first elements in C order, at most 8, as float64 (or the magnitude).
 *     blob: Whether the full array is kept in the recording.
 */
export interface TensorSummary {
  readonly spec: TensorSpec;
  readonly nbytes: number;
  readonly min: number | null;
  readonly max: number | null;
  readonly mean: number | null;
  readonly std: number | null;
  readonly norm: number | null;
  readonly nan_count: number;
  readonly inf_count: number;
  readonly zero_count: number;
  readonly histogram: readonly number[];
  readonly preview: readonly number[];
  readonly blob: boolean;
}

/**
 * Executions of a node, and the summaries of its first output, thinned alike.
 *
 * Attributes:
 *     total: Number of executions before thinning.
 *     edits: The user's edits of its outputs.
 */
export interface History {
  readonly type: "history";
  readonly node: number;
  readonly total: number;
  readonly executions: ExecutionColumns;
  readonly points: readonly ValuePoint[];
  readonly edits: readonly EditRow[];
}

/** One moment of a value's history. */
export interface ValuePoint {
  readonly seq: number;
  readonly step: number;
  readonly summary: TensorSummary | null;
}

/**
 * A value edited by the user while the program was stopped.
 *
 * Attributes:
 *     seq: Seq from which the value is the edited one; its summary and array are stored under it.
 *     at_seq: The execution at which the program was stopped.
 *     how: Description of the edit.
 */
export interface EditRow {
  readonly seq: number;
  readonly value: number;
  readonly at_seq: number;
  readonly step: number;
  readonly time_ns: number;
  readonly how: string;
}

/**
 * Executions in a span of time; `total` before thinning, `host` between them.
 *
 * Attributes:
 *     executions: Includes, in the lanes of device queues, when devices ran them.
 *     lanes: The names of these lanes.
 *     main_thread: As in the columns; None if the recording does not say.
 */
export interface Timeline {
  readonly type: "timeline";
  readonly start_ns: number;
  readonly end_ns: number;
  readonly total: number;
  readonly executions: ExecutionColumns;
  readonly host: readonly HostTime[];
  readonly lanes: readonly LaneName[];
  readonly main_thread: number | null;
}

/** Where a thread was while it ran no node: a `HostSpan`, with the thread as in columns. */
export interface HostTime {
  readonly kind: HostKind;
  readonly thread: number;
  readonly step: number;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly file: string;
  readonly line: number;
  readonly function: string;
}

/** The name of a device's queue, such as `cuda:0`. */
export interface LaneName {
  readonly lane: number;
  readonly name: string;
}

/** A source file, as it was during the run. */
export interface Source {
  readonly type: "source";
  readonly file: string;
  readonly text: string;
  readonly found: boolean;
}

/**
 * The module of a scope; `kind` is `""` if the scope is not a module or it is unknown.
 *
 * Attributes:
 *     kind: Its class.
 *     attrs: Its settings, as text.
 */
export interface ScopeFacts {
  readonly type: "scope_facts";
  readonly scope: string;
  readonly kind: string;
  readonly attrs: Readonly<Record<string, string>>;
}

/**
 * The moment to which `Move` leads.
 *
 * Attributes:
 *     seq: The execution, or None if there is none; `text` describes it, or gives the reason.
 */
export interface Moved {
  readonly type: "moved";
  readonly seq: number | null;
  readonly text: string;
  readonly node: number;
  readonly step: number;
}

/**
 * The result of parsing a breakpoint.
 *
 * Attributes:
 *     breakpoint: None if it could not be understood.
 *     fault: The error, with the column; or `""`.
 */
export interface BreakpointRead {
  readonly type: "breakpoint_read";
  readonly breakpoint: Breakpoint | null;
  readonly fault: string;
}

/**
 * The origin of elements.
 *
 * Attributes:
 *     elements, followed: Number of elements requested, and of those followed.
 *     branch: The branch in which one of them differs from the recorded run; 0 for none.
 */
export interface WhyAnswer {
  readonly type: "why";
  readonly value: number;
  readonly seq: number;
  readonly elements: number;
  readonly followed: number;
  readonly groups: readonly WhyGroup[];
  readonly branch: number;
}

/**
 * Elements with the same culprit.
 *
 * Attributes:
 *     count: Number of followed elements in the group.
 *     text: A summary in a sentence or two.
 *     links: The chain of the first element, back in time.
 */
export interface WhyGroup {
  readonly count: number;
  readonly text: string;
  readonly links: readonly WhyLink[];
}

/**
 * One element of one value, and its cause.
 *
 * Attributes:
 *     kind: As in `nodescope.debug.why.Cause`.
 *     name: The value's name; inside a kernel, the node's.
 *     node: Id of the executed node; for a kernel, the kernel's.
 *     number: The element; `""` if unavailable.
 *     how: `recorded`, `recomputed`, `in <kernel>` or `in the branch`.
 *     recorded: The element in the recorded run, if it differs in the branch; else `""`.
 *     error: Of an operation that raised: its message.
 *     others: Number of operands not listed.
 *     birth: For a NaN, Inf or zero that arose here: how, in a short word.
 *     ranges: For such an origin: the contents of the op's inputs.
 *     file, line, code: The user's line; `""` and 0 if unknown.
 *     culprit: Whether this is the origin.
 */
export interface WhyLink {
  readonly kind: WhyKind;
  readonly name: string;
  readonly op: string;
  readonly phase: Phase;
  readonly node: number;
  readonly value: number;
  readonly seq: number;
  readonly step: number;
  readonly at: readonly number[];
  readonly number: string;
  readonly state: NumberState;
  readonly how: string;
  readonly words: string;
  readonly operands: readonly WhyOperand[];
  readonly others: number;
  readonly birth: string;
  readonly ranges: readonly string[];
  readonly file: string;
  readonly line: number;
  readonly code: string;
  readonly culprit: boolean;
  readonly error: string;
  readonly recorded: string;
}

/**
 * An element that another one depends on.
 *
 * Attributes:
 *     at: Its index; None for a literal number in the program, and for a value as a whole.
 *     number: The element; `""` for a value as a whole.
 *     term: Its term, if the result is a sum; or `""`.
 *     share: Its share of the result, from 0 to 1, if that is a sum.
 *     selects: Whether it only selects.
 */
export interface WhyOperand {
  readonly name: string;
  readonly at: readonly number[] | null;
  readonly number: string;
  readonly state: NumberState;
  readonly term: string;
  readonly share: number | null;
  readonly selects: boolean;
}

/**
 * The history of NaN and Inf in a step.
 *
 * Attributes:
 *     executions, touched, known: Numbers of operations that ran, that returned such values, and
 *         of executions with statistics.
 *     births: The first origins; the first one is the culprit.
 *     born, healed: Numbers of both; `heals` lists the first ones.
 *     others: All births except the first, in words.
 */
export interface SpreadAnswer {
  readonly type: "spread";
  readonly step: number;
  readonly executions: number;
  readonly touched: number;
  readonly known: number;
  readonly births: readonly BornValue[];
  readonly born: number;
  readonly heals: readonly HealedValue[];
  readonly healed: number;
  readonly others: string;
}

/**
 * A node that made NaN or Inf from finite operands.
 *
 * Attributes:
 *     at: The first such element; None if no array is available.
 *     label: What it is among those of the step: `first culprit`, `healed` …
 *     reached: The nodes that it reached, in words: `reached 4 nodes, the loss among them`.
 *     source: The user's line, or `""`.
 */
export interface BornValue {
  readonly name: string;
  readonly node: number;
  readonly seq: number;
  readonly at: readonly number[] | null;
  readonly kind: string;
  readonly words: string;
  readonly ranges: readonly string[];
  readonly label: string;
  readonly reached: string;
  readonly source: string;
}

/** A node that took NaN or Inf, but returned none. */
export interface HealedValue {
  readonly name: string;
  readonly node: number;
  readonly seq: number;
  readonly words: string;
}

/**
 * The branches of a run, each after its parent.
 *
 * Attributes:
 *     notes: Why branches could not be read or stored.
 */
export interface BranchList {
  readonly type: "branches";
  readonly branches: readonly BranchInfo[];
  readonly notes: readonly string[];
}

/**
 * A branch in the tree.
 *
 * Attributes:
 *     parent: Id of the parent branch; 0 for the recorded run.
 *     step, seq: The moment at which it starts.
 *     last_step: The last training step that was rerun.
 *     edit: Description of the edit.
 *     node: Id of the node whose value was changed.
 *     changed, same, blocked: Numbers of nodes whose results changed, stayed bit-identical, and
 *         that could not be rerun.
 *     nbytes: Size of the arrays that changed.
 */
export interface BranchInfo {
  readonly id: number;
  readonly name: string;
  readonly parent: number;
  readonly step: number;
  readonly last_step: number;
  readonly seq: number;
  readonly edit: string;
  readonly node: number;
  readonly changed: number;
  readonly same: number;
  readonly blocked: number;
  readonly nbytes: number;
}

/**
 * The changes in a branch.
 *
 * Attributes:
 *     changes: In the order of the run, the edited value first; if too many, scalars and the first
 *         ones.
 *     unlisted: Number of further changes.
 *     blocked: The first nodes that could not be rerun.
 *     redone: A description of what was rerun and what was not.
 *     changed_values: All changed values, listed or not: each node and value, once.
 *     blocked_nodes: All nodes that could not be rerun, each once.
 */
export interface BranchAnswer {
  readonly type: "branch";
  readonly info: BranchInfo;
  readonly changes: readonly ChangedValue[];
  readonly unlisted: number;
  readonly blocked: readonly BlockedNode[];
  readonly redone: string;
  readonly changed_values: readonly (readonly [number, number])[];
  readonly blocked_nodes: readonly number[];
}

/**
 * A value that differs in a branch.
 *
 * Attributes:
 *     seq, step: The execution that wrote it.
 *     old, new: The value in the branch's parent, and in the branch.
 *     differ, size: Number of elements that differ, and total number.
 *     largest: The largest absolute difference of finite elements; None if there is none.
 *     at: Its index; that of the first differing element if there is no largest difference.
 *     before, after: That element.
 *     edited: Whether it was set rather than computed.
 */
export interface ChangedValue {
  readonly name: string;
  readonly node: number;
  readonly value: number;
  readonly seq: number;
  readonly step: number;
  readonly phase: Phase;
  readonly old: TensorSummary;
  readonly new: TensorSummary;
  readonly differ: number;
  readonly size: number;
  readonly largest: number | null;
  readonly at: readonly number[];
  readonly before: string;
  readonly after: string;
  readonly edited: boolean;
}

/** A node that depends on an edit and could not be rerun. */
export interface BlockedNode {
  readonly name: string;
  readonly node: number;
  readonly seq: number;
  readonly reason: string;
}

/** All rules by kind and name, and recommended watches, most informative first. */
export interface RuleList {
  readonly type: "rules";
  readonly rules: readonly RuleInfo[];
  readonly recommended: readonly RecommendedWatch[];
}

/**
 * A watch rule.
 *
 * Attributes:
 *     about: The condition for a hit, in one line.
 *     asked: What it applies to, as text.
 *     origin: The origin of the rule.
 *     aliases: Abbreviations and other names.
 *     text: A watch to start from; parts that only the user can know are `"..."`.
 *     whole: Whether it needs all elements, not just statistics.
 */
export interface RuleInfo {
  readonly name: string;
  readonly about: string;
  readonly asked: string;
  readonly origin: string;
  readonly aliases: readonly string[];
  readonly parameters: readonly RuleParameter[];
  readonly text: string;
  readonly whole: boolean;
}

/**
 * A parameter of a watch.
 *
 * Attributes:
 *     default: The default as text; `""` if it has none.
 *     unit: `%`, `s`, `steps` or `""`.
 *     required: Whether it must be set; of those with `choice`, one must be.
 */
export interface RuleParameter {
  readonly name: string;
  readonly about: string;
  readonly default: string;
  readonly unit: string;
  readonly required: boolean;
  readonly choice: boolean;
}

/** A watch recommended for the program, and the reason. */
export interface RecommendedWatch {
  readonly text: string;
  readonly about: string;
  readonly reason: string;
}

/**
 * The result of parsing a watch.
 *
 * Attributes:
 *     texts: The watches in canonical form; none if they could not be understood.
 *     fault: The error, with the column; or `""`.
 */
export interface WatchRead {
  readonly type: "watch_read";
  readonly texts: readonly string[];
  readonly fault: string;
}

/**
 * Findings in a recording.
 *
 * Attributes:
 *     hits: The first findings, in order of the run.
 *     total: Number of findings.
 *     looked: Number of values examined.
 *     caveats: Descriptions of what could not be evaluated.
 *     fault: The error in the text, with the column; or `""`.
 */
export interface WatchAnswer {
  readonly type: "watch_answer";
  readonly hits: readonly WatchHit[];
  readonly total: number;
  readonly looked: number;
  readonly caveats: readonly string[];
  readonly fault: string;
}

/** A finding. */
export interface WatchHit {
  readonly node: number;
  readonly name: string;
  readonly step: number;
  readonly seq: number;
  readonly text: string;
}

/**
 * The difference of a value between two moments.
 *
 * Attributes:
 *     same: Whether both moments show the same execution.
 *     measure: The measure of the difference: over all elements, else over statistics, else why
 *         there is none.
 *     differ: Number of elements that differ in any bit; None without elements.
 *     first: The first differing element.
 *     largest: The element with the largest finite difference.
 *     difference: Statistics of the elementwise difference; for complex numbers, of its magnitude.
 *         Where both are the same NaN or Inf, it is 0.
 *     shape, index, window, grid, data: The difference itself, as in `ValueSlice`.
 */
export interface MomentsCompared {
  readonly type: "moments_compared";
  readonly value: number;
  readonly one: ValueMoment;
  readonly other: ValueMoment;
  readonly same: boolean;
  readonly measure: Measure;
  readonly differ: number | null;
  readonly first: ElementPair | null;
  readonly largest: ElementPair | null;
  readonly difference: TensorSummary | null;
  readonly shape: readonly number[];
  readonly index: readonly number[];
  readonly window: readonly [number, number, number, number];
  readonly grid: readonly [number, number];
  readonly data: Uint8Array;
}

/**
 * A value at one of the two moments.
 *
 * Attributes:
 *     found: Whether the value had been computed by then.
 *     seq, step: The execution that wrote it.
 *     summary: None where no statistics are kept.
 *     elements: Whether its elements are available; otherwise `reason` says why not.
 *     edit: Description of the user's edit; or `""`.
 */
export interface ValueMoment {
  readonly found: boolean;
  readonly seq: number;
  readonly step: number;
  readonly summary: TensorSummary | null;
  readonly elements: boolean;
  readonly reason: string;
  readonly edit: string;
}

/**
 * The difference between a value of the compiled run and that of the eager run.
 *
 * Attributes:
 *     source: `arrays` (all elements), `summaries` (statistics: `max_abs` and `max_rel`
 *         are then the largest differences of minimum, maximum, mean, deviation and norm) or
 *         `none`.
 *     equal: Whether the arrays are bit-equal (NaN equals NaN), or else the statistics equal.
 *     elements: The number of elements.
 *     max_abs, max_rel: The largest absolute and relative error, at most the largest float; None
 *         if no element is finite in both.
 *     ulp: The largest distance in units of the last place; None for integers, complex numbers and
 *         statistics.
 *     mismatched: The share of elements beyond the tolerance of the dtype, from 0 to 1; None for
 *         statistics.
 *     nan, inf: Counts in the eager and in the compiled value.
 *     why: Why nothing could be measured, or `""`.
 */
export interface Measure {
  readonly source: MeasureSource;
  readonly equal: boolean;
  readonly elements: number;
  readonly max_abs: number | null;
  readonly max_rel: number | null;
  readonly ulp: number | null;
  readonly mismatched: number | null;
  readonly nan: readonly [number, number];
  readonly inf: readonly [number, number];
  readonly why: string;
}

/** One element at both moments. */
export interface ElementPair {
  readonly at: readonly number[];
  readonly one: string;
  readonly other: string;
}

/**
 * The attributes of a node's op at a moment.
 *
 * Attributes:
 *     seq, step: The execution; 0 if it had not run by then.
 *     changed: The values at its first execution of attributes that have changed.
 */
export interface NodeAttributes {
  readonly type: "node_attributes";
  readonly node: number;
  readonly seq: number;
  readonly step: number;
  readonly attrs: Readonly<Record<string, unknown>>;
  readonly changed: Readonly<Record<string, unknown>>;
}

/**
 * The memory that a training step needs, see `nodescope.record.live_memory`.
 *
 * Attributes:
 *     live: While the node runs, in bytes; None if it did not run in the step.
 *     peak: The most, in bytes.
 *     peak_node: The node at which that is.
 */
export interface NodeMemory {
  readonly type: "node_memory";
  readonly node: number;
  readonly step: number;
  readonly live: number | null;
  readonly peak: number;
  readonly peak_node: number;
}

/**
 * Statistics of all values for which there are any, in columns of one entry per value.
 *
 * Attributes:
 *     count: Number of values.
 *     values: uint32, their ids.
 *     elements, zeros: float64, numbers of elements and of those that are zero.
 *     norms: float64, Euclidean norms of the finite elements; NaN without any.
 */
export interface Statistics {
  readonly type: "statistics";
  readonly count: number;
  readonly values: Uint8Array;
  readonly elements: Uint8Array;
  readonly zeros: Uint8Array;
  readonly norms: Uint8Array;
}

/**
 * Nodes with problems in the order in which they began.
 *
 * Attributes:
 *     rows: At most some hundreds of them.
 *     nodes, executions: Total numbers.
 *     broken_loss: The loss at the end, if not finite; its steps may be unobserved.
 *     masks: Further nodes whose Inf all come from the program itself, such as masks.
 */
export interface ProblemList {
  readonly type: "problems";
  readonly rows: readonly NodeProblem[];
  readonly nodes: number;
  readonly executions: number;
  readonly broken_loss: BrokenLoss | null;
  readonly masks: number;
}

/**
 * The problem of one node. Sent to the page unchanged.
 *
 * Attributes:
 *     node: The node's id.
 *     count: Number of its bad executions.
 *     first_seq, first_step, last_seq, last_step: The first and the last of them.
 *     nan, inf, failed: Whether one of them produced NaN or Inf, or raised.
 *     error: The last exception raised, or `""`.
 *     healed: Whether later executions were finite.
 *     edits: Descriptions of the user's latest edits of its outputs.
 *     edited: Whether it began with an edit: the user set a value to NaN or Inf.
 *     first: Whether NaN or Inf began here in the run; without any, whether it raised first.
 */
export interface NodeProblem {
  readonly node: number;
  readonly count: number;
  readonly first_seq: number;
  readonly first_step: number;
  readonly last_seq: number;
  readonly last_step: number;
  readonly nan: boolean;
  readonly inf: boolean;
  readonly failed: boolean;
  readonly error: string;
  readonly healed: boolean;
  readonly edits: readonly string[];
  readonly edited: boolean;
  readonly first: boolean;
}

/**
 * The answer to `GetStepTimes`.
 *
 * Attributes:
 *     count: Number of rows, each for one step or several consecutive ones.
 *     first, last, start_ns, end_ns, left_out, after: float64 columns; `left_out` counts steps
 *         that were not observed, `after` is 1 for the time after step `last`.
 *     parts: float64, `count` rows of one column per `PARTS`, in nanoseconds.
 *     since_ns, total_ns: Start and end of the recording.
 *     holds: float64 pairs: all times when the debugger held the program, in order.
 *     partial: Whether some operations have no row, so that time between operations includes them.
 */
export interface StepTimes {
  readonly type: "step_times";
  readonly count: number;
  readonly first: Uint8Array;
  readonly last: Uint8Array;
  readonly start_ns: Uint8Array;
  readonly end_ns: Uint8Array;
  readonly left_out: Uint8Array;
  readonly after: Uint8Array;
  readonly parts: Uint8Array;
  readonly since_ns: number;
  readonly total_ns: number;
  readonly holds: Uint8Array;
  readonly partial: boolean;
  readonly here: Stretch | null;
}

/**
 * One step or several consecutive ones, or the time after a step and before the next.
 *
 * Attributes:
 *     first, last: The steps.
 *     start_ns, end_ns: Nanoseconds since the run began, including held time.
 *     parts: Nanoseconds by `PARTS`; all but `held` add up to the duration.
 *     left_out: Number of steps that were not observed: their operations count as `between`.
 *     after: Whether this is the time after step `last`, such as an evaluation, and not part of
 *         it.
 */
export interface Stretch {
  readonly first: number;
  readonly last: number;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly parts: readonly number[];
  readonly left_out: number;
  readonly after: boolean;
}

/**
 * The answer to `GetCriticalPath`.
 *
 * Attributes:
 *     observed: Whether the step was observed, so that its executions are known.
 *     partial: As in `StepTimes`.
 *     lanes: The number of lanes on which operations ran.
 *     operations_ns: The sum of the times of all operations.
 *     ran_ns, data_ns: The length of the chain as the step ran, and by data alone.
 *     members, nodes: The numbers of executions and of nodes on the requested chain.
 *     count: The number of rows in the columns: members in the span of time, the longest ones if
 *         there are too many, in order.
 *     place, node, start_ns, duration_ns: float64 columns; `place` is the position in the chain.
 *     heaviest: Up to 50 of its nodes, by decreasing time.
 */
export interface CriticalPath {
  readonly type: "critical_path";
  readonly step: number;
  readonly observed: boolean;
  readonly partial: boolean;
  readonly lanes: number;
  readonly operations_ns: number;
  readonly ran_ns: number;
  readonly data_ns: number;
  readonly members: number;
  readonly nodes: number;
  readonly count: number;
  readonly place: Uint8Array;
  readonly node: Uint8Array;
  readonly start_ns: Uint8Array;
  readonly duration_ns: Uint8Array;
  readonly heaviest: readonly PathMember[];
}

/**
 * A node on a path.
 *
 * Attributes:
 *     times, total_ns: The number of its executions on the path, and their total time.
 *     seq: Its longest execution on the path.
 */
export interface PathMember {
  readonly node: number;
  readonly times: number;
  readonly total_ns: number;
  readonly seq: number;
}

/**
 * The answer to `GetStepMemory`.
 *
 * Attributes:
 *     observed, partial: As in `CriticalPath`.
 *     count: The number of rows in the columns.
 *     time_ns, needed, seq: float64 columns: from each moment to the next, the bytes that are
 *         needed, or the most of them where moments are joined, and an execution there.
 *     peak, peak_ns, peak_end_ns, peak_node, peak_seq: The most bytes that the step needs, from
 *         when to when, and what runs then.
 *     unknown: The number of values of the step whose size is unknown.
 *     at_ns, at: The moment that `values` describe, and the bytes needed then.
 *     values: The largest values, up to 50.
 *     further, further_nbytes: The number of further values, and their bytes.
 */
export interface StepMemory {
  readonly type: "step_memory";
  readonly step: number;
  readonly observed: boolean;
  readonly partial: boolean;
  readonly count: number;
  readonly time_ns: Uint8Array;
  readonly needed: Uint8Array;
  readonly seq: Uint8Array;
  readonly peak: number;
  readonly peak_ns: number;
  readonly peak_end_ns: number;
  readonly peak_node: number;
  readonly peak_seq: number;
  readonly unknown: number;
  readonly at_ns: number;
  readonly at: number;
  readonly values: readonly HeldValue[];
  readonly further: number;
  readonly further_nbytes: number;
}

/**
 * A value that needs memory at a moment.
 *
 * Attributes:
 *     nbytes: None if its size is not known.
 *     producer: The node that produced it in the step; 0 if it existed before.
 *     seq: The execution that produced it; 0 if it existed before.
 *     throughout: Whether the whole step needs it.
 *     views: The number of further values in the same memory.
 */
export interface HeldValue {
  readonly value: number;
  readonly nbytes: number | null;
  readonly producer: number;
  readonly seq: number;
  readonly start_ns: number;
  readonly end_ns: number;
  readonly throughout: boolean;
  readonly views: number;
}

/** The request could not be carried out; `message` is for the user. */
export interface Failed {
  readonly type: "failed";
  readonly message: string;
  readonly hint: string;
}

/** Asks the page whether it is responsive; it answers `Alive` at once. */
export interface Heartbeat {
  readonly type: "heartbeat";
}

/** The complete list of runs. */
export interface RunsChanged {
  readonly type: "runs";
  readonly runs: readonly RunInfo[];
}

/** The stopped programs of this server that the page does not follow, whenever they change. */
export interface StoppedElsewhere {
  readonly type: "stopped_elsewhere";
  readonly runs: readonly StoppedRun[];
}

/** A run whose program is stopped, and the name of the node where it is stopped. */
export interface StoppedRun {
  readonly run: string;
  readonly name: string;
  readonly node: string;
}

/**
 * Everything that a page needs to show a run at `seq`; replaces earlier data.
 *
 * Attributes:
 *     last_event: The last record of the program's own activity up to `seq`; later records only
 *         concern which values are kept.
 *     nodes: Every definition in order; the last of each node is in force.
 *     executions: The latest of each node, with `times`.
 *     steps: All steps; if more than 4,000, evenly spaced ones and the last 2,000.
 *     logs: The last 2,000 lines.
 *     governed: The governor's latest report, without its nodes; None for a run without a limit.
 *     keeping: What is kept; None for recordings that do not say.
 */
export interface Snapshot {
  readonly type: "snapshot";
  readonly run: RunInfo;
  readonly seq: number;
  readonly last_event: number;
  readonly time_ns: number;
  readonly nodes: NodeColumns;
  readonly values: ValueColumns;
  readonly gradients: readonly GradientRow[];
  readonly steps: readonly StepRow[];
  readonly logs: readonly LogRow[];
  readonly executions: ExecutionColumns;
  readonly dropped: Dropped;
  readonly session: SessionInfo | null;
  readonly governed: Governed | null;
  readonly keeping: Keeping | null;
}

/**
 * Nodes as in `nodescope.ir.graph.Node`, with the following differences.
 *
 * Attributes:
 *     count: Number of rows.
 *     seq: The seq at which each was defined.
 *     name: Without `<scope>/` where `inside` is 1.
 *     kinds, kind: Each kind once, and numbers of kinds.
 *     attrs, settings: Each set of attributes once, and numbers of sets. Long texts are cut short.
 *     sources, line: Each line of the program once, and numbers of lines.
 *     forward: 0 for none.
 *     writes: Output port, input port, output port, ….
 */
export interface NodeColumns {
  readonly count: number;
  readonly seq: Uint8Array;
  readonly id: Uint8Array;
  readonly name: Texts;
  readonly inside: Uint8Array;
  readonly scope: Texts;
  readonly kinds: readonly NodeKind[];
  readonly kind: Uint8Array;
  readonly inputs: Lists;
  readonly control_inputs: Lists;
  readonly outputs: Lists;
  readonly attrs: readonly (Readonly<Record<string, unknown>>)[];
  readonly settings: Uint8Array;
  readonly sources: readonly (SourceLocation | null)[];
  readonly line: Uint8Array;
  readonly origin: Lists;
  readonly forward: Uint8Array;
  readonly writes: Lists;
}

/** A column of texts: each text once, and numbers of texts, from 0. */
export interface Texts {
  readonly texts: readonly string[];
  readonly places: Uint8Array;
}

/** Fields that many nodes share, as in `nodescope.ir.graph.Node`. */
export interface NodeKind {
  readonly op: string;
  readonly family: string;
  readonly phase: Phase;
  readonly device: string;
  readonly graph: number;
  readonly role: "op" | "parameter" | "buffer" | "input" | "constant" | "task" | "send" | "receive";
  readonly dialect: string;
  readonly native: string;
}

/** A column of lists of numbers: their lengths, and their items one after the other. */
export interface Lists {
  readonly lengths: Uint8Array;
  readonly items: Uint8Array;
}

/** A line of the user's program. */
export interface SourceLocation {
  readonly file: string;
  readonly line: number;
  readonly function: string;
}

/**
 * Values as in `nodescope.ir.graph.Value`, each with its producer.
 *
 * Attributes:
 *     count: Number of rows.
 *     name: `""` for the default name: the node's name for its first output, and
 *         `<node>:<port>` for the others.
 *     specs, spec: Each spec once, and numbers of specs.
 *     producer: Id of the node; 0 for a fed value.
 */
export interface ValueColumns {
  readonly count: number;
  readonly id: Uint8Array;
  readonly name: Texts;
  readonly specs: readonly (TensorSpec | OpaqueSpec)[];
  readonly spec: Uint8Array;
  readonly storage: Uint8Array;
  readonly producer: Uint8Array;
}

/** `gradient` holds the gradient of `value` from `seq` on (both are value ids). */
export interface GradientRow {
  readonly seq: number;
  readonly value: number;
  readonly gradient: number;
}

/** A line printed by the program. */
export interface LogRow {
  readonly seq: number;
  readonly step: number;
  readonly time_ns: number;
  readonly stream: "stdout" | "stderr" | "nodescope";
  readonly text: string;
}

/**
 * Exact counts of what was not kept.
 *
 * Attributes:
 *     blobs: Full arrays dropped for the byte budget (their summaries are kept).
 *     summaries: Outputs without statistics because the recorder's queue was full.
 *     executions: Events lost entirely, for the same reason.
 */
export interface Dropped {
  readonly blobs: number;
  readonly summaries: number;
  readonly executions: number;
}

/**
 * The state of a debug session as a client sees it.
 *
 * Attributes:
 *     version: Grows by one with every change, so that the newer of two states wins.
 *     attended: Whether a controller is connected; breakpoints of an unattended run do not stop.
 *     watches: The watches.
 */
export interface SessionInfo {
  readonly phase: SessionPhase;
  readonly version: number;
  readonly stop: Stop | null;
  readonly breakpoints: readonly BreakpointStatus[];
  readonly attended: boolean;
  readonly watches: readonly WatchStatus[];
}

/**
 * Why and where the program is stopped.
 *
 * Attributes:
 *     node: Node id of the cursor.
 *     seq: The execution's seq for `after`; for `before` the last seq recorded.
 *     breakpoint, watch: Id of the breakpoint or watch that was hit, or 0.
 *     text: A one-line description: `Breakpoint 1: value > 3 on loss/mean`.
 *     stack: The user's Python stack, innermost first.
 *     edits: Descriptions of the edits at this stop.
 *     error: The exception raised outside of operations, `ValueError: no`; the node is then the
 *         last one that ran. `""` at other stops.
 */
export interface Stop {
  readonly reason: StopReason;
  readonly node: number;
  readonly node_name: string;
  readonly scope: string;
  readonly when: When;
  readonly step: number;
  readonly seq: number;
  readonly thread: number;
  readonly breakpoint: number;
  readonly text: string;
  readonly stack: readonly Frame[];
  readonly edits: readonly string[];
  readonly watch: number;
  readonly error: string;
}

/** One frame of the user's Python stack, innermost first in a list. */
export interface Frame {
  readonly file: string;
  readonly line: number;
  readonly function: string;
  readonly code: string;
}

/**
 * A breakpoint and its state.
 *
 * Attributes:
 *     verified: Whether a node in the graph matches it. False means "not seen yet", not an error.
 *     hits: How often everything but its `hits` condition held.
 *     message: Why it is unverified or was disabled, with similar names; the fate of its node in a
 *         compiled function; or `""`.
 */
export interface BreakpointStatus {
  readonly breakpoint: Breakpoint;
  readonly verified: boolean;
  readonly hits: number;
  readonly message: string;
}

/**
 * An active watch rule, and its findings.
 *
 * Attributes:
 *     id: Chosen by the session, from 1 up.
 *     text: The watch as text, such as `tensor_overflow on scope:encoder -> stop`.
 *     rule: The rule's name.
 *     hits: Number of hits.
 *     last: Description of the last hit, or `""`.
 *     node: The node of the last hit, 0 without one.
 *     seq, step: The execution of the last hit.
 *     message: Why it applies to no node, or was disabled; or `""`.
 *     marks: Whether its hits are marked on their nodes.
 *     recent: The newest hits, latest first.
 */
export interface WatchStatus {
  readonly id: number;
  readonly text: string;
  readonly rule: string;
  readonly enabled: boolean;
  readonly hits: number;
  readonly last: string;
  readonly node: number;
  readonly seq: number;
  readonly step: number;
  readonly message: string;
  readonly marks: boolean;
  readonly recent: readonly WatchSeen[];
}

/** A hit of a watch: at which node, when, and a description of the finding. */
export interface WatchSeen {
  readonly node: number;
  readonly seq: number;
  readonly step: number;
  readonly text: string;
}

/**
 * The governor's report so far.
 *
 * Attributes:
 *     limit: The slowdown limit.
 *     slowdown: The run's slowdown: estimated, or measured against steps that were left out.
 *     extra_s: How many seconds longer the run took.
 *     measured: Whether the slowdown is measured.
 *     stuck: Whether the limit was exceeded although as little as allowed was recorded.
 *     steps: Training steps so far, if any may be left out.
 *     steps_left_out: Steps not observed at all; their executions are in none of the sums.
 *     calls: Outermost calls of modules outside of steps, if any may be left out.
 *     calls_left_out: Calls not observed at all.
 *     because: Why no step could be left out when one should have been, or `""`.
 *     by_hand: Number of nodes whose level the user chose.
 *     lowered: Number of nodes of which less was recorded than requested.
 *     executions, summaries, arrays: Sums over all nodes.
 *     values: Outputs whose statistics were requested, including `summaries`; 0 in a recording
 *         that did not count them.
 *     nodes: Nodes of which something was left out; largest losses first, 10,000 at most.
 */
export interface Governed {
  readonly limit: number;
  readonly slowdown: number;
  readonly stuck: boolean;
  readonly by_hand: number;
  readonly lowered: number;
  readonly executions: number;
  readonly summaries: number;
  readonly arrays: number;
  readonly nodes: readonly LeftOut[];
  readonly measured: boolean;
  readonly steps: number;
  readonly steps_left_out: number;
  readonly because: string;
  readonly calls: number;
  readonly calls_left_out: number;
  readonly extra_s: number;
  readonly values: number;
}

/**
 * Exact counts of what the governor left out of one node, which counts in place.
 *
 * Attributes:
 *     node: Its id; 0 in older recordings for nodes that ran only once, by their op.
 *     level: The level requested.
 *     executions: Executions without a row.
 *     summaries: Outputs whose statistics were left out.
 *     arrays: Outputs whose elements were left out.
 */
export interface LeftOut {
  readonly node: number;
  readonly name: string;
  readonly level: string;
  readonly executions: number;
  readonly summaries: number;
  readonly arrays: number;
}

/**
 * Which values of a run are kept, and the losses by cause.
 *
 * Attributes:
 *     level: The most that is kept of each execution.
 *     limit: The slowdown limit, kept by recording less; None without a limit.
 *     newest_steps: The number of newest observed training steps that are also kept whole (in a
 *         program without steps, the latest executions); 0 for none.
 *     newest_bytes: Upper limit of the arrays of those steps.
 *     budget_bytes: Upper limit of full arrays in the file, where the newest win.
 *     chosen: Whether the user chose the level; otherwise it is the default.
 *     everything: Whether the user asked for everything from now on: no limit, every element.
 *     nodes: Nodes of which every element is kept while they are being viewed.
 *     over_budget: Arrays that made room for newer ones because the budget was used up.
 *     behind: Arrays given up because the recorder could not keep up; their statistics are
 *         recorded.
 *     too_large: Arrays larger than the whole budget.
 *     made_room: Outputs of the newest steps that exceeded `newest_bytes`.
 *     nonfinite_steps: Steps kept whole because NaN, Inf or a non-finite loss first appeared
 *         there; 0 stands for executions outside of steps.
 *     unwritten: Counts of what could not be written to the disk, not included in the counts
 *         above.
 */
export interface Keeping {
  readonly level: string;
  readonly limit: number | null;
  readonly newest_steps: number;
  readonly newest_bytes: number;
  readonly budget_bytes: number;
  readonly chosen: boolean;
  readonly everything: boolean;
  readonly nodes: readonly number[];
  readonly over_budget: number;
  readonly behind: number;
  readonly too_large: number;
  readonly made_room: number;
  readonly nonfinite_steps: readonly number[];
  readonly unwritten: Unwritten | null;
}

/**
 * Counts of what could not be written to the disk; all of these are also counted in `Dropped`.
 *
 * Attributes:
 *     cause: `full` if the disk or quota had no space; `slow` if the disk had not taken
 *         everything when the program ended.
 *     arrays: Full arrays; their statistics may be recorded.
 *     summaries: Outputs without statistics.
 *     executions: Executions and printed lines of which nothing is recorded.
 *     structure: Definitions of nodes and values of the graph.
 *     first_step, last_step: The training steps in which they were lost.
 */
export interface Unwritten {
  readonly cause: "full" | "slow";
  readonly arrays: number;
  readonly summaries: number;
  readonly executions: number;
  readonly structure: number;
  readonly first_step: number;
  readonly last_step: number;
}

/**
 * Everything recorded after the previous message, up to `seq`.
 *
 * Attributes:
 *     last_event: As in `Snapshot`; 0 if the program did nothing.
 *     nodes, values: New or redefined.
 *     node_seqs: The seq at which each of `nodes` was defined.
 *     executions: Every one (live), in order of seq.
 *     steps: Steps that began or ended; replaces the row of the same step.
 *     skipped: Executions left out because there were more than a page can use; the last of each
 *         node is always among `executions`.
 *     governed: The governor's report since, without its nodes; None if there is none.
 *     keeping: What is kept, if reported since.
 */
export interface Records {
  readonly type: "records";
  readonly run: string;
  readonly seq: number;
  readonly last_event: number;
  readonly time_ns: number;
  readonly nodes: readonly Node[];
  readonly node_seqs: readonly number[];
  readonly values: readonly ProducedValue[];
  readonly gradients: readonly GradientRow[];
  readonly steps: readonly StepRow[];
  readonly logs: readonly LogRow[];
  readonly executions: ExecutionColumns;
  readonly dropped: Dropped;
  readonly skipped: number;
  readonly governed: Governed | null;
  readonly keeping: Keeping | null;
}

/**
 * One operation of the graph. Its executions are identified by `seq`.
 *
 * Attributes:
 *     id: Unique in the run, from 1 up, in order of first execution.
 *     name: Unique and readable: `<scope>/<op>`, then `<scope>/<op>_1` and so on.
 *     op: The op's name, such as `matmul`: nodescope's own if it has such an op.
 *     family: The op's family, which determines its colour: matmul, elementwise, activation,
 *         reduction, norm, layout, index, random, loss, update, control, kernel, communication,
 *         task, actor, other or leaf. Unknown families are shown as `other`.
 *     inputs: Value ids, by input port.
 *     control_inputs: Ids of nodes that must run before, without passing a value.
 *     outputs: Value ids, by output port.
 *     attrs: Arguments of the op (axis, keepdims, scalar operands), see `nodescope.ir.attrs`.
 *     scope: Path of name scopes, `"encoder/layer_0"`; `""` at the top. Nodes of the phases
 *         `backward` and `optimizer` are placed under a scope of that name:
 *         `"backward/encoder/layer_0"`.
 *     phase: The part of training that it belongs to.
 *     device: `"cpu"` unless an adapter says otherwise.
 *     source: The user's line that made it, if known.
 *     origin: Ids of the traced graph's nodes that it replaces; empty in a traced graph.
 *     forward: For a backward node, the id of the forward node that it differentiates.
 *     graph: For a node that runs as part of a compiled graph: the id of that captured graph, to
 *         whose traced graph `origin` refers. Else 0.
 *     role: Its purpose. An `op` computes. A `parameter` is trained, a `buffer` is other
 *         state that outlives a call, an `input` is data from the program, a `constant` is
 *         part of the graph: these four hold data and compute nothing (`is_leaf`). A `task` runs
 *         elsewhere; `send` and `receive` carry values there and back.
 *     dialect: The owner of its op, which can run it again: `nodescope`, or an adapter's name.
 *     native: The framework's own name for the op, `aten::addmm.default`; `""` if it is
 *         `op`.
 *     writes: Pairs of output port and input port: after it, the source of the input holds the
 *         output. This covers `assign`, in-place ops and writes through views.
 */
export interface Node {
  readonly id: number;
  readonly name: string;
  readonly op: string;
  readonly family: string;
  readonly inputs: readonly number[];
  readonly control_inputs: readonly number[];
  readonly outputs: readonly number[];
  readonly attrs: Readonly<Record<string, unknown>>;
  readonly scope: string;
  readonly phase: Phase;
  readonly device: string;
  readonly source: SourceLocation | null;
  readonly origin: readonly number[];
  readonly forward: number | null;
  readonly graph: number;
  readonly role: "op" | "parameter" | "buffer" | "input" | "constant" | "task" | "send" | "receive";
  readonly dialect: string;
  readonly native: string;
  readonly writes: readonly (readonly [number, number])[];
}

/** The session's new state. All records up to `info.stop.seq` were sent before it. */
export interface SessionChanged {
  readonly type: "session";
  readonly run: string;
  readonly info: SessionInfo;
}

/** A run ended, was lost or came back. */
export interface RunChanged {
  readonly type: "run";
  readonly run: RunInfo;
}

/**
 * Two runs of a program.
 *
 * Attributes:
 *     eager, compiled: Run ids.
 *     functions: The compiled functions, in the order in which they were traced.
 *     notes: Sentences on differences between the runs as a whole: numbers of steps, failures.
 *     timings: The times of both forms unobserved; None if they were not measured.
 *     verdict: Whether the runs are equal, and if not, where and why they first differ.
 */
export interface Comparison {
  readonly eager: string;
  readonly compiled: string;
  readonly functions: readonly ComparedFunction[];
  readonly notes: readonly string[];
  readonly timings: Timings | null;
  readonly verdict: Verdict | null;
}

/**
 * One trace of a compiled function beside the eager run of the same code.
 *
 * Attributes:
 *     owner: The function and the number of its trace.
 *     base: The scope in which it is called.
 *     backend, fallback, compile_ns, unfused, memory: See `nodescope.events.Compiled`.
 *     steps: The training steps in which it ran.
 *     stages: The traced graph, then one stage for each pass that changed it.
 *     nodes, kernels: The traced nodes and the final nodes, in order.
 *     fates: The number of nodes with each fate, without leaves.
 *     beside: Ids of the eager run's nodes in its first step, in order of execution.
 *     unmatched: Those of `beside` that match no node of the function, without leaves.
 *     eager_ns, compiled_ns: Sums of the median durations of the matched eager nodes and of the
 *         kernels, observed node by node; for unobserved times, see `Comparison.timings`.
 */
export interface ComparedFunction {
  readonly owner: string;
  readonly base: string;
  readonly backend: string;
  readonly fallback: string;
  readonly compile_ns: number;
  readonly steps: readonly number[];
  readonly stages: readonly Stage[];
  readonly nodes: readonly ComparedNode[];
  readonly kernels: readonly Kernel[];
  readonly fates: Readonly<Partial<Record<FateKind, number>>>;
  readonly beside: readonly number[];
  readonly unmatched: readonly number[];
  readonly eager_ns: number;
  readonly compiled_ns: number;
  readonly unfused: readonly string[];
  readonly memory: MemoryReport | null;
}

/**
 * The graph of a compiled function at one point of its compilation.
 *
 * Attributes:
 *     name: `traced`, the pass that produced it, or `final`.
 *     graph: Id of the captured graph.
 *     nodes: The number of nodes without leaves.
 *     changes: The changes made by the pass.
 *     took_ns: The duration of the pass.
 *     notes: Further remarks of the pass.
 */
export interface Stage {
  readonly name: string;
  readonly graph: number;
  readonly nodes: number;
  readonly changes: readonly StageChange[];
  readonly took_ns: number;
  readonly notes: readonly string[];
}

/**
 * One rewrite of a pass, with the names of nodes, or `@id` if unknown.
 *
 * Attributes:
 *     rule: The rule of the pass.
 *     kind: The change to the nodes in `before`.
 *     before, after: Names of the nodes before and after the rewrite.
 *     note: Further remarks.
 */
export interface StageChange {
  readonly rule: string;
  readonly kind: Change;
  readonly before: readonly string[];
  readonly after: readonly string[];
  readonly note: string;
}

/**
 * A traced node: its fate in the compiled graph, and its counterpart in the eager run.
 *
 * Attributes:
 *     id, name, op, family, role, phase: As of the traced node.
 *     fate: As in `nodescope.ir.provenance.Fate.kind`.
 *     by: Pass and rule of each change, as `pass/rule`.
 *     into: Ids of the final nodes that do its work.
 *     eager: Id of the matched node of the eager run, or 0.
 *     matched: The reason for the match: `name`, `order`, `inputs`, or `""` if none.
 *     eager_ns: Median duration of an execution in the eager run.
 *     values: The values by output port.
 */
export interface ComparedNode {
  readonly id: number;
  readonly name: string;
  readonly op: string;
  readonly family: string;
  readonly role: "op" | "parameter" | "buffer" | "input" | "constant" | "task" | "send" | "receive";
  readonly phase: string;
  readonly fate: FateKind;
  readonly by: readonly string[];
  readonly into: readonly number[];
  readonly eager: number;
  readonly matched: MatchReason;
  readonly eager_ns: number | null;
  readonly values: readonly ComparedValue[];
}

/**
 * A value of a traced node in both runs.
 *
 * Attributes:
 *     port: The output port of the node.
 *     eager, compiled: The value's id in each run; 0 if that run does not have it.
 *     spec: Shape and dtype as traced.
 *     worst: The measure with the largest error over `steps`; None if nothing was measured.
 *     steps: The training steps that were measured.
 *     why: Why the values could not be compared, or `""`.
 */
export interface ComparedValue {
  readonly port: number;
  readonly eager: number;
  readonly compiled: number;
  readonly spec: TensorSpec | OpaqueSpec;
  readonly worst: Measure | null;
  readonly steps: readonly number[];
  readonly why: string;
}

/**
 * A node of the final graph.
 *
 * Attributes:
 *     id, name, op: As of the final node.
 *     pattern: The pattern of a fused kernel, such as `softmax`; else `""`.
 *     covers: Ids of the traced nodes that it replaces, without leaves.
 *     run: Id of the node in the compiled run, or 0 if it was not recorded.
 *     times: The number of executions.
 *     ns: Median duration of an execution.
 *     eager_ns: Sum of the median durations of the eager nodes that it replaces.
 *     cost: The compiler's estimate; None if there is none.
 */
export interface Kernel {
  readonly id: number;
  readonly name: string;
  readonly op: string;
  readonly pattern: string;
  readonly covers: readonly number[];
  readonly run: number;
  readonly times: number;
  readonly ns: number | null;
  readonly eager_ns: number | null;
  readonly cost: KernelCost | null;
}

/**
 * The estimated cost of one executed node.
 *
 * Attributes:
 *     flops: Arithmetic operations.
 *     bytes: Read and written together.
 *     bound: Its limiting resource on the machine that compiled it.
 */
export interface KernelCost {
  readonly flops: number;
  readonly bytes: number;
  readonly bound: "memory" | "compute";
}

/**
 * Memory of a plan's intermediate results.
 *
 * Attributes:
 *     planned_bytes: Size of the arena: the peak after planning.
 *     unplanned_bytes: The peak if each result had its own memory, released after its last use.
 *     total_bytes: All intermediate results together.
 *     in_place: Number of results that take the place of an operand.
 */
export interface MemoryReport {
  readonly planned_bytes: number;
  readonly unplanned_bytes: number;
  readonly total_bytes: number;
  readonly in_place: number;
}

/**
 * What `nodescope compare` measured before it recorded.
 *
 * Attributes:
 *     functions: The functions called often enough to be timed.
 *     runs: Number of runs of each form.
 *     warm_up: Number of first calls left out of each run.
 *     cut: Why runs were ended early: `after 200 calls`; or `""`.
 */
export interface Timings {
  readonly functions: readonly FunctionTiming[];
  readonly runs: number;
  readonly warm_up: number;
  readonly cut: string;
}

/**
 * Unobserved timings of a compiled function, compiled and not.
 *
 * Attributes:
 *     pairs: Speedup by compiling for each pair of runs: ratios of their medians.
 */
export interface FunctionTiming {
  readonly name: string;
  readonly eager: CallTimes;
  readonly compiled: CallTimes;
  readonly pairs: readonly number[];
}

/**
 * Times of the unobserved calls of a function, in nanoseconds.
 *
 * Attributes:
 *     median_ns, low_ns, high_ns: The median, and the lower and upper quartiles.
 *     calls: Number of calls, excluding warm-up.
 */
export interface CallTimes {
  readonly median_ns: number;
  readonly low_ns: number;
  readonly high_ns: number;
  readonly calls: number;
}

/**
 * The verdict of a comparison.
 *
 * Attributes:
 *     outcome: Whether the runs are equal.
 *     text: The verdict in one sentence.
 *     cause: The kind of cause; `""` without a difference.
 *     function: The trace, as in `ComparedFunction.owner`; `""` if none is named.
 *     step: The training step in which the runs first differ; None without a difference.
 *     node, name: Id and name of the traced node; 0 and `""` if none is named.
 *     source: The line of that node.
 *     kernel, kernel_name: Id and name of the final node that computes it.
 *     rules: The responsible passes and rules, as `pass/rule`.
 *     calls, steps: The number of calls checked, and of training steps compared.
 *     amount: The extent of the difference in the cross-check, also for nodes inside kernels,
 *         which no recording contains; None if the cross-check found no difference.
 *     detail: Further details.
 */
export interface Verdict {
  readonly outcome: "equal" | "rounding" | "differs" | "unchecked";
  readonly text: string;
  readonly cause: "kernel" | "plan" | "rewrite" | "memory" | "order" | "provenance" | "compilation" | "form" | "trace" | "input" | "end" | "lowering" | "program" | "value" | "";
  readonly function: string;
  readonly step: number | null;
  readonly node: number;
  readonly name: string;
  readonly source: SourceLocation | null;
  readonly kernel: number;
  readonly kernel_name: string;
  readonly rules: readonly string[];
  readonly calls: number;
  readonly steps: number;
  readonly amount: Amount | null;
  readonly detail: string;
}

/**
 * The extent to which an array differs.
 *
 * Attributes:
 *     elements: Number of its elements.
 *     differing: Number of elements that differ.
 *     max_abs: The largest difference of two finite elements, at most the largest float; None
 *         without any.
 *     expected, actual: The first differing elements, as text.
 *     at: Their index.
 */
export interface Amount {
  readonly elements: number;
  readonly differing: number;
  readonly max_abs: number | null;
  readonly expected: string;
  readonly actual: string;
  readonly at: readonly number[];
}

/** A traced node's first value in both runs, step by step. */
export interface ErrorHistory {
  readonly node: number;
  readonly steps: readonly number[];
  readonly measures: readonly Measure[];
}

/** The compiled functions of a run, in the order in which they were traced. */
export interface FunctionList {
  readonly functions: readonly FunctionInfo[];
}

/** One trace of a compiled function and the stages of its compilation. */
export interface FunctionInfo {
  readonly owner: string;
  readonly backend: string;
  readonly fallback: string;
  readonly compile_ns: number;
  readonly stages: readonly Stage[];
}

/** A captured graph; `origin` of each node lists the traced nodes that it replaces. */
export interface CapturedStage {
  readonly owner: string;
  readonly stage: string;
  readonly graph: Graph;
}

/**
 * Nodes in topological order, with the values that flow between them.
 *
 * Attributes:
 *     id: Unique in the run.
 *     kind: How it was made.
 *     inputs: Ids of values without a producer, which are fed on each call.
 *     outputs: Value ids that are returned.
 *     nodes: In topological order.
 *     values: Every value, in order of id.
 *     constants: Value ids whose content is part of the graph.
 */
export interface Graph {
  readonly attr: "graph";
  readonly id: number;
  readonly kind: GraphKind;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  readonly nodes: readonly Node[];
  readonly values: readonly Value[];
  readonly constants: readonly number[];
}

/**
 * The content of the start page.
 *
 * Attributes:
 *     folder: The folder where nodescope was started, for display.
 *     entries: The recordings, latest first.
 *     pending: Number of entries not read yet; the page asks again.
 *     left_out: Number of recordings not listed.
 *     waits: Whether programs can attach to this server by `ns.attach()`.
 */
export interface Shelf {
  readonly folder: string;
  readonly entries: readonly Entry[];
  readonly pending: number;
  readonly left_out: number;
  readonly waits: boolean;
}

/**
 * A recording in the list.
 *
 * Attributes:
 *     id: Generated by this server; used to open and delete it.
 *     run: The id of the run, if it is open here; else `""`.
 *     live: Whether its program is connected to this server.
 *     here: Whether it is in the folder where nodescope was started, or in `.nodescope/runs`
 *         there.
 *     folder, file: Its location for display; `~` stands for the home folder.
 *     ours: Whether it can be deleted: it was left by one of nodescope's own runs.
 *     glance: Its overview; None if it has not been read yet.
 */
export interface Entry {
  readonly id: string;
  readonly run: string;
  readonly live: boolean;
  readonly here: boolean;
  readonly folder: string;
  readonly file: string;
  readonly ours: boolean;
  readonly glance: Glance | null;
}

/**
 * An entry in a list of recordings.
 *
 * Attributes:
 *     id: Id of the run; `""` if unreadable.
 *     name, argv: The program and its command line.
 *     ran_ns: Its run time so far, see `nodescope.record.run_time.RunTime`.
 *     steps: Number of training steps that began.
 *     nbytes: Size of the file and the log beside it.
 *     changed_unix_ns: When the file was last written.
 *     fault: Why the file cannot be read, or `""`.
 *     broken_loss: The loss at the end, if it is not finite.
 */
export interface Glance {
  readonly id: string;
  readonly name: string;
  readonly argv: readonly string[];
  readonly started_unix_ns: number;
  readonly ran_ns: number;
  readonly steps: number;
  readonly level: Level;
  readonly outcome: Outcome;
  readonly status: number | null;
  readonly error: string;
  readonly nbytes: number;
  readonly changed_unix_ns: number;
  readonly fault: string;
  readonly broken_loss: BrokenLoss | null;
}

/** A recording that has been opened. */
export interface OpenedRun {
  readonly run: RunInfo;
}

/** A recording that has been deleted. */
export interface DeletedRecording {
  readonly id: string;
}

/**
 * The summary of a run.
 *
 * Attributes:
 *     nbytes: Size of the recording and of its write-ahead log.
 *     commands: Terminal commands for the recording.
 */
export interface RunSummary {
  readonly run: RunInfo;
  readonly nbytes: number;
  readonly commands: readonly CommandLine[];
  readonly summary: Summary;
}

/** A terminal command, and its description. */
export interface CommandLine {
  readonly does: string;
  readonly line: string;
}

/**
 * A short description of a run.
 *
 * Attributes:
 *     outcome, status, error: How it ended.
 *     source: The user's line that raised, if known.
 *     steps: Number of training steps that began.
 *     time: Its run time.
 *     before_ns, after_ns: The part of the run time before the first training step, and after the
 *         last one; None for a run without steps.
 *     operations: Number of recorded executions of operations.
 *     operations_ns: Sum of the durations of operations, over all threads.
 *     nodes: Number of distinct operations.
 *     curves: Losses, those where a backward pass began first.
 *     slow_nodes, slow_scopes: By total time, slowest first; scopes of the first level.
 *     shares: Where the time of the observed training steps went, including held time; empty
 *         without any.
 *     troubles: First error, NaN and Inf; of the last two, the origin comes first.
 *     broken_loss: The loss at the end, if it is not finite.
 *     advice: What to do if nothing was observed.
 */
export interface Summary {
  readonly outcome: Outcome;
  readonly status: number | null;
  readonly error: string;
  readonly source: SourceLocation | null;
  readonly steps: number;
  readonly time: RunTime;
  readonly before_ns: number | null;
  readonly after_ns: number | null;
  readonly operations: number;
  readonly operations_ns: number;
  readonly nodes: number;
  readonly curves: readonly Curve[];
  readonly slow_nodes: readonly Cost[];
  readonly slow_scopes: readonly Cost[];
  readonly shares: readonly Share[];
  readonly troubles: readonly RunTrouble[];
  readonly kept: KeptValues;
  readonly advice: Advice | null;
  readonly broken_loss: BrokenLoss | null;
}

/**
 * How long a run took.
 *
 * Attributes:
 *     ran_ns: From the program's first line to its end, with imports, loading, compiling and
 *         observing; without the time held by the debugger.
 *     held_ns: Time during which the debugger held the program.
 */
export interface RunTime {
  readonly ran_ns: number;
  readonly held_ns: number;
}

/**
 * A loss over the run, thinned to at most 400 points including the last one.
 *
 * A loss that a backward pass begins with is known for every training step, another loss only for
 * observed ones.
 *
 * Attributes:
 *     node, name: The node whose first output it is; 0 and `loss` if none of the nodes was
 *         observed.
 *     total: Number of known values.
 *     broken: Number of these that were NaN or Inf.
 *     first, last, least: Finite values; None if there are none.
 */
export interface Curve {
  readonly node: number;
  readonly name: string;
  readonly points: readonly CurvePoint[];
  readonly total: number;
  readonly broken: number;
  readonly first: number | null;
  readonly last: number | null;
  readonly least: number | null;
}

/** A loss at a moment; `value` is None if it is not finite. */
export interface CurvePoint {
  readonly step: number;
  readonly seq: number;
  readonly value: number | null;
}

/**
 * The time of a node or a scope over the whole run.
 *
 * Attributes:
 *     node: The node's id; 0 for a scope.
 *     name: The node's name, or the scope's path.
 *     times: Number of executions; for a scope, of its operations.
 *     total_ns: Sum of its durations.
 *     odd_ns, odd_step: Duration and step of an execution that took more than all the others
 *         together, if there is one among at least three; otherwise 0. A thread that the system
 *         set aside for a while looks like this.
 */
export interface Cost {
  readonly node: number;
  readonly name: string;
  readonly times: number;
  readonly total_ns: number;
  readonly odd_ns: number;
  readonly odd_step: number;
}

/** A part of the time of all training steps; see `nodescope.record.step_times`. */
export interface Share {
  readonly part: TimePart;
  readonly ns: number;
}

/**
 * The first problem of its kind.
 *
 * Attributes:
 *     node, name, step, seq: Its place and time; `node` and `seq` are 0 if only the loss of an
 *         unobserved step is known.
 *     nodes: Number of nodes that had the problem at some time.
 *     text: The exception, a note that the user set the value, or why no node is known; or `""`.
 *     source: The user's line.
 */
export interface RunTrouble {
  readonly kind: ProblemKind;
  readonly node: number;
  readonly name: string;
  readonly step: number;
  readonly seq: number;
  readonly nodes: number;
  readonly text: string;
  readonly source: SourceLocation | null;
}

/**
 * Which values can be viewed later, and which cannot.
 *
 * Attributes:
 *     arrays, arrays_bytes: Number and bytes of values kept with every element.
 *     ranges: Training steps with kept values, as ranges of first and last; unobserved steps do
 *         not interrupt a range. A single range from the first to the last if there are more than
 *         four.
 *     dropped: Counts of what was lost.
 *     governed: What the governor left out, without its nodes; None for a run without a limit.
 *     steps_left_out: Training steps that were not observed.
 */
export interface KeptValues {
  readonly arrays: number;
  readonly arrays_bytes: number;
  readonly ranges: readonly (readonly [number, number])[];
  readonly dropped: Dropped;
  readonly governed: Governed | null;
  readonly steps_left_out: number;
}

/**
 * Advice for a run in which no operation was seen.
 *
 * Attributes:
 *     headline: A one-line statement of the situation.
 *     found: Findings in the program.
 *     steps: What the user can do, one sentence each.
 *     changes: Lines to change.
 */
export interface Advice {
  readonly headline: string;
  readonly found: string;
  readonly steps: readonly string[];
  readonly changes: readonly LineChange[];
}

/**
 * A line of the user's program to change, or to add if `before` is `""`.
 *
 * Attributes:
 *     file, line: File name and line number; `""` and 0 for an example.
 *     before, after: The current line, and its replacement.
 */
export interface LineChange {
  readonly file: string;
  readonly line: number;
  readonly before: string;
  readonly after: string;
}

/** The graph as known at `seq`. */
export interface RunGraph {
  readonly run: string;
  readonly seq: number;
  readonly nodes: readonly Node[];
  readonly values: readonly ProducedValue[];
  readonly gradients: readonly GradientRow[];
}

export type Level = "graph" | "timing" | "summary" | "values";

export type Phase = "forward" | "backward" | "optimizer" | "recompute" | "other";

export type GraphKind = "eager" | "static" | "compiled" | "backward-joined" | "tasks";

export type HostKind =
  | "data"
  | "python"
  | "library"
  | "waiting"
  | "input"
  | "held"
  | "held_along"
  | "unobserved"
  | "compiling";

export type Change =
  | "renamed"
  | "rewritten"
  | "folded"
  | "merged"
  | "fused"
  | "recomputed"
  | "eliminated";

export type FateKind = "kept" | Change;

export type TimePart =
  | "forward"
  | "backward"
  | "optimizer"
  | "other"
  | "data"
  | "waiting"
  | "python"
  | "compiling"
  | "between"
  | "held";

export type MatchReason = "" | "name" | "order" | "inputs";

export type MeasureSource = "arrays" | "summaries" | "none";

export type SessionPhase = "running" | "stopped" | "finished" | "detached";

export type StopReason =
  | "entry"
  | "breakpoint"
  | "step"
  | "pause"
  | "run_to"
  | "exception"
  | "watch";

export type When = "before" | "after";

export type BreakpointKind = "node" | "glob" | "regex" | "op" | "scope" | "source";

export type Command =
  | Continue
  | Pause
  | StepNode
  | StepIn
  | StepOver
  | StepOut
  | NextStep
  | RunTo
  | Detach
  | SetBreakpoints
  | SetValue
  | SetWatches
  | SetKeeping
  | SetExceptions
  | StepTwin;

export type WhyKind =
  | "leaf"
  | "birth"
  | "passed"
  | "computed"
  | "updated"
  | "missing"
  | "limit"
  | "raised"
  | "set";

export type Outcome = "running" | "finished" | "failed" | "interrupted" | "killed" | "unreadable";

export type ProblemKind = "error" | "nan" | "inf";

export type NumberState = "nan" | "inf" | "zero" | "finite" | "unknown";

export type RequestBody =
  | Initialize
  | Alive
  | Subscribe
  | Unsubscribe
  | Control
  | GetState
  | GetValue
  | GetHistory
  | GetTimeline
  | GetSource
  | GetScope
  | Move
  | ReadBreakpoint
  | AskWhy
  | AskSpread
  | WhatIf
  | GetBranches
  | GetBranch
  | RenameBranch
  | DropBranch
  | GetRules
  | ReadWatch
  | AskWatch
  | CompareMoments
  | GetAttributes
  | GetMemory
  | GetStatistics
  | GetProblems
  | GetStepTimes
  | GetCriticalPath
  | GetStepMemory;

export type ResponseBody =
  | Initialized
  | Done
  | StateAt
  | ValueSlice
  | History
  | Timeline
  | Source
  | ScopeFacts
  | Moved
  | BreakpointRead
  | WhyAnswer
  | SpreadAnswer
  | BranchList
  | BranchAnswer
  | RuleList
  | WatchRead
  | WatchAnswer
  | MomentsCompared
  | NodeAttributes
  | NodeMemory
  | Statistics
  | ProblemList
  | StepTimes
  | CriticalPath
  | StepMemory
  | Failed;

export type Push =
  | RunsChanged
  | StoppedElsewhere
  | Snapshot
  | Records
  | SessionChanged
  | RunChanged;

export type ServerMessage =
  | Response
  | Heartbeat
  | RunsChanged
  | StoppedElsewhere
  | Snapshot
  | Records
  | SessionChanged
  | RunChanged;
