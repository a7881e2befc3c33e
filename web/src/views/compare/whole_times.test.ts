import { expect, test } from "vitest";
import { seldomWords, timeRows } from "@/views/compare/whole_times";
import type { Timings } from "@/wire/types.gen";

const fn = { owner: "train_step#2", eager_ns: 910e3, compiled_ns: 275e3 };
const timings: Timings = {
  functions: [
    {
      name: "train_step",
      eager: { calls: 60, median_ns: 730e3, low_ns: 700e3, high_ns: 800e3 },
      compiled: { calls: 58, median_ns: 252e3, low_ns: 250e3, high_ns: 260e3 },
      pairs: [2.88, 4.67],
    },
  ],
  runs: 3,
  warm_up: 3,
  cut: "",
};

test("calls and nodes have separate rows, each with its way of measuring", () => {
  const rows = timeRows(fn, timings);
  expect(rows.map((row) => [row.name, row.eagerNs, row.compiledNs])).toEqual([
    ["whole call", 730e3, 252e3],
    ["sum of nodes", 910e3, 275e3],
  ]);
  expect(rows[0]?.how).toBe(
    "Whole call: the program alone, without recording; medians of 60 and 58 calls in 3 runs each, " +
      "taken in turns, without the first 3 calls of a run, which trace; 2.88× to 4.67× over 2 pairs " +
      "of runs.",
  );
  expect(rows[1]?.how).toContain("each node runs and is timed by itself");
});

test("without timed calls, only the nodes' times are shown", () => {
  expect(timeRows(fn, undefined).map((row) => row.name)).toEqual(["sum of nodes"]);
  expect(timeRows({ ...fn, owner: "other" }, timings).map((row) => row.name)).toEqual([
    "sum of nodes",
  ]);
});

test("a function that was called too rarely says so", () => {
  expect(seldomWords(timings)).toBe(
    "No run called it more than 4 times; the first 3 calls, which trace, do not count.",
  );
});
