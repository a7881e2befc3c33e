import { createRoot } from "solid-js";
import { beforeEach, expect, test } from "vitest";
import {
  createMoments,
  type Moments,
  missing,
  momentWords,
  statisticRows,
  verdict,
} from "@/store/history/value_diff";
import { Store } from "@/store/page/store";
import { createUi } from "@/store/page/ui";
import { RUN, records, runInfo, snapshot, tensor } from "@/wire/fixtures";
import type { Measure, MomentsCompared, TensorSummary, ValueMoment } from "@/wire/types.gen";

const MEASURE: Measure = {
  source: "arrays",
  equal: false,
  elements: 6,
  max_abs: 1,
  max_rel: 0.5,
  ulp: 3,
  mismatched: 0.5,
  nan: [0, 0],
  inf: [0, 0],
  why: "",
};
const SUMMARY: TensorSummary = {
  spec: tensor([6], "float64"),
  nbytes: 48,
  min: 0,
  max: 1,
  mean: 0.5,
  std: 0.1,
  norm: 2,
  nan_count: 0,
  inf_count: 0,
  zero_count: 3,
  histogram: [],
  preview: [],
  blob: true,
};
const SIDE: ValueMoment = {
  found: true,
  seq: 4,
  step: 1,
  summary: SUMMARY,
  elements: true,
  reason: "",
  edit: "",
};

function compared(change: Partial<MomentsCompared> = {}): MomentsCompared {
  return {
    type: "moments_compared",
    value: 2,
    one: SIDE,
    other: { ...SIDE, seq: 9, step: 2 },
    same: false,
    measure: MEASURE,
    differ: 2,
    first: null,
    largest: null,
    difference: null,
    shape: [6],
    index: [],
    window: [0, 0, 0, 0],
    grid: [0, 0],
    data: new Uint8Array(),
    ...change,
  };
}

test("the verdict says how many elements differ, or what was compared instead", () => {
  expect(verdict(compared())).toBe("2 of 6 elements differ.");
  expect(verdict(compared({ differ: 6 }))).toBe("All 6 elements differ.");
  expect(verdict(compared({ differ: 0 }))).toBe("Bit-identical: 6 elements.");
  expect(verdict(compared({ differ: 1, measure: { ...MEASURE, elements: 1 } }))).toBe(
    "The value changed.",
  );
  expect(verdict(compared({ same: true }))).toContain("the same execution");
  expect(verdict(compared({ one: { ...SIDE, found: false } }))).toBe("Nothing to compare.");
  const none = { ...MEASURE, source: "none", why: "the shapes differ" } as const;
  expect(verdict(compared({ measure: none }))).toBe("Not compared: the shapes differ.");
  const statistics = { ...MEASURE, source: "summaries" } as const;
  expect(verdict(compared({ measure: statistics, differ: null }))).toBe("The statistics differ.");
});

test("missing elements are reported with their side and reason", () => {
  const measure = { ...MEASURE, source: "summaries" } as const;
  const bare = { ...SIDE, elements: false, reason: "Not kept." };
  expect(missing(compared())).toBe("");
  expect(missing(compared({ measure, other: bare }))).toBe(
    "Statistics only: B has no recorded elements. Not kept.",
  );
  expect(missing(compared({ measure, one: bare, other: bare }))).toContain(
    "A and B have no recorded elements",
  );
});

test("statistics are shown side by side with their difference", () => {
  const other = { ...SIDE, summary: { ...SUMMARY, max: 4, mean: 0.25, std: null } };
  const rows = statisticRows(compared({ other }));
  expect(rows.find((row) => row.name === "max")).toEqual({
    name: "max",
    one: "1",
    other: "4",
    difference: "+3",
  });
  expect(rows.find((row) => row.name === "mean")?.difference).toBe("\u22120.25000");
  expect(rows.find((row) => row.name === "std")?.difference).toBe("");
  expect(rows.find((row) => row.name === "zero")?.difference).toBe("=");
  expect(statisticRows(compared({ one: { ...SIDE, summary: null } }))).toEqual([]);
});

let store: Store;
let moments: Moments;

beforeEach(() => {
  store = new Store();
  store.runsChanged([runInfo()]);
  store.receive([snapshot({ seq: 30 })]);
  createRoot(() => {
    moments = createMoments(store, createUi(undefined));
  });
});

test("a held moment stays as the run goes on", () => {
  moments.hold();
  expect(moments.held()?.seq).toBe(30);
  store.receive([records({ run: RUN, seq: 50 })]);
  expect(moments.held()?.seq).toBe(30);
  expect(moments.here().seq).toBe(50);
  moments.clear();
  expect(moments.held()).toBeUndefined();
});

test("an edit has two sides, which can be swapped; holding a moment replaces them", () => {
  moments.edited({ seq: 12, value: 2, at_seq: 8, step: 3, time_ns: 0, how: "set to 0" });
  expect([moments.held()?.seq, moments.other()?.seq]).toEqual([11, 12]);
  expect(momentWords(moments.held() ?? { seq: 0, step: 0 })).toBe("step 3, before the edit");
  moments.swap();
  expect([moments.held()?.seq, moments.other()?.seq]).toEqual([12, 11]);
  moments.hold({ seq: 5, step: 1 });
  expect([moments.held()?.seq, moments.other()]).toEqual([5, undefined]);
});
