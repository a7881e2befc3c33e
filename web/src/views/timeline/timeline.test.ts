import { expect, test } from "vitest";
import { textWidth } from "@/base/fonts_metrics";
import { update } from "@/store/run_model";
import { drawTimeline } from "@/views/timeline/draw";
import { pausesOf } from "@/views/timeline/pauses";
import { laneWords, lanesOf, tickStep, type TimelineRows } from "@/views/timeline/spans";
import { node, snapshot } from "@/wire/fixtures";

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

test("a lane counts what it shows, and says when more ran", () => {
  expect(laneWords(1, false)).toBe("1 op");
  expect(laneWords(4000, false)).toBe("4,000 ops");
  expect(laneWords(4000, true)).toBe("4,000+ ops");
});

test("neighbours of one scope become one bar", () => {
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

test("no bar spans a pause", () => {
  const graph = update(undefined, snapshot({ nodes: [node(1, "a/x"), node(2, "a/y")] }))?.graph;
  const [lane] = lanesOf(graph, rows([1, 0, 10], [2, 30, 10]), [10]);
  expect(lane?.levels[0]?.map((bar) => [bar.start, bar.end])).toEqual([
    [0, 10],
    [30, 40],
  ]);
});

test("a long stop is shortened, work keeps its length, order stays", () => {
  const minute = 60e9;
  const work = rows([1, 0, 1e6], [2, 1e6 + minute, 1e6]);
  const { map, pauses } = pausesOf(work, 0, 2e6 + minute);
  expect(pauses).toHaveLength(1);
  expect(pauses[0]?.trueNs).toBe(minute);
  expect(map(1e6)).toBe(1e6);
  expect(map(2e6 + minute) - map(1e6 + minute)).toBeCloseTo(1e6);
  expect(map(2e6 + minute)).toBeLessThan(3e6);
  expect(map(30e9)).toBeGreaterThan(map(20e9));
});

test("short gaps stay as they are", () => {
  const { map, pauses } = pausesOf(rows([1, 0, 1e6], [2, 1.2e6, 1e6]), 0, 2.2e6);
  expect(pauses).toEqual([]);
  expect(map(2.2e6)).toBe(2.2e6);
});

test.each([
  [3, 5],
  [11, 20],
  [0.2, 1],
  [1000, 1000],
  [2001, 5000],
])("a tick of at least %d is %d", (least, step) => expect(tickStep(least)).toBe(step));

test("no label of the axis lies under the moment's own, at an edge neither", () => {
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
        lanes: [{ thread: 1, levels: [[]] }],
        thinned: false,
        window: [0, moment * 1000],
        zero: 0,
        moment: moment * 1000,
        now: undefined,
        before: undefined,
        hovered: undefined,
        current: 0,
        pauses: [],
      },
    );
    expect(labels.length).toBeGreaterThan(1);
    expect(chip[1]).toBeGreaterThan(chip[0]);
    expect(labels.filter(([left, right]) => left < chip[1] && right > chip[0])).toEqual([]);
  }
});
