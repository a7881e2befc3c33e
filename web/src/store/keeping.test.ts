import { describe, expect, test } from "vitest";
import { formatBytes } from "@/base/numbers";
import {
  costWords,
  keptWords,
  lookedAt,
  lossWords,
  reasonWords,
  waysToMore,
} from "@/store/keeping";
import type { Governed, Keeping } from "@/wire/types.gen";

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
};
const GOVERNED = {
  limit: 2,
  slowdown: 1.62,
  steps: 276,
  steps_left_out: 260,
  summaries: 0,
  executions: 0,
  arrays: 0,
  because: "",
} as Governed;

describe("what is kept, in one line", () => {
  test("by default", () => {
    expect(keptWords(KEEPING, GOVERNED)).toBe(
      "Statistics everywhere, whole values of the last 2 steps",
    );
    expect(costWords(GOVERNED)).toBe("16 of 276 steps observed · about 1.62× slower");
    expect(costWords({ ...GOVERNED, steps_left_out: 0, slowdown: 1.002 })).toBe("");
    expect(keptWords(KEEPING, { ...GOVERNED, summaries: 5 })).toMatch(/^Statistics of most values/);
  });

  test("without steps there are no last steps", () => {
    const without = { ...GOVERNED, steps: 0, steps_left_out: 0 };
    expect(keptWords(KEEPING, without)).toBe("Statistics everywhere, the newest values whole");
    expect(keptWords(KEEPING, undefined)).toBe("Statistics everywhere, the newest values whole");
  });

  test.each([
    [{ level: "values", limit: null, newest_steps: 0 }, "Every value kept"],
    [{ everything: true }, "Every value kept"],
    [{ limit: null, newest_steps: 0 }, "Statistics everywhere"],
    [{ level: "timing", newest_steps: 0 }, "Times only"],
    [{ level: "graph", newest_steps: 0 }, "Structure only"],
  ])("as it was asked for: %o", (change, words) => {
    expect(keptWords({ ...KEEPING, ...change }, undefined)).toBe(words);
  });
});

describe("why something is not there", () => {
  test("each reason is its own", () => {
    expect(reasonWords(KEEPING, undefined)).toEqual([]);
    const lines = reasonWords(
      { ...KEEPING, over_budget: 3, behind: 4, too_large: 5, made_room: 6 },
      { ...GOVERNED, slowdown: 3, because: "a breakpoint is set" },
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

  test("what made room for newer values is no loss", () => {
    const none = { blobs: 3, summaries: 0, executions: 0 };
    expect(lossWords({ ...KEEPING, over_budget: 3 }, none)).toEqual([]);
    expect(lossWords({ ...KEEPING, behind: 1 }, none)).toEqual([
      "1 value dropped for newer ones: the recorder fell behind. Their statistics are kept.",
    ]);
    expect(lossWords(undefined, none)[0]).toContain("budget was used up, or the recorder was");
  });
});

test("the ways to more are command lines of this program", () => {
  const argv = ["my train.py", "--epochs", "3"];
  expect(waysToMore(KEEPING, argv).map((each) => each.command)).toEqual([
    "nodescope run --level values 'my train.py' --epochs 3",
    "nodescope run --max-slowdown 4 'my train.py' --epochs 3",
    "nodescope run --select 'scope:NAME=values' 'my train.py' --epochs 3",
  ]);
  const all = { ...KEEPING, level: "values", limit: null, over_budget: 1 };
  expect(waysToMore(all, ["a.py"]).map((each) => each.command)).toEqual([
    "nodescope run --level values --budget 1024M a.py",
  ]);
});

test("what is looked at is named as the recording names it: in order, each once", () => {
  const node = (id: number) => ({ kind: "node", id }) as const;
  expect(lookedAt([node(9), node(3)])).toEqual([3, 9]);
  expect(lookedAt([node(3), node(3)])).toEqual([3]);
  expect(lookedAt([undefined, { kind: "scope", path: "loss" }])).toEqual([]);
});
