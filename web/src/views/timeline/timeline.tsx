/**
 * The timeline: a flame chart of the step shown and the one before, with the moment in amber.
 *
 * While the program runs it is drawn from what arrives; at a stop the recording is asked, so that
 * nothing is missing.
 *
 * Invariant: the amber line is the moment that the whole page shows.
 */

import {
  createEffect,
  createMemo,
  createSignal,
  For,
  type JSX,
  on,
  onCleanup,
  Show,
} from "solid-js";
import { formatCount, formatDuration } from "@/base/numbers";
import { createQuery } from "@/store/query";
import { stepAt } from "@/store/run_model";
import type { Store } from "@/store/store";
import { throttled } from "@/store/throttled";
import type { Item } from "@/store/url";
import { drawTimeline, hitBar, type Placed } from "@/views/timeline/draw";
import { mapRows, mapStep, pausesOf } from "@/views/timeline/pauses";
import { type Bar, lanesOf, type TimelineRows } from "@/views/timeline/spans";
import { decodeExecutions } from "@/wire/decode";
import { type GetTimeline, PHASES } from "@/wire/types.gen";
import { Canvas } from "@/widgets/canvas";

const LIMIT = 4000;
const LIVE_MS = 200;
/** Of the words at the pointer, px. */
const TIP_HEIGHT = 60;
const TIP_WIDTH = 236;

export interface TimelineProps {
  readonly store: Store;
  readonly theme: string;
  go(item: Item): void;
  /** One line about what is under the pointer, or about the moment shown. */
  onWords(text: string): void;
}

export function Timeline(props: TimelineProps): JSX.Element {
  const store = props.store;
  const [zoom, setZoom] = createSignal<readonly [number, number] | undefined>();
  const [hovered, setHovered] = createSignal<Bar | undefined>();
  const [pointer, setPointer] = createSignal({ x: 0, y: 0, width: 0, height: 0 });
  let placed: Placed | undefined;

  const beat = throttled(store.tick, LIVE_MS);
  const running = () =>
    store.cursor().kind === "live" &&
    store.stop() === undefined &&
    store.model()?.info.state === "live";
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
  const steps = createMemo(() => {
    beat();
    const model = store.model();
    const here = store.seq() ?? model?.seq ?? 0;
    const now = stepAt(model?.steps ?? [], here);
    const index = now === undefined ? -1 : (model?.steps.indexOf(now) ?? -1);
    return { now, before: model?.steps[index - 1] };
  });
  /** What is asked for, in the program's own time. */
  const asked = createMemo(
    () => {
      const { now, before } = steps();
      const from = before?.start_ns ?? now?.start_ns ?? 0;
      return { from, to: Math.max(now?.end_ns ?? moment(), moment(), from + 1000) };
    },
    undefined,
    { equals: (a, b) => a.from === b.from && a.to === b.to },
  );

  const answer = createQuery(store, "timeline", (): GetTimeline | undefined => {
    const run = store.runId();
    if (run === undefined || running() || (store.model()?.seq ?? 0) === 0) return undefined;
    return {
      type: "get_timeline",
      run,
      start_ns: Math.max(0, Math.floor(asked().from)),
      end_ns: Math.max(0, Math.ceil(asked().to)),
      limit: LIMIT,
    };
  });
  const rows = createMemo((): TimelineRows => {
    const now = answer();
    if (!running() && now.kind === "ready") return decodeExecutions(now.value.executions);
    beat();
    return ringRows(store, asked().from);
  });
  const thinned = () => {
    const now = answer();
    return !running() && now.kind === "ready" && now.value.total > rows().count;
  };
  const pauses = createMemo(() => pausesOf(rows(), asked().from, asked().to));
  const lanes = createMemo(() =>
    lanesOf(
      store.model()?.graph,
      mapRows(rows(), pauses().map),
      pauses().pauses.map((pause) => pause.at),
    ),
  );
  /** What is shown, on the axis. */
  const span = createMemo(() => {
    const { map } = pauses();
    const now = mapStep(steps().now, map);
    const before = mapStep(steps().before, map);
    const from = map(asked().from);
    const zero = now?.start_ns ?? from;
    const expected =
      now !== undefined && before !== undefined && now.end_ns === null
        ? now.start_ns + ((before.end_ns ?? now.start_ns) - before.start_ns)
        : 0;
    return {
      from,
      to: Math.max(map(asked().to), expected),
      zero,
      now,
      before,
      moment: map(moment()),
    };
  });
  createEffect(
    on(
      () => steps().now?.step,
      () => setZoom(undefined),
    ),
  );
  const window = () => zoom() ?? ([span().from, span().to] as const);

  createEffect(() => {
    const bar = hovered();
    const at = span().moment - span().zero;
    const step = steps().now?.step;
    props.onWords(
      bar !== undefined
        ? `${bar.scope || bar.label} · ${formatDuration(bar.end - bar.start)}`
        : step === undefined
          ? formatDuration(moment())
          : `step ${step} · ${formatDuration(at)} since its start${
              pauses().pauses.length > 0 ? ", pauses left out" : ""
            }`,
    );
  });
  onCleanup(() => props.onWords(""));

  const wheel = (event: WheelEvent): void => {
    if (placed === undefined) return;
    event.preventDefault();
    const [t0, t1] = window();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = (event.deltaX / placed.width) * (t1 - t0);
      setZoom([t0 + by, t1 + by]);
      return;
    }
    const at = placed.time(event.offsetX);
    const factor = Math.exp(event.deltaY * 0.0015);
    const width = Math.min(Math.max((t1 - t0) * factor, 500), (span().to - span().from) * 20);
    const part = (at - t0) / (t1 - t0);
    setZoom([at - part * width, at + (1 - part) * width]);
  };
  let grabbed: { x: number; from: readonly [number, number]; moved: boolean } | undefined;
  const tip = () => {
    const bar = hovered();
    if (bar === undefined) return undefined;
    return {
      title: props.store.model()?.graph.nodes[bar.node]?.name ?? (bar.scope || bar.phase),
      rows: [
        `${formatDuration(bar.end - bar.start)}, ${bar.phase}`,
        `${bar.step > 0 ? `step ${formatCount(bar.step)}` : "before the first step"}, at ${formatDuration(bar.start - span().zero)}`,
      ],
    };
  };
  return (
    <div class="timeline-pane">
      <Canvas
        class="timeline"
        label="Timeline"
        ref={(canvas) => canvas.addEventListener("wheel", wheel, { passive: false })}
        draw={(surface) => {
          void props.theme;
          placed = drawTimeline(surface, {
            lanes: lanes(),
            thinned: thinned(),
            window: window(),
            zero: span().zero,
            moment: span().moment,
            now: span().now,
            // What is expected next; a program that is gone does nothing more.
            before: store.model()?.info.state === "live" ? span().before : undefined,
            hovered: hovered(),
            pauses: pauses().pauses,
            current:
              store.cursor().kind === "past" ? store.past.lastNode : (store.stop()?.node ?? 0),
          });
        }}
        events={{
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
                const shift = (-by / placed.width) * (t1 - t0);
                setZoom([t0 + shift, t1 + shift]);
              }
              return;
            }
            setHovered(placed && hitBar(placed, event.offsetX, event.offsetY));
            setPointer({
              x: event.offsetX,
              y: event.offsetY,
              width: event.currentTarget.clientWidth,
              height: event.currentTarget.clientHeight,
            });
          },
          onPointerUp: (event) => {
            const bar = placed && hitBar(placed, event.offsetX, event.offsetY);
            if (grabbed?.moved === false && bar !== undefined) {
              if (bar.node > 0) props.go({ kind: "node", id: bar.node });
              else if (bar.scope !== "") props.go({ kind: "scope", path: bar.scope });
            }
            grabbed = undefined;
          },
          onPointerLeave: () => setHovered(undefined),
          onDblClick: () => setZoom(undefined),
        }}
      />
      <Show when={tip()}>
        {(now) => (
          <div
            class="tip"
            data-testid="timeline-tip"
            style={{
              left: `${Math.max(4, Math.min(pointer().x + 12, pointer().width - TIP_WIDTH))}px`,
              top: `${Math.max(0, Math.min(pointer().y + 16, pointer().height - TIP_HEIGHT))}px`,
            }}
          >
            <b class="ell">{now().title}</b>
            <For each={now().rows}>{(row) => <span>{row}</span>}</For>
          </div>
        )}
      </Show>
    </div>
  );
}

/** The phases by name and colour: what the uppermost bars are. */
export function PhaseKey(props: { readonly store: Store }): JSX.Element {
  // Recomputing is rare: only the runs that do it have to know.
  const phases = createMemo(
    () => {
      const nodes = props.store.model()?.graph.nodes ?? [];
      const recomputes = nodes.some((node) => node?.phase === "recompute");
      return PHASES.filter((each) => each !== "other" && (each !== "recompute" || recomputes));
    },
    undefined,
    { equals: (a, b) => a.join() === b.join() },
  );
  return (
    <span class="phase-key wide">
      <For each={phases()}>
        {(phase) => (
          <span>
            <span class={`sw ph-${phase}`} aria-hidden="true" />
            {phase}
          </span>
        )}
      </For>
    </span>
  );
}

function ringRows(store: Store, from: number): TimelineRows {
  const { ring } = store;
  const picked: number[] = [];
  for (let i = ring.length - 1; i >= 0 && picked.length < LIMIT; i--) {
    const at = ring.at(i);
    if ((ring.startNs[at] ?? 0) < from) break;
    picked.push(at);
  }
  picked.reverse();
  const pick = (column: ArrayLike<number>) => picked.map((at) => column[at] ?? 0);
  return {
    count: picked.length,
    node: pick(ring.node),
    step: pick(ring.step),
    thread: pick(ring.thread),
    startNs: pick(ring.startNs),
    durationNs: pick(ring.durationNs),
  };
}
