import { describe, expect, test } from "vitest";
import { formatBytes } from "@/base/numbers";
import {
  costWords,
  keptWords,
  leftOutWords,
  lookedAt,
  lossWords,
  nothingWords,
  reasonWords,
  waysToMore,
} from "@/store/run/keeping";
import type { Governed, Keeping, Unwritten } from "@/wire/types.gen";

const KEEPING: Keeping = {
  level: "summary",
  limit: 2,
  newest_steps: 2,
  newest_bytes: 64 * 2 ** 20,
  budget_bytes: 256 * 2 ** 20,
  chosen: false,
  everything: false,
  nodes: [],
  over_budget: 0,
  behind: 0,
  too_large: 0,
  made_room: 0,
  nonfinite_steps: [],
  unwritten: null,
};
const GOVERNED = {
  limit: 2,
  slowdown: 1.62,
  steps: 276,
  steps_left_out: 260,
  calls_left_out: 0,
  extra_s: 1.4,
  summaries: 0,
  executions: 0,
  arrays: 0,
  because: "",
} as Governed;

const UNWRITTEN: Unwritten = {
  cause: "full",
  arrays: 1,
  summaries: 2,
  executions: 1300,
  structure: 0,
  first_step: 0,
  last_step: 40,
};

test("records lost to a full disk are reported once, with that reason only", () => {
  const full = { ...KEEPING, unwritten: UNWRITTEN };
  const words =
    "The disk was full: 1,300 executions, 2 statistics, 1 array of steps 1 to 40 " +
    "could not be recorded";
  expect(reasonWords(full, undefined, true)).toEqual([words]);
  expect(lossWords(full, { blobs: 1, summaries: 2, executions: 1300 })).toEqual([`${words}.`]);
  expect(lossWords(full, { blobs: 1, summaries: 2, executions: 1301 })).toEqual([
    `${words}.`,
    "1 execution lost: the recorder fell behind.",
  ]);
});

describe("what is kept, in one line", () => {
  test("by default", () => {
    expect(keptWords(KEEPING, GOVERNED)).toBe(
      "Statistics of every observed value, whole values of the last 2 observed steps",
    );
    expect(costWords(GOVERNED)).toBe("16 of 276 steps observed · about 1.62× slower");
    expect(costWords({ ...GOVERNED, steps_left_out: 0, slowdown: 1.002 })).toBe("");
    const short = { ...GOVERNED, steps_left_out: 0, slowdown: 2.5 };
    expect(costWords({ ...short, extra_s: 0.12 })).toBe("about 0.1 s overhead");
    expect(costWords({ ...short, extra_s: 0.012 })).toBe("");
  });

  test("with the steps of the first NaN", () => {
    expect(keptWords({ ...KEEPING, nonfinite_steps: [21] }, GOVERNED)).toMatch(
      /2 observed steps and of step 21, where NaN or Inf first appeared$/,
    );
    expect(keptWords({ ...KEEPING, nonfinite_steps: [0, 1, 2100] }, GOVERNED)).toMatch(
      /and of steps 1 and 2,100, where .* appeared and around the first NaN or Inf outside of steps$/,
    );
  });

  test("values without statistics have the same count in the line and among the reasons", () => {
    const fewer = { ...GOVERNED, summaries: 6513, executions: 40, values: 7000 };
    expect(keptWords(KEEPING, fewer)).toMatch(/^Statistics of 487 of 7,000 observed values, whole/);
    expect(keptWords(KEEPING, { ...fewer, values: 0 })).toMatch(
      /^Statistics of the observed values except 6,513, whole/,
    );
    expect(reasonWords(KEEPING, fewer, false)).toContain(
      "6,513 values without statistics, to stay below 2×",
    );
  });

  test("nothing, for a run without operations", () => {
    expect(nothingWords(true)).toBe("Nothing yet: no operation was observed");
    expect(nothingWords(false)).toBe("Nothing: no operation was observed");
  });

  test("the reason for unobserved steps always has the same words", () => {
    expect(leftOutWords(GOVERNED)).toBe("to stay below 2×");
    expect(leftOutWords(undefined)).toBe("to keep the limit");
  });

  test("the newest values instead of steps, in a run without steps", () => {
    const without = { ...GOVERNED, steps: 0, steps_left_out: 0 };
    expect(keptWords(KEEPING, without)).toBe(
      "Statistics of every observed value, the newest values whole",
    );
    expect(keptWords(KEEPING, undefined)).toBe(
      "Statistics of every observed value, the newest values whole",
    );
    // The governor has not reported yet, or before the first step.
    for (const governed of [undefined, without]) {
      expect(keptWords(KEEPING, governed, "", 3)).toBe(
        "Statistics of every observed value, whole values of the last 2 observed steps",
      );
    }
  });

  test.each([
    [{ level: "values", limit: null, newest_steps: 0 }, "Every value kept"],
    [
      { level: "values", newest_steps: 0, behind: 1200, too_large: 34 },
      "Every value but 1,234 kept",
    ],
    [{ everything: true }, "Every value kept"],
    [{ everything: true, over_budget: 3 }, "Every value but 3 kept"],
    [{ limit: null, newest_steps: 0 }, "Statistics of every observed value"],
    [{ level: "timing", newest_steps: 0 }, "Times only"],
    [{ level: "graph", newest_steps: 0 }, "Structure only"],
  ])("as requested: %o", (change, words) => {
    expect(keptWords({ ...KEEPING, ...change }, undefined)).toBe(words);
  });
});

test("if the recording cannot be written to, nothing counts as whole", () => {
  const trouble = "the disk is full";
  const whole: Keeping = { ...KEEPING, level: "values", newest_steps: 0 };
  expect(keptWords(whole, undefined, trouble)).toBe("Not every value kept");
  expect(keptWords({ ...KEEPING, everything: true }, undefined, trouble)).toBe(
    "Not every value kept",
  );
  expect(keptWords({ ...KEEPING, newest_steps: 0 }, GOVERNED, trouble)).toBe(
    "Statistics of the values recorded",
  );
});

describe("why something is missing", () => {
  test("each reason has its own line", () => {
    expect(reasonWords(KEEPING, undefined, false)).toEqual([]);
    const lines = reasonWords(
      { ...KEEPING, over_budget: 3, behind: 4, too_large: 5, made_room: 6 },
      { ...GOVERNED, slowdown: 3, because: "a breakpoint is set" },
      false,
    );
    expect(lines).toEqual([
      "260 training steps ran unobserved, to stay below 2×",
      `3 values made room for newer ones in the budget of ${formatBytes(256 * 2 ** 20)}`,
      "4 values dropped for newer ones: the recorder fell behind",
      "5 values too large to be kept",
      `6 values of the newest steps beyond ${formatBytes(64 * 2 ** 20)} held in memory`,
      "Over the limit of 2×: a breakpoint is set",
    ]);
  });

  test("the governor's momentary reason is left out once the run is over", () => {
    const governed = { ...GOVERNED, slowdown: 3, because: "the program is about to stop" };
    const words = (over: boolean) => reasonWords(KEEPING, governed, over).join("\n");
    expect(words(false)).toContain("about to stop");
    expect(words(true)).not.toContain("about to stop");
    expect(words(true)).toContain("ran unobserved");
  });

  test("newest steps that do not fit into memory are not called whole", () => {
    const fits = keptWords(KEEPING, GOVERNED);
    expect(keptWords({ ...KEEPING, made_room: 6 }, GOVERNED)).toBe(
      `${fits} as far as ${formatBytes(KEEPING.newest_bytes)} hold them`,
    );
  });

  test("values that made room for newer ones are not losses", () => {
    const none = { blobs: 3, summaries: 0, executions: 0 };
    expect(lossWords({ ...KEEPING, over_budget: 3 }, none)).toEqual([]);
    expect(lossWords({ ...KEEPING, behind: 1 }, none)).toEqual([
      "1 value dropped for newer ones: the recorder fell behind. Their statistics are kept.",
    ]);
    expect(lossWords(undefined, none)[0]).toContain("budget was used up, or the recorder was");
  });
});

test("the ways to keep more are command lines of this program", () => {
  const argv = ["my train.py", "--epochs", "3"];
  expect(waysToMore(KEEPING, argv).map((way) => way.command)).toEqual([
    "nodescope run --level values 'my train.py' --epochs 3",
    "nodescope run --max-slowdown 4 'my train.py' --epochs 3",
    "nodescope run --select 'scope:NAME=values' 'my train.py' --epochs 3",
  ]);
  const all = { ...KEEPING, level: "values", limit: null, over_budget: 1 };
  expect(waysToMore(all, ["a.py"]).map((way) => way.command)).toEqual([
    "nodescope run --level values --budget 1024M a.py",
  ]);
  const newest = { ...KEEPING, over_budget: 1, budget_bytes: 128 * 2 ** 20 };
  expect(waysToMore(newest, ["a.py"]).at(-1)?.command).toBe("nodescope run --budget 512M a.py");
});

test("viewed nodes are listed as in the recording: sorted, without duplicates", () => {
  const node = (id: number) => ({ kind: "node", id }) as const;
  expect(lookedAt([node(9), node(3)])).toEqual([3, 9]);
  expect(lookedAt([node(3), node(3)])).toEqual([3]);
  expect(lookedAt([undefined, { kind: "scope", path: "loss" }])).toEqual([]);
});
