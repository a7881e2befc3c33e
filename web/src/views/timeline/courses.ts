/**
 * Which course of the step shown is on the timeline, and the requests for it.
 *
 * Invariant: nothing is requested while none is chosen, or while the program runs on.
 */

import { type Accessor, createMemo } from "solid-js";
import { answered, createQuery, failureOf } from "@/store/page/query";
import type { Requests } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import type { Axis } from "@/views/timeline/axis";
import { curveOf, type MemoryCurve, marksOf, type PathMarks } from "@/views/timeline/course";
import type { TimeWindow } from "@/views/timeline/zoom";
import type {
  CriticalPath,
  GetCriticalPath,
  GetStepMemory,
  RequestBody,
  StepMemory,
} from "@/wire/types.gen";

export interface CourseSource {
  readonly ui: Ui;
  readonly asker: Requests;
  /** Undefined while there is nothing to request. */
  run(): string | undefined;
  step(): number;
  /** The part of the step's time that is requested, in the program's own time. */
  sight(): TimeWindow;
  axis(): Axis;
  /** The time of the step, on the axis. */
  span(): TimeWindow;
  /** The moment shown. */
  seq(): number;
  refresh(): unknown;
}

export interface Courses {
  path(): CriticalPath | undefined;
  /** Whether the path is the one by data alone. */
  byData(): boolean;
  marks(): PathMarks | undefined;
  memory(): StepMemory | undefined;
  curve(): MemoryCurve | undefined;
  failure(): string | undefined;
  /** The course that is being computed. */
  computing(): ReturnType<Ui["course"]>;
}

export function createCourses(source: CourseSource): Courses {
  const { ui } = source;
  const span = (): readonly [number, number] => {
    const [from, to] = source.sight();
    return [Math.floor(from), Math.ceil(to)];
  };
  const sameStep = (before: RequestBody, after: RequestBody): boolean =>
    "step" in before && "step" in after && before.step === after.step;
  const pathAnswer = createQuery(
    source.asker,
    "critical_path",
    (): GetCriticalPath | undefined => {
      const run = source.run();
      if (run === undefined || ui.course() !== "path") return undefined;
      const [start_ns, end_ns] = span();
      const data = byData();
      return { type: "get_critical_path", run, step: source.step(), start_ns, end_ns, data };
    },
    source.refresh,
    sameStep,
  );
  const path = (): CriticalPath | undefined => answered(pathAnswer());
  const lanes: Accessor<number | undefined> = createMemo<number | undefined>(
    (before) => path()?.lanes ?? before,
  );
  /** Defaults to data alone on a single thread, where the path as it ran is everything that ran. */
  const byData = (): boolean => {
    const chosen = ui.pathBy();
    return chosen === undefined ? lanes() === 1 : chosen === "data";
  };
  const memoryAnswer = createQuery(
    source.asker,
    "step_memory",
    (): GetStepMemory | undefined => {
      const run = source.run();
      if (run === undefined || ui.course() !== "memory") return undefined;
      const [start_ns, end_ns] = span();
      const at_seq = ui.memoryAt() === "moment" ? source.seq() : null;
      return { type: "get_step_memory", run, step: source.step(), start_ns, end_ns, at_seq };
    },
    source.refresh,
    sameStep,
  );
  const memory = (): StepMemory | undefined => answered(memoryAnswer());
  const failure = (): string | undefined => failureOf(pathAnswer()) ?? failureOf(memoryAnswer());
  return {
    path,
    byData,
    marks: createMemo(() => {
      const answer = path();
      return answer === undefined ? undefined : marksOf(answer, source.axis());
    }),
    memory,
    curve: createMemo(() => {
      const answer = memory();
      return answer === undefined ? undefined : curveOf(answer, source.axis(), source.span());
    }),
    failure,
    computing: createMemo(() => {
      const course = ui.course();
      const waits = path() === undefined && memory() === undefined && failure() === undefined;
      return waits ? course : "none";
    }),
  };
}
