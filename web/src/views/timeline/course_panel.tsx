/**
 * Beside the timeline: the heaviest nodes of the critical path, or the values that make the peak of
 * memory.
 *
 * Invariant: every row leads to its node; unknown facts are named as such.
 */

import { createEffect, createMemo, createSignal, For, type JSX, onCleanup, Show } from "solid-js";
import { formatBytes, formatCount, formatDuration, formatShape } from "@/base/numbers";
import { printable } from "@/base/printable";
import type { Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import type { RunGraph } from "@/store/run/run_model";
import type { Axis } from "@/views/timeline/axis";
import {
  computingWords,
  heldWords,
  lifetimeWords,
  memoryNotes,
  nothingWords,
  pathNote,
  pathNotes,
  pathWords,
} from "@/views/timeline/course";
import type { Courses } from "@/views/timeline/courses";
import type { TimeWindow } from "@/views/timeline/zoom";
import { Segmented } from "@/widgets/controls";
import type { CriticalPath, HeldValue, StepMemory } from "@/wire/types.gen";

const PATHS = [
  { id: "ran", title: "As it ran" },
  { id: "data", title: "Data alone" },
] as const;
const MOMENTS = [
  { id: "peak", title: "Peak" },
  { id: "moment", title: "This moment" },
] as const;

interface CoursePanelProps {
  readonly ui: Ui;
  readonly courses: Courses;
  readonly graph: RunGraph | undefined;
  readonly axis: Axis;
  /** The time of the step, on the axis. */
  readonly span: TimeWindow;
  /** Why nothing is requested; "" if it is. */
  readonly paused: string;
  go(item: Item): void;
  seek(seq: number): void;
}

export function CoursePanel(props: CoursePanelProps): JSX.Element {
  const [seconds, setSeconds] = createSignal(0);
  createEffect(() => {
    if (props.courses.computing() === "none") return;
    const begin = Date.now();
    setSeconds(0);
    const tick = setInterval(() => setSeconds(Math.floor((Date.now() - begin) / 1000)), 250);
    onCleanup(() => clearInterval(tick));
  });
  const empty = (): string => {
    if (props.paused !== "") return props.paused;
    const failure = props.courses.failure();
    if (failure !== undefined) return failure;
    const path = props.courses.path();
    const memory = props.courses.memory();
    if (path === undefined && memory === undefined) return computingWords(seconds());
    if (path !== undefined) return nothingWords(path.step, { ...path, count: path.members });
    return memory === undefined ? "" : nothingWords(memory.step, memory);
  };
  return (
    <aside class="course" data-testid="course" aria-label={TITLES[props.ui.course()]}>
      <Show when={empty() === ""} fallback={<p class="course-note t2">{empty()}</p>}>
        <Show when={props.courses.path()}>
          {(answer) => <PathList {...props} answer={answer()} />}
        </Show>
        <Show when={props.courses.memory()}>
          {(answer) => <MemoryList {...props} answer={answer()} />}
        </Show>
      </Show>
    </aside>
  );
}

const TITLES = { none: "", path: "Critical path", memory: "Memory of the step" } as const;

function PathList(props: CoursePanelProps & { readonly answer: CriticalPath }): JSX.Element {
  const data = () => props.courses.byData();
  const total = () => (data() ? props.answer.data_ns : props.answer.ran_ns);
  const most = () => Math.max(1, props.answer.heaviest[0]?.total_ns ?? 0);
  return (
    <>
      <div class="course-head">
        <b data-testid="course-total">{pathWords(total(), props.span[1] - props.span[0])}</b>
        <Segmented
          label="Which path"
          options={PATHS}
          active={data() ? "data" : "ran"}
          onSelect={(by) => void props.ui.setPathBy(by)}
        />
      </div>
      <p class="course-note t3">{pathNote(props.answer, data())}</p>
      <For each={props.answer.heaviest}>
        {(member) => (
          <Row
            name={props.graph?.nodes[member.node]?.name ?? `node ${member.node}`}
            more={member.times > 1 ? `×${formatCount(member.times)}` : ""}
            amount={formatDuration(member.total_ns)}
            share={member.total_ns / most()}
            pick={() => props.go({ kind: "node", id: member.node })}
          />
        )}
      </For>
      <For each={pathNotes(props.answer, data())}>
        {(note) => <p class="course-note t3">{note}</p>}
      </For>
    </>
  );
}

function MemoryList(props: CoursePanelProps & { readonly answer: StepMemory }): JSX.Element {
  const peakName = createMemo(
    () => props.graph?.nodes[props.answer.peak_node]?.name ?? "an operation",
  );
  const most = () => Math.max(1, props.answer.values[0]?.nbytes ?? 0);
  return (
    <>
      <div class="course-head">
        <b data-testid="course-total">{heldWords(props.answer)}</b>
        <Segmented
          label="Values at which moment"
          options={MOMENTS}
          active={props.ui.memoryAt()}
          onSelect={(at) => void props.ui.setMemoryAt(at)}
        />
      </div>
      <button
        type="button"
        class="course-peak t2 ell"
        title={`Go to ${printable(peakName(), 400)} at the peak`}
        onClick={() => {
          props.seek(props.answer.peak_seq);
          props.go({ kind: "node", id: props.answer.peak_node });
        }}
      >
        {`peak ${formatBytes(props.answer.peak)} while ${printable(peakName(), 200)} runs`}
      </button>
      <For each={props.answer.values}>
        {(value) => (
          <Row
            name={ownerName(props.graph, value)}
            title={lifetimeWords(value, props.axis, props.span[0])}
            more={shapeWords(props.graph, value)}
            amount={value.nbytes === null ? "unknown" : formatBytes(value.nbytes)}
            share={(value.nbytes ?? 0) / most()}
            pick={() => {
              const id = value.producer || props.graph?.values.get(value.value)?.producer || 0;
              if (id > 0) props.go({ kind: "node", id });
            }}
          />
        )}
      </For>
      <For each={memoryNotes(props.answer)}>{(note) => <p class="course-note t3">{note}</p>}</For>
    </>
  );
}

function ownerName(graph: RunGraph | undefined, value: HeldValue): string {
  const node = graph?.nodes[value.producer]?.name;
  return node ?? graph?.values.get(value.value)?.value.name ?? `value ${value.value}`;
}

function shapeWords(graph: RunGraph | undefined, value: HeldValue): string {
  const spec = graph?.values.get(value.value)?.value.spec;
  return spec !== undefined && "shape" in spec ? formatShape(spec.shape, 4) : "";
}

function Row(props: {
  readonly name: string;
  readonly title?: string;
  readonly more: string;
  readonly amount: string;
  readonly share: number;
  pick(): void;
}): JSX.Element {
  return (
    <button
      type="button"
      class="course-row"
      title={[printable(props.name, 400), props.title ?? ""].filter(Boolean).join(": ")}
      onClick={() => props.pick()}
    >
      <span class="course-fill" style={{ width: `${100 * props.share}%` }} />
      <span class="ell course-name">{printable(props.name, 200)}</span>
      <Show when={props.more}>
        <span class="mi t3">{props.more}</span>
      </Show>
      <span class="mi">{props.amount}</span>
    </button>
  );
}
