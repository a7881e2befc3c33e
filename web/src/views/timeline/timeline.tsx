/**
 * The timeline: a flame chart of the visible steps with the time between their nodes and, zoomed
 * out, all steps as the parts of their time; the moment in amber.
 *
 * While the program runs, the newest part is drawn from arriving data; everything else is requested
 * from the recording, a window at a time.
 *
 * Invariant: the amber line is the moment that the whole page shows; only time held by the debugger
 * is removed from the axis.
 */

import { createEffect, createMemo, createSignal, For, type JSX, on, Show, untrack } from "solid-js";
import { formatDuration } from "@/base/numbers";
import { remembering } from "@/store/page/cached_query";
import { answered, createQuery } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import { offers, withoutFalseTimes } from "@/store/run/capabilities";
import {
  isAfter,
  neverRuns,
  raisedIn,
  seenWhileRunning,
  stepAt,
  stepNumbered,
} from "@/store/run/run_model";
import { axisOf, mapRows, sameAxis } from "@/views/timeline/axis";
import { CoursePanel } from "@/views/timeline/course_panel";
import { createCourses } from "@/views/timeline/courses";
import {
  drawTimeline,
  hitBar,
  hitHold,
  hitMemory,
  hitStep,
  type Placed,
} from "@/views/timeline/draw";
import { expectedRows } from "@/views/timeline/expected";
import { hostSpans } from "@/views/timeline/host";
import { type Origin, RUN_START } from "@/views/timeline/origin";
import { ringRows } from "@/views/timeline/ring_rows";
import { lanesOf, stepWords, type TimelineRows } from "@/views/timeline/spans";
import {
  blockOf,
  blocksOf,
  blockWords,
  isUnseen,
  lastSeqOf,
  markAt,
  type StepBlock,
  stepIn,
} from "@/views/timeline/step_blocks";
import { sameUnder, tipOf, type Under } from "@/views/timeline/tips";
import { TimelineToolbar } from "@/views/timeline/toolbar";
import { askedFor, moved, panned, type TimeWindow, whole, zoomed } from "@/views/timeline/zoom";
import { Canvas } from "@/widgets/canvas";
import { decodeExecutions, numbersOf } from "@/wire/decode";
import type { GetStepTimes, GetTimeline, StepRow } from "@/wire/types.gen";

const LIMIT = 4000;
const LIVE_MS = 200;
/** Interval of requests to a running program's recording. */
const ASK_MS = 1000;
/** If more steps are visible, their executions are not requested. */
const MOST_STEPS = 30;
const FEW_STEPS = 3;
const MOST_BLOCKS = 800;
/** Width of the text at the pointer including its distance from the edge, px. */
const TIP_WIDTH = 256;

export interface TimelineProps {
  readonly store: Store;
  readonly ui: Ui;
  readonly theme: string;
  go(item: Item): void;
}

export function Timeline(props: TimelineProps): JSX.Element {
  const store = props.store;
  const [zoom, setZoom] = createSignal<TimeWindow | "all" | undefined>();
  const [under, setUnder] = createSignal<Under | undefined>(undefined, { equals: sameUnder });
  const [pointer, setPointer] = createSignal({ x: 0, y: 0, width: 0 });
  let placed: Placed | undefined;
  /** The step that was selected by a click here. */
  let chosenStep: number | undefined;

  // Each push makes a new model; these parts of it stay the same objects until they change.
  const graph = createMemo(() => store.model()?.graph);
  const stepRows = createMemo(() => store.model()?.steps ?? []);
  const alive = createMemo(() => store.model()?.info.state === "live");
  const frameworks = createMemo(() => store.model()?.info.frameworks);
  const timed = createMemo(() => offers(store, "timing"));
  const beat = throttled(store.tick, LIVE_MS);
  const askBeat = throttled(store.tick, ASK_MS);
  const running = () => store.cursor().kind === "live" && store.stop() === undefined && alive();
  const moment = createMemo(() => {
    beat();
    const cursor = store.cursor();
    if (cursor.kind === "past") return cursor.timeNs;
    const stop = store.stop();
    const node = stop?.node ?? 0;
    if (node > 0 && store.live.times[node]) {
      const start = store.live.startNs[node] ?? 0;
      return stop?.when === "before"
        ? (store.model()?.timeNs ?? start)
        : start + (store.live.durationNs[node] ?? 0);
    }
    return store.model()?.timeNs ?? 0;
  });
  const steps = createMemo(
    () => {
      beat();
      const model = store.model();
      const shownSeq = store.seq() ?? model?.seq ?? 0;
      const at = stepAt(model?.steps ?? [], shownSeq);
      const now = running() ? seenWhileRunning(model?.steps ?? [], at) : at;
      const index = now === undefined ? -1 : (model?.steps.indexOf(now) ?? -1);
      const raised = raisedIn(now, model, store.live);
      const ahead = now === at ? undefined : at?.step;
      const after = ahead === undefined && isAfter(now, shownSeq) && !raised;
      return { now, before: model?.steps[index - 1], after, ahead };
    },
    undefined,
    {
      equals: (a, b) =>
        a.now === b.now && a.before === b.before && a.after === b.after && a.ahead === b.ahead,
    },
  );
  /** The default view, in the program's own time: a step and the previous one. */
  const near = createMemo(
    () => {
      const { now, before, after, ahead } = steps();
      const from = (after ? now : before)?.start_ns ?? now?.start_ns ?? 0;
      const until = ahead === undefined ? moment() : 0;
      return { from, to: Math.max(now?.end_ns ?? moment(), until, from + 1000) };
    },
    undefined,
    { equals: (a, b) => a.from === b.from && a.to === b.to },
  );
  const ready = () => store.runId() !== undefined && (store.model()?.seq ?? 0) > 0;
  /** Changes whenever the answer to the same request may change. */
  const fresh = () => {
    const model = store.model();
    if (model?.info.state !== "live") return model?.info.state;
    askBeat();
    return `${store.stops()} ${running() ? store.tick() : model.lastEvent}`;
  };
  const freshNow = throttled(fresh, ASK_MS);
  /** Answers about a finished run stay valid. */
  const asker = remembering(store, () => store.model()?.info.state !== "live");

  // The visible range in the program's own time; set when the axis is known.
  const [sight, setSight] = createSignal<TimeWindow>([0, 1000], {
    equals: (a, b) => a[0] === b[0] && a[1] === b[1],
  });
  const stepAnswer = createQuery(
    asker,
    "step_times",
    (): GetStepTimes | undefined =>
      ready()
        ? {
            type: "get_step_times",
            run: store.runId() ?? "",
            start_ns: Math.floor(sight()[0]),
            end_ns: Math.ceil(sight()[1]),
            limit: MOST_BLOCKS,
            step: steps().now?.step ?? 0,
            after: steps().after,
          }
        : undefined,
    freshNow,
  );
  /** The words until there are step times, which take a moment in a long recording. */
  const stepAnswerWords = () => {
    const now = stepAnswer();
    return now.kind === "failed" ? now.message : "Reading the times of all steps…";
  };
  const times = () => answered(stepAnswer());
  const axis = createMemo(
    () => {
      const pairs = times()?.holds;
      return axisOf(pairs === undefined ? [] : numbersOf(pairs, pairs.byteLength / 8));
    },
    undefined,
    { equals: sameAxis },
  );
  const total = createMemo(() =>
    axis().map(Math.max(times()?.total_ns ?? 0, store.model()?.timeNs ?? 0, 1000)),
  );
  const all = () => whole(axis().map(times()?.since_ns ?? 0), total());
  const blocks = createMemo(() => {
    const now = times();
    return now === undefined ? [] : blocksOf(now, axis());
  });
  const position = createMemo(() => {
    const stretch = times()?.here;
    // While the program runs, the last answer stays, even for an earlier step.
    return stretch != null && (running() || stretch.first === steps().now?.step)
      ? blockOf(stretch, axis())
      : undefined;
  });

  /** The program ended within the step shown. */
  const over = () => store.cursor().kind === "live" && !alive() && !steps().after;
  /** The page's position on the axis: for the newest moment, the end of the known part. */
  const mark = createMemo(() => {
    const newest = store.cursor().kind === "live" && !running();
    return markAt(axis().map(moment()), position(), newest, over());
  });

  const timelineAnswer = createQuery(
    asker,
    "timeline",
    (): GetTimeline | undefined => {
      if (!ready() || stacked()) return undefined;
      const [from, to] = sight();
      return {
        type: "get_timeline",
        run: store.runId() ?? "",
        start_ns: Math.floor(from),
        end_ns: Math.ceil(to),
        limit: LIMIT,
      };
    },
    freshNow,
  );
  const detail = () => answered(timelineAnswer());
  /** Whether executions are drawn as they arrive, as long as the user has not chosen a window. */
  const following = () => running() && zoom() === undefined;
  const executed = createMemo(() => {
    const now = detail();
    frameworks();
    if (now === undefined) return undefined;
    return withoutFalseTimes(decodeExecutions(now.executions), untrack(store.model));
  });
  const rows = createMemo((): TimelineRows => {
    const now = executed();
    if (!following() && now !== undefined) return mapRows(now, axis());
    if (following()) beat();
    return mapRows(ringRows(store, near().from, LIMIT), axis());
  });
  const thinned = () => {
    const now = detail();
    return !following() && now !== undefined && now.total > now.executions.count;
  };
  const host = createMemo(() => hostSpans(detail()?.host ?? [], rows(), axis()));
  const stepEnd = (step: number): number => {
    const end = stepNumbered(stepRows(), step)?.end_ns;
    return end === null || end === undefined ? Number.NaN : axis().map(end);
  };
  const lanes = createMemo(() =>
    lanesOf(graph(), rows(), {
      host: host(),
      gaps:
        timed() &&
        !following() &&
        detail() !== undefined &&
        !thinned() &&
        times()?.partial === false,
      unseen: blocks().filter(isUnseen),
      stepEnd,
      names: detail()?.lanes ?? [],
      mainThread: detail()?.main_thread ?? undefined,
    }),
  );
  const mapStep = (step: StepRow): StepRow => ({
    ...step,
    start_ns: axis().map(step.start_ns),
    end_ns: step.end_ns === null ? null : axis().map(step.end_ns),
  });
  /** The expected continuation of the step; none once the program has ended. */
  const expected = createMemo(() => {
    const { now, before } = steps();
    if (!alive() || store.cursor().kind === "past") return undefined;
    if (now === undefined || before === undefined || now.end_ns !== null) return undefined;
    const at = axis().map(moment());
    const next = expectedRows(rows(), mapStep(now), mapStep(before), at);
    return next.count === 0 ? undefined : lanesOf(graph(), next)[0];
  });
  /**
   * The window without zooming: the neighbourhood of the moment; if the program has ended, the
   * whole step with its waits; in a program without steps, the time after the last wait.
   */
  const home = createMemo((): TimeWindow => {
    const { map } = axis();
    let from = map(near().from);
    const bars = expected()?.levels[0] ?? [];
    const known = over() && position() !== undefined ? from + 1000 : map(near().to);
    const to = Math.max(known, mark(), bars.at(-1)?.end ?? 0);
    if (steps().now === undefined) {
      for (const span of host()) {
        if (span.kind === "input" && span.end < to - 1000) from = Math.max(from, span.end);
      }
    } else if (steps().before === undefined || !alive()) {
      from = Math.min(from, position()?.start ?? from);
    }
    return [from, to];
  });
  const window = (): TimeWindow => {
    const chosen = zoom();
    return chosen === "all" ? all() : (chosen ?? home());
  };
  /** The zero of the axis: the start of the step shown, or of the run if many are visible. */
  const origin = (): Origin => {
    const now = steps().now;
    if (now === undefined || inSight() > FEW_STEPS) return RUN_START;
    const block = position();
    const at = block?.start ?? axis().map(now.start_ns);
    return { at, step: now.step, after: block?.after ?? false };
  };
  const inSight = createMemo(() => {
    const [t0, t1] = window();
    let count = 0;
    for (const block of blocks()) {
      if (block.end >= t0 && block.start <= t1) count += block.last - block.first + 1;
    }
    return count;
  });
  const stacked = createMemo(() => inSight() > MOST_STEPS);
  createEffect(() => {
    const { unmap } = axis();
    const chosen = zoom() === undefined ? undefined : window();
    // For a run without steps, everything is requested: it tells where the last wait ended.
    const [from, to] = chosen === undefined ? [near().from, near().to] : chosen.map(unmap);
    setSight(askedFor([from ?? 0, to ?? 0]));
  });
  const stepShown = createMemo(() => steps().now?.step);
  createEffect(
    on([store.runId, stepShown], ([run, step], before) => {
      // A window chosen by the user stays while steps pass, and when one in it is selected.
      const stays = run === before?.[0] && (running() || step === chosenStep);
      if (!stays) setZoom(undefined);
      chosenStep = undefined;
    }),
  );
  /** The step whose course is shown, also for a moment after it. */
  const courseStep = () => steps().now?.step ?? 0;
  const courseSpan = (): TimeWindow => {
    const now = steps().now;
    if (now === undefined) return [axis().map(near().from), axis().map(near().to)];
    const block = blocks().find(
      ({ first, last, after }) => first === now.step && last === now.step && !after,
    );
    if (block !== undefined) return [block.start, block.end];
    return [axis().map(now.start_ns), axis().map(now.end_ns ?? moment())];
  };
  const courses = createCourses({
    ui: props.ui,
    asker,
    run: () => (ready() && !running() && !stacked() ? store.runId() : undefined),
    step: courseStep,
    sight,
    axis,
    span: courseSpan,
    seq: () => store.seq() ?? store.model()?.seq ?? 0,
    refresh: freshNow,
  });
  const coursePaused = () => {
    if (running()) return "Shown when the program stops or ends.";
    return stacked() ? "Zoom in to show it: a step at a time." : "";
  };
  /** Words for the bar under the pointer, else for the step shown and its `most` largest parts. */
  const words = (short = false, most = Number.POSITIVE_INFINITY) => {
    const now = under();
    const bar = now?.kind === "bar" ? now.bar : undefined;
    if (bar !== undefined && bar.host === undefined && bar.between === undefined) {
      const took = bar.end > bar.start ? ` · ${formatDuration(bar.end - bar.start)}` : "";
      return `${bar.scope || bar.label}${took}`;
    }
    const block = position();
    if (block !== undefined) {
      const now = steps().now;
      const live = store.model()?.info.state === "live";
      const open = live && now?.end_ns === null && block.first === now.step;
      const { after } = steps();
      const how = { running: open, partial: times()?.partial, timed: timed(), short, most, after };
      const words = blockWords(block, how);
      const { ahead } = steps();
      return ahead === undefined
        ? words
        : `${words} · now ${stepWords(ahead, false)}, not observed`;
    }
    if (!ready()) return "";
    if (["none", "failed"].includes(stepAnswer().kind)) return stepAnswerWords();
    const at = formatDuration(axis().map(moment()));
    return steps().now === undefined ? `${at} since the run began` : "";
  };

  const wheel = (event: WheelEvent): void => {
    if (placed === undefined) return;
    event.preventDefault();
    const [t0, t1] = window();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = ((event.deltaX || event.deltaY) / placed.width) * (t1 - t0);
      setZoom(panned(window(), by, total()));
      return;
    }
    const at = placed.time(event.offsetX);
    setZoom(zoomed(window(), at, Math.exp(event.deltaY * 0.0015), total()));
  };
  const press = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = moved(window(), event.key, total());
    if (next !== undefined) setZoom(next);
    else if (event.key === "Home") setZoom("all");
    else if (event.key === "0") showStep();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const showBlock = (block: StepBlock): void => {
    const room = Math.max((block.end - block.start) * 0.03, 100);
    setZoom([block.start - room, block.end + room]);
  };
  const goToStep = (block: StepBlock, px: number): void => {
    const time = axis().unmap(placed?.time(px) ?? block.start);
    const row = stepIn(store.model()?.steps ?? [], block, time);
    if (row === undefined) return;
    chosenStep = row.step;
    const newest = store.model()?.seq ?? 0;
    const seq = lastSeqOf(row, newest);
    if (seq >= newest) store.backToLive();
    else void store.seek(seq);
  };
  function showStep(): void {
    const block = position();
    if (block === undefined) setZoom(undefined);
    else showBlock(block);
  }
  let grabbed: { x: number; from: TimeWindow; moved: boolean } | undefined;
  /** The pointer's resting place; data under it may arrive later. */
  let resting: readonly [number, number] | undefined;
  const at = (px: number, py: number): Under | undefined => {
    if (placed === undefined) return undefined;
    const hold = hitHold(placed, axis().holds, px);
    if (hold !== undefined) return { kind: "hold", hold };
    const point = hitMemory(placed, courses.curve(), px, py);
    if (point !== undefined) return { kind: "memory", ...point };
    const bar = stacked() ? undefined : hitBar(placed, px, py);
    if (bar !== undefined) return { kind: "bar", bar };
    const block = hitStep(placed, blocks(), px, py);
    return block && { kind: "step", block };
  };
  const hoveredBar = () => {
    const now = under();
    return now?.kind === "bar" ? now.bar : undefined;
  };
  const tip = () => {
    const now = under();
    return now && tipOf(now, store.model()?.graph, origin(), host(), blocks());
  };
  let tipBox: HTMLDivElement | undefined;
  /** The lowest position of the text at the pointer, px: long text has several lines. */
  const [lowest, setLowest] = createSignal(0);
  createEffect(() => {
    if (tip() === undefined || tipBox === undefined) return;
    setLowest((tipBox.parentElement?.clientHeight ?? 0) - tipBox.offsetHeight - 2);
  });
  const pane = (): JSX.Element => (
    <div class="timeline-pane">
      <TimelineToolbar
        ui={props.ui}
        timed={timed()}
        step={position() !== undefined}
        showAll={() => setZoom("all")}
        showStep={showStep}
        words={words}
      />
      <div class="timeline-body">
        <Canvas
          class="timeline"
          label="Timeline. Arrow keys move and zoom, Home shows the whole run, 0 this step; click a step to go to it."
          tabindex={0}
          ref={(canvas) => canvas.addEventListener("wheel", wheel, { passive: false })}
          draw={(surface) => {
            void props.theme;
            placed = drawTimeline(surface, {
              lanes: lanes(),
              expected: expected(),
              thinned: thinned(),
              blocks: blocks(),
              stacked: stacked(),
              step: steps().now?.step ?? 0,
              after: position()?.after ?? false,
              window: window(),
              origin: origin(),
              moment: mark(),
              hovered: hoveredBar(),
              holds: axis().holds,
              path: courses.marks(),
              memory: courses.curve(),
              current:
                store.cursor().kind === "past" ? store.past.lastNode : (store.stop()?.node ?? 0),
            });
            queueMicrotask(() => {
              if (resting !== undefined && grabbed === undefined) setUnder(at(...resting));
            });
          }}
          events={{
            onKeyDown: press,
            onPointerDown: (event) => {
              grabbed = { x: event.offsetX, from: window(), moved: false };
              event.currentTarget.setPointerCapture(event.pointerId);
            },
            onPointerMove: (event) => {
              if (grabbed !== undefined && placed !== undefined) {
                const by = event.offsetX - grabbed.x;
                if (Math.abs(by) > 3) grabbed.moved = true;
                if (grabbed.moved) {
                  const [t0, t1] = grabbed.from;
                  setZoom(panned(grabbed.from, (-by / placed.width) * (t1 - t0), total()));
                }
                return;
              }
              resting = [event.offsetX, event.offsetY];
              setUnder(at(event.offsetX, event.offsetY));
              setPointer({
                x: event.offsetX,
                y: event.offsetY,
                width: event.currentTarget.clientWidth,
              });
            },
            onPointerUp: (event) => {
              const now = at(event.offsetX, event.offsetY);
              if (grabbed?.moved === false && now?.kind === "memory") void store.seek(now.seq);
              else if (grabbed?.moved === false && now?.kind === "step") {
                goToStep(now.block, event.offsetX);
              } else if (grabbed?.moved === false && now?.kind === "bar") {
                if (now.bar.node > 0) props.go({ kind: "node", id: now.bar.node });
                else if (now.bar.scope !== "") props.go({ kind: "scope", path: now.bar.scope });
              }
              grabbed = undefined;
            },
            onPointerCancel: () => {
              grabbed = undefined;
            },
            onPointerLeave: () => {
              resting = undefined;
              setUnder(undefined);
            },
            onDblClick: (event) => {
              const now = at(event.offsetX, event.offsetY);
              if (now?.kind === "step") showBlock(now.block);
              else setZoom(undefined);
            },
          }}
        />
        <Show when={props.ui.course() !== "none"}>
          <CoursePanel
            ui={props.ui}
            courses={courses}
            graph={graph()}
            axis={axis()}
            span={courseSpan()}
            paused={coursePaused()}
            go={props.go}
            seek={(seq) => void store.seek(seq)}
          />
        </Show>
      </div>
      <Show when={tip()}>
        {(now) => (
          <div
            class="tip"
            ref={tipBox}
            data-testid="timeline-tip"
            style={{
              left: `${Math.max(4, Math.min(pointer().x + 12, pointer().width - TIP_WIDTH))}px`,
              top: `${Math.max(0, Math.min(pointer().y + 36, lowest()))}px`,
            }}
          >
            <b class="ell">{now().title}</b>
            <For each={now().rows}>{(row) => <span>{row}</span>}</For>
          </div>
        )}
      </Show>
    </div>
  );
  return (
    <Show
      when={!neverRuns(store.model(), store.live)}
      fallback={
        <p class="empty" data-testid="timeline-never-ran">
          The graph was not run: there are no times.
        </p>
      }
    >
      {pane()}
    </Show>
  );
}
