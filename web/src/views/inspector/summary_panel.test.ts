import { expect, test } from "vitest";
import { curveWords, spaceWords, wholePercent } from "@/views/inspector/summary_panel";

const LOSS = { total: 6, broken: 0, first: 2, last: 0.5, least: 0.25 };

test("a loss goes from its first value to its last, if there are two", () => {
  expect(curveWords(LOSS)).toBe("2 → 0.5000 · lowest 0.2500");
  expect(curveWords({ ...LOSS, broken: 5, last: 2, least: 2 })).toBe("2 · 5 of 6 not finite");
  expect(curveWords({ ...LOSS, broken: 6, first: null })).toBe("never finite");
});

test("a small share is not rounded to zero", () => {
  expect([0, 0.001, 0.004, 0.006, 0.46].map(wholePercent)).toEqual([
    "0 %",
    "<1 %",
    "<1 %",
    "1 %",
    "46 %",
  ]);
});

test("the space of a recording is whole values and the rest", () => {
  const kept = { arrays_bytes: 101 * 2 ** 20 };
  expect(spaceWords({ nbytes: 108 * 2 ** 20, summary: { kept } })).toBe(
    "Whole values 101\u202fMiB; statistics, times and the graph 7.00\u202fMiB.",
  );
  expect(spaceWords({ nbytes: 9000, summary: { kept: { arrays_bytes: 0 } } })).toBe("");
});
