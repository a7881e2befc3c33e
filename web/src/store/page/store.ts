/**
 * The page's state: signals that views read, and actions that they may call.
 *
 * Messages arrive once per frame, go through `update`, and are followed by the effects of a stop
 * (`stop_follow.ts`). The moment shown is live, or a past seq whose state the server has sent.
 *
 * Invariant: views change nothing but through these actions; per-node columns are mutable and are
 * announced by `tick`.
 */

import { type Accessor, batch, createSignal } from "solid-js";
import { NO_REPEATS, type Repeats } from "@/base/repeats";
import { parentScope } from "@/base/scopes";
import { type Focus, type FocusAct, focusAfter, NO_FOCUS, subjectOf } from "@/store/debugger/focus";
import {
  type FoldState,
  followStop,
  sameStop,
  toggledScope,
  unfolded,
} from "@/store/debugger/stop_follow";
import { PastState } from "@/store/history/past_state";
import { type Awaited, awaitedAfter, stillAwaited } from "@/store/page/awaited";
import { FirstPicture } from "@/store/page/first_picture";
import { type Notice, NoticeBoard, sentence } from "@/store/page/notices";
import { attended } from "@/store/page/stack_turns";
import { type Item, type PageAddress, readAddress } from "@/store/page/url";
import { recordsToCome, STILL_MS } from "@/store/run/arrival";
import { withoutFalseTimes } from "@/store/run/capabilities";
import { ExecutionRing, NodeColumns } from "@/store/run/columns";
import type { Cursor, Reached } from "@/store/run/cursor";
import { type PastValues, reshapedValues } from "@/store/run/past_values";
import { failedLast, type RunModel, update, withStepsAround } from "@/store/run/run_model";
import { buildTree, type Tree } from "@/store/run/tree";
import { decodeExecutions } from "@/wire/decode";
import { inWords, type Link, RequestError, type Wire } from "@/wire/socket";
import {
  type Breakpoint,
  type Command,
  type Push,
  type RunInfo,
  type SessionInfo,
  type Stop,
  type StoppedRun,
  type WatchStatus,
} from "@/wire/types.gen";

export type Requests = Pick<Wire, "request">;

export class Store {
  readonly link: Accessor<Link>;
  readonly runs: Accessor<readonly RunInfo[]>;
  readonly runId: Accessor<string | undefined>;
  readonly model: Accessor<RunModel | undefined>;
  readonly tree: Accessor<Tree | undefined>;
  readonly cursor: Accessor<Cursor>;
  readonly selection: Accessor<Item | undefined> = () => this.focus().selection;
  /** The inspector's item, also the subject of queries: the pinned item, or the selected one. */
  readonly subject: Accessor<Item | undefined> = () => subjectOf(this.focus());
  readonly pinned: Accessor<Item | undefined> = () => this.focus().pinned;
  /** Whether the user made the selection. */
  readonly chosen: Accessor<boolean> = () => this.focus().chosen;
  readonly folds: Accessor<FoldState>;
  readonly first: FirstPicture;
  readonly notices: Accessor<readonly Notice[]> = () => this.board.notices();
  /** Grows when the columns or the ring change. */
  readonly tick: Accessor<number>;
  /** Grows with each stop, so that views can bring it into view. */
  readonly stops: Accessor<number>;
  private readonly requested = createSignal<Awaited | undefined>();
  /** The command that was sent, until the program has followed it. */
  readonly awaited: Accessor<Awaited | undefined> = this.requested[0];
  private readonly search = createSignal<Reached | undefined>();
  /** Where a search through the recording ended, and why there. */
  readonly reached: Accessor<Reached | undefined> = this.search[0];

  readonly pastValues: Accessor<PastValues>;
  readonly live = new NodeColumns();
  readonly past = new PastState();
  readonly ring = new ExecutionRing();

  private readonly elsewhere = createSignal<readonly StoppedRun[]>([]);
  /** Stopped programs of this server other than the one shown; this page holds them too. */
  readonly stoppedElsewhere: Accessor<readonly StoppedRun[]> = this.elsewhere[0];
  private readonly set: {
    link(link: Link): void;
    runs(runs: readonly RunInfo[]): void;
    runId(id: string | undefined): void;
    model(model: RunModel | undefined): void;
    tree(tree: Tree | undefined): void;
    cursor(cursor: Cursor): void;
    pastValues(values: PastValues): void;
    focus(focus: Focus): void;
    folds(folds: FoldState): void;
    tick(count: number): void;
    stops(count: number): void;
  };
  private readonly focus: Accessor<Focus>;
  /** Version of the session whose stop is shown although earlier records are missing. */
  private readonly overdue = createSignal(-1);
  private arrival: ReturnType<typeof setTimeout> | undefined;
  /** The run whose end has been handled. */
  private ended: string | undefined;
  private wire: Requests | undefined;
  private treeOf: RunModel["graph"] | undefined;
  private sectioned = true;
  /** The state that the address asks for; undefined once the first run has arrived. */
  private start: PageAddress | undefined;
  private wantedSeq: number | undefined;
  private seeking = false;
  readonly board = new NoticeBoard();

  constructor(start: PageAddress = readAddress("")) {
    const [link, setLink] = createSignal<Link>({ kind: "connecting" });
    const [runs, setRuns] = createSignal<readonly RunInfo[]>([]);
    const [runId, setRunId] = createSignal<string | undefined>(start.run);
    const [model, setModel] = createSignal<RunModel | undefined>(undefined);
    const [tree, setTree] = createSignal<Tree | undefined>(undefined);
    const [cursor, setCursor] = createSignal<Cursor>({ kind: "live" });
    const [pastValues, setPastValues] = createSignal<PastValues>(new Map());
    const [focus, setFocus] = createSignal<Focus>({ ...NO_FOCUS, selection: start.selection });
    const [folds, setFolds] = createSignal<FoldState>({
      open: new Set(start.open ?? []),
      shut: new Set(),
    });
    const [tick, setTick] = createSignal(0);
    const [stops, setStops] = createSignal(0);
    this.link = link;
    this.runs = runs;
    this.runId = runId;
    this.model = model;
    this.tree = tree;
    this.cursor = cursor;
    this.pastValues = pastValues;
    this.focus = focus;
    this.folds = folds;
    this.tick = tick;
    this.stops = stops;
    this.first = new FirstPicture(start.open !== undefined, (open, instead) => {
      setFolds((now) => ({ ...now, open: instead ? open : new Set([...now.open, ...open]) }));
      this.disclose(this.selection());
    });
    this.start = start;
    this.set = {
      link: setLink,
      runs: setRuns,
      runId: setRunId,
      model: setModel,
      tree: setTree,
      cursor: setCursor,
      pastValues: setPastValues,
      focus: setFocus,
      folds: setFolds,
      tick: setTick,
      stops: setStops,
    };
  }

  attach(wire: Requests): void {
    this.wire = wire;
  }

  // ------------------------------------------------------------ incoming messages

  linkChanged(link: Link): void {
    const before = this.link();
    this.set.link(link);
    if (before.kind === "lost" && link.kind === "open") this.board.announce("Connection restored.");
  }

  runsChanged(runs: readonly RunInfo[]): void {
    this.set.runs(runs);
    const wanted = this.runId();
    if (wanted !== undefined && runs.some((run) => run.id === wanted)) {
      if (this.model()?.info.id !== wanted) void this.subscribe(wanted, 0);
      return;
    }
    const newest = [...runs].sort(
      (a, b) =>
        Number(b.state === "live") - Number(a.state === "live") ||
        b.started_unix_ns - a.started_unix_ns,
    )[0];
    if (newest !== undefined) this.openRun(newest.id);
    else if (wanted !== undefined) this.set.runId(undefined);
  }

  /** Applies a frame's worth of pushes. */
  receive(pushes: readonly Push[]): void {
    batch(() => {
      const before = this.model();
      let model = before;
      let rows = false;
      for (const push of pushes) {
        if (push.type === "runs") this.runsChanged(push.runs);
        if (push.type === "stopped_elsewhere") this.elsewhere[1](push.runs);
        if (push.type === "runs" || push.type === "stopped_elsewhere") continue;
        const run = push.type === "snapshot" || push.type === "run" ? push.run.id : push.run;
        if (push.type === "run") {
          this.set.runs(this.runs().map((other) => (other.id === run ? push.run : other)));
        }
        if (run !== this.runId()) continue;
        model = update(model, push);
        if (push.type === "snapshot") {
          this.live.clear();
          if (before?.info.id !== run) this.ring.clear();
          this.live.apply(withoutFalseTimes(decodeExecutions(push.executions), model));
          rows = true;
        } else if (push.type === "records" && push.executions.count > 0) {
          const executions = decodeExecutions(push.executions);
          this.live.apply(withoutFalseTimes(executions, model));
          this.ring.append(executions);
          rows = true;
        }
      }
      if (model !== before) this.modelChanged(before, model);
      if (rows) this.set.tick(this.tick() + 1);
    });
  }

  private modelChanged(before: RunModel | undefined, model: RunModel | undefined): void {
    this.set.model(model);
    if (model === undefined) return;
    if (model.graph !== this.treeOf) {
      this.treeOf = model.graph;
      const tree = buildTree(model.graph, this.sectioned);
      this.set.tree(tree);
      if (model.graph.count > 0) this.first.begin(tree, model.graph.count);
    }
    this.requested[1](stillAwaited(this.awaited(), before?.session, model.session));
    const stop = this.standsIn(model);
    const previous = this.standsIn(before) === undefined ? undefined : before?.session;
    this.awaitRecords(model);
    if (stop && previous?.version !== model.session?.version && !sameStop(previous, stop)) {
      this.stopped(stop);
    }
    if (model.info.state !== "live" && this.ended !== model.info.id) {
      this.ended = model.info.id;
      this.showFailure();
    }
    const seq = this.start?.seq;
    this.start = undefined;
    if (seq !== undefined) void this.seek(seq);
  }

  /** Shows the node that ended the program, unless the user has selected something. */
  private showFailure(): void {
    const id = this.failure();
    if (id === 0 || this.focus().chosen || this.start?.selection !== undefined) return;
    this.attend({ type: "stopped", item: { kind: "node", id } });
    this.disclose({ kind: "node", id });
  }

  /** The stop of a model, once all earlier records have arrived or are overdue. */
  private standsIn(model: RunModel | undefined): Stop | undefined {
    const late = recordsToCome(model) > 0 && this.overdue[0]() !== model?.session?.version;
    return model?.session?.phase === "stopped" && !late
      ? (model.session.stop ?? undefined)
      : undefined;
  }

  /** Shows a stop with the available data if nothing more arrives. */
  private awaitRecords(model: RunModel): void {
    clearTimeout(this.arrival);
    const { session } = model;
    if (session?.stop == null || this.standsIn(model) !== undefined) return;
    if (recordsToCome(model) === 0) return;
    this.arrival = setTimeout(() => {
      if (this.session()?.version !== session.version) return;
      batch(() => {
        this.overdue[1](session.version);
        if (session.stop !== null) this.stopped(session.stop);
      });
    }, STILL_MS);
  }

  private stopped(stop: Stop): void {
    // A page opened at an address with a moment shows that moment; only later stops move it.
    if (this.start?.seq !== undefined) return;
    this.wantedSeq = undefined;
    this.set.cursor({ kind: "live" });
    const item = this.follow(stop);
    if (this.start?.selection === undefined) this.attend({ type: "stopped", item });
    this.set.stops(this.stops() + 1);
  }

  /** Opens the scopes around the node of a stop, and returns the node. */
  private follow(stop: Stop): Item | undefined {
    const { folds, selection } = followStop(this.folds(), stop, this.model()?.graph, this.tree());
    this.set.folds(folds);
    return selection;
  }

  // ------------------------------------------------------------ for views

  /** Columns of the moment shown. Read `tick` to be notified of changes. */
  shown(): NodeColumns {
    return this.cursor().kind === "live" ? this.live : this.past;
  }

  session(): SessionInfo | undefined {
    return this.model()?.session;
  }

  /** The current stop, if the program is stopped. */
  stop(): Stop | undefined {
    const model = this.model();
    return model?.info.state === "live" ? this.standsIn(model) : undefined;
  }

  /** The node whose error ended the program, while its end is shown; 0 if none did. */
  failure(): number {
    this.tick();
    const info = this.model()?.info;
    if (info === undefined || info.state === "live" || this.cursor().kind !== "live") return 0;
    return info.error === "" ? 0 : failedLast(this.model(), this.live);
  }

  /** The node whose error stopped the program here, or ended it; 0 if none did. */
  raised(): number {
    const stop = this.cursor().kind === "live" ? this.stop() : undefined;
    return stop?.reason === "exception" && stop.error === "" ? stop.node : this.failure();
  }

  /** Number of records that must still arrive before the stop is shown. */
  arriving(): number {
    const model = this.model();
    if (model?.info.state !== "live" || this.standsIn(model) !== undefined) return 0;
    return recordsToCome(model);
  }

  /** The watch that caused the current stop. */
  watchHere(): WatchStatus | undefined {
    const stop = this.stop();
    if (stop?.reason !== "watch") return undefined;
    return this.session()?.watches.find((watch) => watch.id === stop.watch);
  }

  /** Whether breakpoints can be set: they stop the program, or are found in the recording. */
  breakable(): boolean {
    const model = this.model();
    if (this.link().kind !== "open" || model === undefined) return false;
    return model.info.state === "live" || (model.info.recording !== "" && model.seq > 0);
  }

  /** The end of a search, if the page still shows the moment at which it ended. */
  found(): Reached | undefined {
    const cursor = this.cursor();
    const reached = this.reached();
    return cursor.kind === "past" && cursor.seq === reached?.seq ? reached : undefined;
  }

  /** Whether the moment shown is recorded: a past moment, a stop, or the end of the run. */
  recorded(): boolean {
    if (this.link().kind !== "open" || this.model() === undefined) return false;
    const live = this.model()?.info.state === "live";
    return this.cursor().kind === "past" || !live || this.stop() !== undefined;
  }

  /** The seq for requests: null means the latest. */
  seq(): number | null {
    const cursor = this.cursor();
    return cursor.kind === "live" ? null : cursor.seq;
  }

  /** The training step shown. */
  step(): number {
    const cursor = this.cursor();
    if (cursor.kind === "past") return cursor.step;
    const stop = this.stop();
    // An error of the program itself may come long after the last observed operation.
    return (stop?.error ? undefined : stop?.step) ?? this.model()?.steps.at(-1)?.step ?? 0;
  }

  isOpen(path: string): boolean {
    return this.folds().open.has(path);
  }

  following(): { run: string; seq: number } | undefined {
    const run = this.runId();
    if (run === undefined) return undefined;
    const model = this.model();
    return { run, seq: model?.info.id === run ? model.seq : 0 };
  }

  // ------------------------------------------------------------ actions

  readonly request: Wire["request"] = (body, wanted, timeoutMs) => {
    if (this.wire === undefined) return Promise.reject(new RequestError("Not connected"));
    return this.wire.request(body, wanted, timeoutMs);
  };

  openRun(run: string): void {
    const before = this.runId();
    if (before === run && this.model()?.info.id === run) return;
    batch(() => {
      if (before !== undefined && before !== run) {
        this.request({ type: "unsubscribe", run: before }, "done").catch(() => undefined);
        this.attend({ type: "reset" });
        this.set.folds({ open: new Set(), shut: new Set() });
        this.first.again();
        this.start = undefined;
      }
      this.wantedSeq = undefined;
      this.set.runId(run);
      this.set.model(undefined);
      this.requested[1](undefined);
      this.overdue[1](-1);
      this.set.tree(undefined);
      this.treeOf = undefined;
      this.set.cursor({ kind: "live" });
      this.live.clear();
      this.ring.clear();
    });
    void this.subscribe(run, 0);
  }

  private async subscribe(run: string, seq: number): Promise<void> {
    try {
      await this.request({ type: "subscribe", run, seq }, "done");
    } catch (error) {
      this.complain(error);
    }
  }

  select(item: Item | undefined): void {
    this.attend({ type: "select", item });
  }

  /** Keeps the subject in the inspector, or lets it follow the selection again. */
  setPinned(wanted: boolean): void {
    this.attend({ type: wanted ? "pin" : "unpin" });
  }

  private attend(act: FocusAct): void {
    this.set.focus(focusAfter(this.focus(), act));
  }

  /** Changes which scopes are open, at the user's request. */
  refold(change: (folds: FoldState, repeats: Repeats) => FoldState): void {
    this.first.end();
    this.set.folds(change(this.folds(), this.tree()?.repeats ?? NO_REPEATS));
  }

  toggleScope(path: string): void {
    this.refold((now, all) => toggledScope(now, path, all, (stack) => attended(this, stack)));
  }

  /** Turns on or off the division of large scopes without structure into sections. */
  resection(): void {
    this.sectioned = !this.sectioned;
    if (this.treeOf !== undefined) this.set.tree(buildTree(this.treeOf, this.sectioned));
  }

  /** Opens the scopes around an item, so that it is visible. */
  disclose(item: Item | undefined): void {
    const own = item?.kind === "node" ? this.tree()?.scopeOf(item.id) : undefined;
    const scope = item?.kind === "scope" ? parentScope(item.path) : own;
    if (scope) this.set.folds(unfolded(this.folds(), scope, this.tree()?.repeats));
  }

  setOpen(open: ReadonlySet<string>): void {
    this.refold(() => ({ open, shut: new Set() }));
  }

  async control(command: Command): Promise<boolean> {
    const why = await this.refusal(command);
    if (why !== "") this.notify("error", why);
    return why === "";
  }

  /** Sends a command; returns "" if it was accepted, else the reason, for the user. */
  async refusal(command: Command): Promise<string> {
    if (command.type !== "set_keeping") this.board.commanded();
    const run = this.runId();
    if (run === undefined) return "No run is open.";
    const awaited = awaitedAfter(command, this.session());
    try {
      if (awaited) this.requested[1](awaited);
      await this.request({ type: "control", run, command }, "done");
      return "";
    } catch (error) {
      if (awaited) this.requested[1](undefined);
      return inWords(error);
    }
  }

  /**
   * Sends a stepping command or `continue` to the program if its current stop is shown, otherwise
   * moves through the recording. Returns whether the program goes on.
   */
  async walk(command: Command): Promise<boolean> {
    const stop = this.cursor().kind === "live" ? this.stop() : undefined;
    // The forward node ran earlier: go back in the recording, never run on to its next execution.
    const node = command.type === "step_twin" && this.model()?.graph.nodes[stop?.node ?? -1];
    const back = node && node.forward != null;
    if (stop !== undefined && !back) return this.control(command);
    await this.travel(command, back === true);
    return false;
  }

  /** Moves the page through the recording according to a command. */
  async travel(command: Command, back: boolean): Promise<void> {
    this.board.commanded();
    const run = this.runId();
    const cursor = this.cursor();
    const seq = cursor.kind === "past" ? cursor.seq : (this.stop()?.seq ?? this.model()?.seq ?? 0);
    if (run === undefined) return;
    try {
      const live = cursor.kind === "live" && this.stop() !== undefined;
      const wanted = { type: "move", run, seq, command, back, breakpoint: null, live } as const;
      const moved = await this.request(wanted, "moved");
      const stop = this.stop();
      if (moved.seq === null || (!back && stop !== undefined && moved.seq >= stop.seq)) {
        if (!back && stop !== undefined) {
          this.backToLive();
          this.attend({ type: "stopped", item: this.follow(stop) });
        } else this.notify("ok", sentence(moved.text));
        return;
      }
      await this.seek(moved.seq);
      this.search[1](
        command.type === "continue"
          ? { seq: moved.seq, node: moved.node, text: sentence(moved.text) }
          : undefined,
      );
      const item = { kind: "node", id: moved.node } as const;
      this.attend({ type: "moved", item, by: command.type === "next_step" ? "step" : "node" });
      this.disclose(this.selection() ?? item);
    } catch (error) {
      this.complain(error);
    }
  }

  setBreakpoints(breakpoints: readonly Breakpoint[]): Promise<boolean> {
    return this.control({ type: "set_breakpoints", breakpoints });
  }

  /** Moves the page to a past moment. Only the newest of several requests is sent. */
  async seek(seq: number): Promise<void> {
    this.board.commanded();
    this.wantedSeq = seq;
    if (this.seeking) return;
    this.seeking = true;
    try {
      for (let at: number | undefined = seq; at !== undefined; at = this.next(at)) {
        const moment = at;
        const run = this.runId();
        if (run === undefined) break;
        const live = this.model()?.info.state === "live";
        const body = { type: "get_state", run, seq: moment, since: this.past.heldOf(run) } as const;
        const state = await this.request(body, "state_at");
        if (this.wantedSeq === undefined || this.runId() !== run) break;
        batch(() => {
          this.set.model(withStepsAround(this.model(), state.steps));
          this.past.take(run, state, this.model(), live);
          this.set.pastValues(reshapedValues(state.values, this.model(), this.pastValues()));
          this.set.cursor({ kind: "past", seq: moment, step: state.step, timeNs: state.time_ns });
          this.set.tick(this.tick() + 1);
        });
      }
    } catch (error) {
      this.complain(error);
    } finally {
      this.seeking = false;
    }
  }

  /** The moment that the page is moving to; undefined once it is there. Not reactive. */
  destination(): number | undefined {
    return this.seeking ? this.wantedSeq : undefined;
  }

  private next(done: number): number | undefined {
    return this.wantedSeq === done ? undefined : this.wantedSeq;
  }

  backToLive(): void {
    this.board.commanded();
    this.wantedSeq = undefined;
    const [past, before] = [this.cursor().kind === "past", this.selection()];
    batch(() => {
      this.set.cursor({ kind: "live" });
      this.attend({ type: "live" });
      const stop = this.stop();
      if (past && stop !== undefined) this.follow(stop);
      const restored = this.selection() !== before;
      if (restored && (this.chosen() || stop === undefined)) this.disclose(this.selection());
      this.set.tick(this.tick() + 1);
    });
  }

  notify(tone: Notice["tone"], text: string): void {
    this.board.answer(tone, text);
  }

  complain(error: unknown): void {
    this.notify("error", inWords(error));
  }
}
