import { expect, test } from "vitest";
import { update } from "@/store/run/run_model";
import { axisOf } from "@/views/timeline/axis";
import {
  computingWords,
  curveOf,
  heldWords,
  lifetimeWords,
  marksOf,
  memoryNotes,
  nothingWords,
  pathNote,
  pathNotes,
  pathWords,
  pointAt,
} from "@/views/timeline/course";
import { drawTimeline } from "@/views/timeline/draw";
import { ASIDE } from "@/views/timeline/draw_course";
import { RUN_START } from "@/views/timeline/origin";
import { lanesOf } from "@/views/timeline/spans";
import { node, snapshot } from "@/wire/fixtures";
import type { CriticalPath, HeldValue, StepMemory } from "@/wire/types.gen";

test("a slow computation shows its time so far", () => {
  expect([0, 1, 7].map(computingWords)).toEqual(["Computing…", "Computing… 1 s", "Computing… 7 s"]);
});

const column = (...numbers: number[]) => new Uint8Array(Float64Array.from(numbers).buffer);
/** From 100 to 300 the debugger held the program. */
const AXIS = axisOf([100, 300]);

const PATH: CriticalPath = {
  type: "critical_path",
  step: 2,
  observed: true,
  partial: false,
  lanes: 2,
  operations_ns: 9000,
  ran_ns: 600,
  data_ns: 500,
  members: 3,
  nodes: 3,
  count: 3,
  place: column(0, 1, 2),
  node: column(4, 4, 5),
  start_ns: column(10, 350, 400),
  duration_ns: column(5, 5, 5),
  heaviest: [],
};

const MEMORY: StepMemory = {
  type: "step_memory",
  step: 2,
  observed: true,
  partial: false,
  count: 4,
  time_ns: column(50, 60, 400, 500),
  needed: column(1024, 4096, 2048, 0),
  seq: column(7, 8, 8, 9),
  peak: 4096,
  peak_ns: 60,
  peak_end_ns: 400,
  peak_node: 3,
  peak_seq: 8,
  unknown: 0,
  at_ns: 60,
  at: 4096,
  values: [],
  further: 0,
  further_nbytes: 0,
};

const VALUE: HeldValue = {
  value: 1,
  nbytes: 1024,
  producer: 3,
  seq: 8,
  start_ns: 60,
  end_ns: 400,
  throughout: false,
  views: 0,
};

test("members of the path are found by node and start on the axis", () => {
  const marks = marksOf(PATH, AXIS);
  expect(marks.place(4, 10)).toBe(0);
  expect(marks.place(4, 150)).toBe(1);
  expect(marks.place(5, 200)).toBe(2);
  expect(marks.place(5, 10)).toBeUndefined();
  expect(marks.place(6, 10)).toBeUndefined();
});

test("memory is known only within its step, and constant from each moment to the next", () => {
  const curve = curveOf(MEMORY, AXIS, [40, 300]);
  expect(pointAt(curve, 55)).toEqual({ time: 55, needed: 1024, seq: 7 });
  expect(pointAt(curve, 199)).toMatchObject({ needed: 4096, seq: 8 });
  expect(pointAt(curve, 200)).toMatchObject({ needed: 2048 });
  expect(pointAt(curve, 300)).toMatchObject({ needed: 0, seq: 9 });
  expect(pointAt(curve, 45)).toBeUndefined();
  expect(pointAt(curve, 301)).toBeUndefined();
  expect(curve.peakAt).toEqual([60, 200]);
});

test("a path is described by its share of the step and an explanation", () => {
  expect(pathWords(1.42e6, 3.14e6)).toBe("1.42\u202fms of 3.14\u202fms, 45 %");
  expect(pathWords(1e3, 1e6)).toContain("<1 %");
  expect(pathWords(0, 0)).not.toContain("%");
  expect(pathNote(PATH, false)).toContain("or for its thread");
  expect(pathNote({ ...PATH, lanes: 1 }, false)).toContain("One thread ran all operations");
  expect(pathNotes(PATH, true).join()).toContain("together they took 9.00\u202fµs");
  expect(pathNotes({ ...PATH, partial: true }, true)).toContain("Not every operation is recorded.");
  expect(pathNotes({ ...PATH, nodes: 5 }, false)[0]).toBe("5 more nodes");
});

test("notes name the values left out, and what is not known", () => {
  const more = { ...MEMORY, values: [VALUE], further: 2, further_nbytes: 2048, unknown: 1 };
  expect(heldWords(more)).toBe("4.00\u202fKiB in 3 values");
  expect(memoryNotes(more).slice(0, 2)).toEqual([
    "2 more values, 2.00\u202fKiB",
    "1 value of unknown size is not counted",
  ]);
  expect(memoryNotes(MEMORY)).toHaveLength(1);
  expect(memoryNotes({ ...MEMORY, partial: true })).toContain("Not every operation is recorded.");
});

test("the lifetime of a value counts from the start of the step", () => {
  expect(lifetimeWords(VALUE, AXIS, 40)).toBe("needed from 20\u202fns to 160\u202fns");
  expect(lifetimeWords({ ...VALUE, seq: 0 }, AXIS, 40)).toBe("from before the step to 160\u202fns");
  expect(lifetimeWords({ ...VALUE, throughout: true, views: 2 }, AXIS, 40)).toBe(
    "needed in the whole step; 2 more values in the same memory",
  );
});

test("a step without anything to show says why", () => {
  expect(nothingWords(1200, { observed: false, count: 0 })).toContain(
    "Step 1,200 was not observed",
  );
  expect(nothingWords(2, { observed: true, count: 0 })).toBe("No operation ran here.");
  expect(nothingWords(2, { observed: true, count: 3 })).toBe("");
});

test("bars off the path are faint, its members are marked and linked across threads", () => {
  const graph = update(undefined, snapshot({ nodes: [node(4, "a"), node(5, "b"), node(6, "c")] }));
  const rows = {
    count: 3,
    node: [4, 6, 5],
    step: [2, 2, 2],
    thread: [1, 1, 2],
    startNs: [10, 60, 400],
    durationNs: [40, 40, 50],
  };
  const lanes = lanesOf(graph?.graph, rows);
  const drawn: (readonly [alpha: number, height: number])[] = [];
  let lines = 0;
  const target: Record<string, unknown> = { globalAlpha: 1 };
  const g = new Proxy(target, {
    get: (of, name) => {
      if (name in of) return of[String(name)];
      return (...args: number[]) => {
        if (name === "fillRect") drawn.push([Number(of.globalAlpha), args[3] ?? 0]);
        if (name === "lineTo") lines += 1;
      };
    },
  });
  const scene = {
    lanes,
    expected: undefined,
    thinned: false,
    blocks: [],
    stacked: false,
    step: 2,
    after: false,
    window: [0, 500],
    origin: RUN_START,
    moment: 0,
    hovered: undefined,
    current: 0,
    holds: [],
    path: undefined,
    memory: undefined,
  } as const;
  const surface = { g: g as never, width: 640, height: 160, colour: () => "#000000" };
  drawTimeline(surface, scene);
  expect(drawn.filter(([alpha]) => alpha === ASIDE)).toHaveLength(0);
  const plain = lines;
  drawn.length = lines = 0;
  const path = {
    ...PATH,
    count: 2,
    place: column(0, 1),
    node: column(4, 5),
    start_ns: column(10, 400),
  };
  drawTimeline(surface, { ...scene, path: marksOf(path, axisOf([])) });
  expect(drawn.filter(([alpha]) => alpha === ASIDE)).toHaveLength(1);
  expect(drawn.filter(([, height]) => height === 3)).toHaveLength(2);
  expect(lines).toBe(plain + 2);
});
