import { describe, expect, test } from "vitest";
import { textWidth } from "@/base/fonts_metrics";
import { remembering } from "@/store/page/cached_query";
import { samePlace } from "@/store/run/place";
import { update } from "@/store/run/run_model";
import { axisOf, mapRows } from "@/views/timeline/axis";
import { barLabel, drawTimeline, legible } from "@/views/timeline/draw";
import { expectedRows } from "@/views/timeline/expected";
import { type HostSpan, hostSpans, hostTitle } from "@/views/timeline/host";
import { RUN_START } from "@/views/timeline/origin";
import {
  type Lane,
  laneNames,
  lanesOf,
  laneWords,
  operationsIn,
  type TimelineRows,
  tickLabel,
  tickStep,
} from "@/views/timeline/spans";
import { blockWords, lastSeqOf, markAt, stepIn } from "@/views/timeline/step_blocks";
import { tipOf } from "@/views/timeline/tips";
import { askedFor, moved, panned, zoomed } from "@/views/timeline/zoom";
import { node, snapshot } from "@/wire/fixtures";
import { FAILED, type HostTime, type StepRow } from "@/wire/types.gen";

function rows(
  ...list: readonly (readonly [node: number, start: number, duration: number])[]
): TimelineRows {
  return {
    count: list.length,
    node: list.map((row) => row[0]),
    step: list.map(() => 1),
    thread: list.map(() => 1),
    startNs: list.map((row) => row[1]),
    durationNs: list.map((row) => row[2]),
  };
}

test("a lane counts the executions shown, and says if more ran", () => {
  expect(laneWords(1, false)).toBe("1 ran");
  expect(laneWords(4000, false)).toBe("4,000 ran");
  expect(laneWords(4000, true)).toBe("4,000+ ran");
});

test("a node that only holds data is drawn, but not counted", () => {
  const graph = update(
    undefined,
    snapshot({
      nodes: [
        node(1, "w", { family: "leaf", role: "parameter" }),
        node(2, "net/x"),
        node(3, "net/y"),
      ],
    }),
  )?.graph;
  const [lane] = lanesOf(graph, rows([1, 0, 5], [2, 10, 5], [3, 20, 5], [2, 30, 5]));
  expect(lane?.levels.at(-1)).toHaveLength(4);
  expect(lane && operationsIn(lane, [0, 35])).toBe(3);
});

test("reading a node that only holds data starts neither a phase nor a scope", () => {
  const moment = { family: "leaf", role: "parameter", phase: "optimizer" } as const;
  const graph = update(
    undefined,
    snapshot({ nodes: [node(1, "optimizer/w/moment", moment), node(2, "net/x")] }),
  )?.graph;
  const [lane] = lanesOf(graph, rows([1, 0, 5], [2, 100, 5], [1, 110, 5], [2, 120, 5]));
  expect(lane?.levels.map((level) => level.map((bar) => bar.label))).toEqual([
    ["forward, step 1"],
    ["net"],
    ["moment", "x", "moment", "x"],
  ]);
});

test("a name that would reverse the text around it is made safe", () => {
  const graph = update(undefined, snapshot({ nodes: [node(2, "a/\u202elive")] }))?.graph;
  const [lane] = lanesOf(graph, rows([2, 0, 5]));
  const [bar] = lane?.levels.at(-1) ?? [];
  if (bar === undefined) throw new Error("no bar");
  expect(barLabel(bar)).toBe("\ufffdlive");
  expect(tipOf({ kind: "bar", bar }, graph, RUN_START, []).title).toBe("a/\ufffdlive");
});

test("workers and device queues have their own lanes, without the time between nodes", () => {
  const graph = update(undefined, snapshot({ nodes: [node(2, "exp")] }))?.graph;
  const ran = rows([2, 0, 5], [2, 10, 5], [2, 20, 5], [2, 30, 5], [2, 40, 5]);
  const lanes = lanesOf(
    graph,
    { ...ran, thread: [1, 3, 1, 1, 1], worker: [0, 0, 0, 2, 2], lane: [0, 0, 7, 0, 1] },
    { host: [hostSpan("python", 5, 9)], gaps: true },
  );
  expect(laneNames(lanes)).toEqual(["main", "thread 2", "lane 7", "worker 2", "w2 · lane 1"]);
  const named = lanesOf(
    graph,
    { ...ran, lane: [0, 0, 7, 0, 0] },
    { names: [{ lane: 7, name: "cuda:0" }] },
  );
  expect(laneNames(named)).toContain("cuda:0");
  const starts = lanes.map((lane) => lane.levels.at(-1)?.map((bar) => bar.start));
  expect(starts).toEqual([[0, 5], [10], [20], [30], [40]]);
  expect(samePlace(lanes[0] as Lane, lanes[2] as Lane)).toBe(false);
  // The main thread is the one with that number, wherever a worker's thread is sorted.
  const main = lanesOf(graph, { ...ran, thread: [1, 3, 1, 5, 5] }, { mainThread: 3 });
  expect(laneNames(main)).toEqual(["main", "thread 2", "thread 3"]);
  expect(main.map(({ thread }) => thread)).toEqual([3, 1, 5]);
  const others = lanesOf(graph, { ...ran, thread: [1, 1, 1, 5, 5] }, { mainThread: 3 });
  expect(laneNames(others)).toEqual(["thread 2", "thread 3"]);
  // Without workers and queues, each thread has a lane.
  expect(laneNames(lanesOf(graph, { ...ran, worker: [], lane: [] }))).toEqual(["main"]);
});

test("operations in view are counted, not all that were requested", () => {
  const graph = update(undefined, snapshot({ nodes: [node(2, "exp")] }))?.graph;
  const [lane] = lanesOf(graph, rows([2, 0, 5], [2, 10, 5], [2, 20, 5]));
  expect(lane && operationsIn(lane, [0, 30])).toBe(3);
  expect(lane && operationsIn(lane, [12, 20])).toBe(1);
  expect(lane && operationsIn(lane, [5, 10])).toBe(0);
});

test("a label cut to almost nothing is not drawn", () => {
  const font = { face: "sans", weight: 400, size: 10 } as const;
  const room = (text: string): number => textWidth(text, font) + 1;
  expect(legible("sum", font, room("sum"))).toBe("sum");
  expect(legible("forward, step 3", font, room("forwa…"))).toBe("forwa…");
  expect(legible("forward, step 3", font, room("f…"))).toBe("");
  expect(legible("forward, step 3", font, room("…"))).toBe("");
});

test("neighbouring nodes of a scope become one bar", () => {
  const graph = update(
    undefined,
    snapshot({
      nodes: [
        node(1, "net/a/x"),
        node(2, "net/a/y"),
        node(3, "net/b/x"),
        node(4, "backward/net/b/x", { phase: "backward" }),
      ],
    }),
  )?.graph;
  const [lane] = lanesOf(graph, rows([2, 10, 5], [1, 0, 5], [3, 20, 5], [4, 30, 5]));
  const texts = lane?.levels.map((level) =>
    level.map((bar) => `${bar.label} ${bar.start}-${bar.end}`),
  );
  expect(texts).toEqual([
    ["forward, step 1 0-25", "backward, step 1 30-35"],
    ["net 0-25", "net 30-35"],
    ["a 0-15", "b 20-25", "b 30-35"],
    ["x 0-5", "y 10-15", "x 20-25", "x 30-35"],
  ]);
});

test("nodes that run after the end of a step are after it, in every bar and its words", () => {
  const graph = update(undefined, snapshot({ nodes: [node(1, "a/x"), node(2, "a/y")] }))?.graph;
  const ran = rows([1, 0, 5], [2, 10, 5], [1, 30, 5], [2, 40, 5]);
  const stepEnd = (step: number) => (step === 1 ? 20 : Number.NaN);
  const [lane] = lanesOf(graph, ran, { host: [hostSpan("input", 25, 28)], gaps: true, stepEnd });
  expect(lane?.levels[0]?.map((bar) => bar.label || bar.host?.kind)).toEqual([
    "forward, step 1",
    "input",
    "forward, after step 1",
  ]);
  expect(lane?.levels[1]?.map((bar) => [bar.label, bar.after])).toEqual([
    ["a", false],
    ["a", true],
  ]);
  const after = lane?.levels.flat().filter((bar) => bar.start > 20) ?? [];
  expect(after).toHaveLength(7);
  for (const bar of after) {
    const { rows } = tipOf({ kind: "bar", bar }, graph, RUN_START, []);
    expect(rows.join()).toContain("after step 1");
  }
});

test("the execution in which a node raised is marked", () => {
  const graph = update(undefined, snapshot({ nodes: [node(1, "x")] }))?.graph;
  const ran = { ...rows([1, 0, 5], [1, 10, 5]), flags: [0, FAILED] };
  const [lane] = lanesOf(graph, ran);
  expect(lane?.levels.at(-1)?.map((bar) => bar.failed)).toEqual([undefined, true]);
});

test("fetching an item ends a phase, and is drawn on its level", () => {
  const graph = update(undefined, snapshot({ nodes: [node(1, "a/x"), node(2, "a/y")] }))?.graph;
  const fetch = hostSpan("data", 10, 30);
  const [lane] = lanesOf(graph, rows([1, 0, 10], [2, 30, 10]), { host: [fetch] });
  expect(lane?.levels[0]?.map((bar) => [bar.host?.kind, bar.start, bar.end])).toEqual([
    [undefined, 0, 10],
    ["data", 10, 30],
    [undefined, 30, 40],
  ]);
});

test("unnamed time is between operations, with the lines around it", () => {
  const at = (line: number) => ({ source: { file: "/me/train.py", line, function: "f" } });
  const nodes = [node(1, "a/x", at(30)), node(2, "a/y", at(34))];
  const graph = update(undefined, snapshot({ nodes }))?.graph;
  const [lane] = lanesOf(graph, rows([1, 0, 10], [2, 100, 10], [1, 110, 5]), {
    host: [hostSpan("python", 20, 60)],
    gaps: true,
  });
  expect(
    lane?.levels
      .at(-1)
      ?.map((bar) => [bar.between ?? bar.host?.kind ?? bar.label, bar.start, bar.end]),
  ).toEqual([
    ["x", 0, 10],
    ["train.py:30–34", 10, 20],
    ["python", 20, 60],
    ["train.py:30–34", 60, 100],
    ["y", 100, 110],
    ["x", 110, 115],
  ]);
});

test("unobserved steps have no time between operations", () => {
  const ran = rows([1, 0, 10], [2, 100, 10]);
  const unseen = [
    { start: 20, end: 60 },
    { start: 60, end: 90 },
  ];
  const [lane] = lanesOf(undefined, ran, { gaps: true, unseen });
  const between = lane?.levels.at(-1)?.filter((bar) => bar.between !== undefined);
  expect(between?.map((bar) => [bar.start, bar.end])).toEqual([
    [10, 20],
    [90, 100],
  ]);
});

test("only time held by the debugger is removed from the axis, and keeps its true length", () => {
  const axis = axisOf([10, 110, 150, 151]);
  expect(axis.holds).toEqual([
    { at: 10, trueNs: 100 },
    { at: 50, trueNs: 1 },
  ]);
  expect([0, 10, 60, 110, 120, 150, 151, 200].map(axis.map)).toEqual([
    0, 10, 10, 10, 20, 50, 50, 99,
  ]);
  expect([0, 9, 10, 20, 49, 50, 99].map(axis.unmap)).toEqual([0, 9, 110, 120, 149, 151, 200]);
  expect(axisOf([]).map(7)).toBe(7);
});

test("a node interrupted by a hold keeps its own time", () => {
  const mapped = mapRows(rows([1, 0, 130], [2, 140, 5]), axisOf([10, 110]));
  expect([...(mapped.startNs as Float64Array)]).toEqual([0, 40]);
  expect([...(mapped.durationNs as Float64Array)]).toEqual([30, 5]);
});

function hostTime(kind: HostTime["kind"], start: number, end: number, line = 0): HostTime {
  const place = { file: "/me/train.py", line, function: "time.sleep" };
  return { kind, thread: 1, step: 1, start_ns: start, end_ns: end, ...place };
}

function hostSpan(kind: HostSpan["kind"], start: number, end: number): HostSpan {
  return { kind, thread: 1, step: 1, start, end, where: "", what: "", nested: false };
}

test("sampled time extends to the nodes around it, and no further", () => {
  const ms = 1e6;
  const ran = rows([1, 0, 10 * ms], [2, 100 * ms, ms], [1, 400 * ms, ms]);
  const spans = hostSpans(
    [
      hostTime("waiting", 14 * ms, 97 * ms, 12), // between two nodes
      hostTime("python", 100.2 * ms, 100.6 * ms), // within a node: dropped
      hostTime("data", 200 * ms, 399 * ms, 41),
      hostTime("waiting", 196 * ms, 404 * ms, 12), // inside the fetch of the item
      hostTime("held", 110 * ms, 120 * ms),
    ],
    ran,
    axisOf([]),
  );
  expect(
    spans.map((span) => [hostTitle(span), span.start / ms, span.end / ms, span.nested]),
  ).toEqual([
    ["waiting in time.sleep · train.py:12", 10, 100, false],
    ["data loading · train.py:41", 200, 399, false],
    ["waiting in time.sleep · train.py:12", 200, 399, true],
  ]);
});

test("a step says where its time went, the largest part first", () => {
  const none = {
    forward: 0,
    backward: 0,
    optimizer: 0,
    other: 0,
    waiting: 0,
    between: 0,
    compiling: 0,
  };
  const parts = {
    ...none,
    forward: 0.7e6,
    backward: 0.4e6,
    data: 99e6,
    python: 0.9e6,
    held: 12.3e9,
  };
  const block = { after: false, first: 12, last: 12, start: 0, end: 101e6, leftOut: 0, parts };
  expect(blockWords(block)).toBe(
    "step 12 · 101\u202fms: data loading 99.0\u202fms, operations 1.10\u202fms, " +
      "Python 900\u202fµs; held by the debugger for 12.3\u202fs",
  );
  expect(blockWords(block, { short: true, running: true })).toBe(
    "step 12 · 101\u202fms: data 99.0\u202fms, ops 1.10\u202fms; held 12.3\u202fs",
  );
  // With even less room, only the largest parts; the time held is always named.
  expect(blockWords(block, { short: true, most: 1 })).toBe(
    "step 12 · 101\u202fms: data 99.0\u202fms; held 12.3\u202fs",
  );
  // For a library without times, no share is shown.
  expect(blockWords({ ...block, parts: { ...parts, held: 0 } }, { timed: false })).toBe(
    "step 12 · 101\u202fms",
  );
  expect(blockWords({ ...block, leftOut: 1 })).toBe("step 12 · 101\u202fms, not observed");
  expect(blockWords({ ...block, after: true })).toMatch(/^after step 12 · 101\u202fms: data/);
  expect(blockWords({ ...block, parts: { ...parts, compiling: 198e6 } })).toContain(
    ": compiling 198\u202fms, data",
  );
});

describe("the expected rest of the running step", () => {
  const step = (number: number, start: number): StepRow => ({
    step: number,
    start_seq: number,
    start_ns: start,
    end_seq: null,
    end_ns: null,
    observed: true,
  });
  /** Node, step, start, duration. */
  const of = (...list: readonly (readonly number[])[]) => ({
    count: list.length,
    node: list.map((row) => row[0] ?? 0),
    step: list.map((row) => row[1] ?? 0),
    thread: list.map(() => 1),
    startNs: list.map((row) => row[2] ?? 0),
    durationNs: list.map((row) => row[3] ?? 0),
  });
  // Forward took long in the previous step; backward follows.
  const before = [
    [1, 1, 0, 50],
    [2, 1, 50, 50],
    [3, 1, 100, 20],
  ];
  const left = (rows: TimelineRows) =>
    Array.from({ length: rows.count }, (_, i) => [rows.node[i], rows.startNs[i]]);

  test("does not repeat a finished forward pass", () => {
    const rows = of(...before, [1, 2, 200, 5], [2, 2, 205, 5]);
    expect(left(expectedRows(rows, step(2, 200), step(1, 0), 210))).toEqual([[3, 210]]);
  });

  test("leaves out nodes that ran in another order, and repeats none", () => {
    const rows = of(...before, [3, 2, 200, 5], [1, 2, 205, 5]);
    expect(left(expectedRows(rows, step(2, 200), step(1, 0), 210))).toEqual([[2, 210]]);
    const done = of(...before, [1, 2, 200, 5], [2, 2, 205, 5], [3, 2, 210, 5]);
    expect(expectedRows(done, step(2, 200), step(1, 0), 215).count).toBe(0);
  });

  test("is empty if the step takes another course", () => {
    const rows = of(...before, [9, 2, 200, 5]);
    expect(expectedRows(rows, step(2, 200), step(1, 0), 210).count).toBe(0);
  });

  test("is the whole previous step at the start", () => {
    const rows = expectedRows(of(...before), step(2, 200), step(1, 0), 200);
    expect(left(rows)).toEqual([
      [1, 200],
      [2, 250],
      [3, 300],
    ]);
  });
});

test("answers about a finished run are requested once, and few are kept", async () => {
  let answered = 0;
  let over = false;
  const request = (() => Promise.resolve({ type: "done", asked: ++answered })) as never;
  const store = remembering({ request }, () => over);
  const ask = (seq: number) => store.request({ type: "get_state", run: "", seq }, "done" as never);
  await ask(1);
  await ask(1);
  expect(answered).toBe(2);
  over = true;
  await ask(1);
  await ask(1);
  expect(answered).toBe(3);
  for (let seq = 2; seq < 40; seq++) await ask(seq);
  await ask(1);
  expect(answered).toBe(42);
});

describe("the step that a click leads to", () => {
  const row = (step: number, over: Partial<StepRow> = {}): StepRow => ({
    step,
    start_seq: 10 * step,
    start_ns: 100 * step,
    end_seq: 10 * step + 9,
    end_ns: 100 * step + 90,
    observed: true,
    ...over,
  });
  const steps = [1, 2, 3, 4, 5].map((step) => row(step));

  test("is that of the column", () => {
    expect(stepIn(steps, { first: 2, last: 2 }, 0)?.step).toBe(2);
    expect(stepIn(steps, { first: 2, last: 2 }, 1e9)?.step).toBe(2);
    expect(stepIn(steps, { first: 9, last: 9 }, 900)).toBeUndefined();
  });

  test("is the one at that time, if a column has several", () => {
    expect(stepIn(steps, { first: 2, last: 4 }, 310)?.step).toBe(3);
    expect(stepIn(steps, { first: 2, last: 4 }, 0)?.step).toBe(2);
    expect(stepIn(steps, { first: 2, last: 4 }, 1e9)?.step).toBe(4);
  });

  test("is shown at its end, or as it is now if it still runs", () => {
    expect(lastSeqOf(row(3), 1000)).toBe(39);
    expect(lastSeqOf(row(3, { end_seq: null }), 1000)).toBe(1000);
    expect(lastSeqOf(row(0, { start_seq: 0, end_seq: 0 }), 1000)).toBe(1);
  });

  test("has the mark of the newest moment at the end of its stated length", () => {
    const parts = {} as never;
    const step = { first: 1, last: 1, start: 100, end: 1840, leftOut: 0, after: false, parts };
    expect(markAt(618, step, true)).toBe(1840);
    expect(markAt(1900, step, true)).toBe(1900); // the answer is older
    expect(markAt(618, step, false)).toBe(618);
    expect(markAt(618, undefined, true)).toBe(618);
    // The program ended in this step: later activity is not part of the step.
    expect(markAt(9270, step, true, true)).toBe(1840);
    expect(markAt(618, undefined, true, true)).toBe(618);
  });

  test("has a tip that says what a click and a double click do", () => {
    const block = {
      first: 3,
      last: 3,
      start: 0,
      end: 100,
      leftOut: 0,
      after: false,
      parts: { ops: 60, between: 40, data: 0, waiting: 0, python: 0, held: 0 } as never,
    };
    expect(tipOf({ kind: "step", block }, undefined, RUN_START, []).rows.at(-1)).toBe(
      "Click to go to this step, double-click to zoom in",
    );
    const several = { ...block, last: 5 };
    expect(tipOf({ kind: "step", block: several }, undefined, RUN_START, []).rows.at(-1)).toBe(
      "Click to go to the step at the pointer, double-click to zoom in",
    );
    const rest = { ...block, after: true };
    expect(tipOf({ kind: "step", block: rest }, undefined, RUN_START, []).rows.at(-1)).toBe(
      "Click to go to step 3, double-click to zoom in",
    );
  });
});

test("a window stays within the run, and the requested range rarely changes", () => {
  expect(zoomed([0, 100], 25, 2, 1000)).toEqual([-25, 175]);
  const [t0, t1] = zoomed([0, 1000], 500, 1e-9, 1000);
  expect(t1 - t0).toBeGreaterThanOrEqual(200);
  const all = zoomed([0, 1000], 500, 1e9, 1000);
  expect(all[1] - all[0]).toBe(1250);
  expect(panned([0, 100], 1e9, 1000)).toEqual([950, 1050]);
  expect(moved([0, 100], "ArrowRight", 1000)).toEqual([20, 120]);
  expect(moved([0, 100], "x", 1000)).toBeUndefined();
  for (const window of [
    [0, 1000],
    [1e9, 1e9 + 500],
  ] as const) {
    const [from, to] = askedFor(window);
    expect(from).toBeLessThanOrEqual(window[0]);
    expect(to).toBeGreaterThanOrEqual(window[1]);
    expect(to - from).toBeLessThan(4 * (window[1] - window[0]));
  }
  expect(askedFor([1000, 2000])).toEqual(askedFor([1001, 2001]));
});

test.each([
  [3, 5],
  [11, 20],
  [0.2, 1],
  [1000, 1000],
  [2001, 5000],
])("a tick of at least %d is %d", (least, step) => expect(tickStep(least)).toBe(step));

test.each([
  [233e6, 200, "233.0000\u202fms"],
  [-4e9, 1e9, "−4.00\u202fs"],
  [50e6, 50e6, "50\u202fms"],
  [1500, 500, "1.5\u202fµs"],
  [90e9, 30e9, "1\u202fmin 30\u202fs"],
])("a tick at %d, every %d, is %s", (at, every, text) => {
  expect(tickLabel(at, every)).toBe(text);
});

test("no label of the axis is covered by the moment's label, not even at an edge", () => {
  const mono = { face: "mono", weight: 400, size: 10 } as const;
  const target = { textAlign: "left" };
  for (let moment = 300; moment <= 1200; moment += 3) {
    const labels: (readonly [left: number, right: number])[] = [];
    let chip = [0, 0] as readonly [number, number];
    const g = new Proxy(target, {
      get: (of, name) => {
        if (name === "textAlign") return of.textAlign;
        return (...args: never[]) => {
          const [x, , w] = args as number[];
          if (name === "roundRect") chip = [Number(x), Number(x) + Number(w)];
          if (name !== "fillText" || target.textAlign !== "center") return;
          const half = textWidth(String(args[0]), mono) / 2;
          labels.push([Number(args[1]) - half, Number(args[1]) + half]);
        };
      },
    });
    drawTimeline(
      { g: g as never, width: 640, height: 160, colour: () => "#000000" },
      {
        lanes: [{ thread: 1, worker: 0, queue: 0, levels: [[]] }],
        expected: undefined,
        thinned: false,
        blocks: [],
        stacked: false,
        step: 0,
        after: false,
        window: [0, moment * 1000],
        origin: RUN_START,
        moment: moment * 1000,
        hovered: undefined,
        current: 0,
        holds: [],
        path: undefined,
        memory: undefined,
      },
    );
    expect(labels.length).toBeGreaterThan(1);
    expect(chip[1]).toBeGreaterThan(chip[0]);
    expect(labels.filter(([left, right]) => left < chip[1] && right > chip[0])).toEqual([]);
  }
});
