import { expect, test } from "vitest";
import { drawBand } from "@/views/timeline/draw_steps";
import type { HostSpan } from "@/views/timeline/host";
import { type Origin, originWords, RUN_START, whenWords } from "@/views/timeline/origin";
import type { Bar } from "@/views/timeline/spans";
import { blockWords, type StepBlock } from "@/views/timeline/step_blocks";
import { tipOf } from "@/views/timeline/tips";

const MS = 1e6;

function block(step: number, start: number, end: number, after = false): StepBlock {
  const parts = { forward: end - start } as never;
  return { first: step, last: step, start, end, after, leftOut: 0, parts };
}

const BLOCKS = [block(12, 0, 200 * MS), block(13, 200 * MS, 400 * MS)];

function hostBar(start: number, end: number): Bar {
  const host: HostSpan = {
    kind: "waiting",
    thread: 1,
    step: 12,
    start,
    end,
    where: "slow.py:11",
    what: "time.sleep",
    nested: true,
  };
  const bar = { start, end, label: "", node: 0, scope: "", phase: "other", family: "" } as const;
  return { ...bar, step: 12, after: true, host };
}

test("a wait for an item names the step that it is drawn in", () => {
  const bar = hostBar(200 * MS, 390 * MS);
  const tip = (origin: Origin) => tipOf({ kind: "bar", bar }, undefined, origin, [], BLOCKS);
  const own = tip({ at: 200 * MS, step: 13, after: false });
  expect(own.title).toBe("waiting in time.sleep · slow.py:11");
  expect(own.rows[0]).toBe("190\u202fms, step 13, at its start");
  expect(tip(RUN_START).rows[0]).toBe("190\u202fms, step 13, at 200\u202fms of the run");
  const later = tip({ at: 400 * MS, step: 14, after: false });
  expect(later.rows[0]).toBe("190\u202fms, step 13, 200\u202fms before step 14");
});

test("the origin is named with a moment, and beside the axis", () => {
  const step = { at: 100 * MS, step: 1204, after: false };
  const after = { ...step, after: true };
  expect(whenWords(150 * MS, step, true)).toBe("at 50.0\u202fms");
  expect(whenWords(150 * MS, step, false)).toBe("50.0\u202fms after the start of step 1,204");
  expect(whenWords(50 * MS, after, false)).toBe("50.0\u202fms before the end of step 1,204");
  expect(whenWords(150 * MS, after, false)).toBe("50.0\u202fms after the end of step 1,204");
  expect(originWords(RUN_START)).toEqual(["0 = start"]);
  expect(originWords(step)).toEqual(["0 = step 1,204", "0 = 1,204"]);
  expect(originWords(after)).toEqual(["0 = after 1,204"]);
});

test("after a step in which nothing ran, the words match those of the slider", () => {
  const [, step] = BLOCKS;
  if (step === undefined) throw new Error("no step");
  const words = (over: StepBlock) => blockWords(over, { timed: false, after: true });
  expect(words(step)).toBe("after step 13, which took 200\u202fms");
  expect(words({ ...step, after: true })).toBe("after step 13 · 200\u202fms");
});

test.each([
  ["every one where all fit", 17, 25],
  ["every second one where they do not", 16.5, 13],
])("equal columns are labelled alike: %s", (_, wide, count) => {
  const texts: string[] = [];
  const g = { fillRect: () => undefined, fillText: (text: string) => texts.push(text) };
  const first = count === 25 ? 1 : 1001;
  const blocks = Array.from({ length: 25 }, (_, i) => block(first + i, i * wide, (i + 1) * wide));
  const surface = { g: g as never, width: 2000, height: 100, colour: () => "#000000" };
  const place = { x: (time: number) => time, left: 0, top: 0, height: 13 };
  drawBand(surface, { blocks, step: 0, after: false }, place);
  const numbers = texts.map((text) => Number(text.replace(/\D/g, "")));
  const by = count === 25 ? 1 : 2;
  const expected = Array.from({ length: count }, (_, i) => first + i * by);
  expect(numbers).toEqual(expected);
});
