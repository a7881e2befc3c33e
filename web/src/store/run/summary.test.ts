import { createRoot } from "solid-js";
import { expect, test } from "vitest";
import { Store } from "@/store/page/store";
import { createUi } from "@/store/page/ui";
import {
  createSummary,
  neverRan,
  observedWords,
  sharesWords,
  timeWords,
  unsummed,
  withoutPlace,
} from "@/store/run/summary";

test("an error does not repeat where it was raised", () => {
  const place = { file: "/home/a/vae.py", line: 33 };
  const error = "ShapeError: inner dimensions differ (/home/a/vae.py:33); the right one needs 192";
  expect(withoutPlace(error, place)).toBe(
    "ShapeError: inner dimensions differ; the right one needs 192",
  );
  expect(withoutPlace(error, { file: "/home/a/vae.py", line: 34 })).toBe(error);
  expect(withoutPlace(error, null)).toBe(error);
});

test("a summary missing because nodescope has ended is not called an error", () => {
  const away = "The server does not answer. is nodescope still running?";
  expect(unsummed("", "open")).toBe("Summing up the run…");
  expect(unsummed(away, "open")).toContain(away);
  expect(unsummed(away, "lost")).toContain("once it is restored");
  expect(unsummed(away, "ended")).not.toContain(away);
  expect(unsummed("", "ended")).toContain("open the recording");
});

test("the run time lists its components, and what is not counted", () => {
  const time = { ran_ns: 3.2e9, held_ns: 0 };
  const finished = { outcome: "finished" } as const;
  expect(timeWords({ ...finished, time, before_ns: 0.8e9, after_ns: 0.3e9 })).toBe(
    "800\u202fms before the first step, 2.10\u202fs in steps, 300\u202fms after the last one.",
  );
  expect(timeWords({ ...finished, time, before_ns: 0.8e9, after_ns: 0 })).toBe(
    "800\u202fms before the first step, 2.40\u202fs in steps.",
  );
  expect(
    timeWords({ ...finished, time: { ...time, held_ns: 12e9 }, before_ns: null, after_ns: null }),
  ).toBe("From the program's start to its end; not counted: 12.0\u202fs held by the debugger.");
});

test("time after an error within a step is not called time after the last step", () => {
  const time = { ran_ns: 3.2e9, held_ns: 0 };
  expect(timeWords({ outcome: "failed", time, before_ns: 0.8e9, after_ns: 0.3e9 })).toBe(
    "800\u202fms before the first step, 2.10\u202fs in steps, 300\u202fms from there to its end.",
  );
});

test("slowest parts name the observed steps, if some were left out", () => {
  expect(observedWords(undefined)).toBe("");
  expect(observedWords({ steps: 276, steps_left_out: 0 })).toBe("");
  expect(sharesWords(undefined)).toBe("Time of the training steps:");
  expect(sharesWords({ steps: 276, steps_left_out: 257 })).toBe(
    "Time of the 19 observed training steps:",
  );
  expect(observedWords({ steps: 1276, steps_left_out: 257 })).toBe(
    "In 1,019 observed steps of 1,276, and outside of steps.",
  );
});

test("a graph file has not run", () => {
  const summary = { operations: 0, nodes: 3, outcome: "finished" } as const;
  expect(neverRan({ run: { level: "graph" }, summary })).toBe(true);
  expect(neverRan({ run: { level: "timing" }, summary })).toBe(false);
  expect(neverRan({ run: { level: "graph" }, summary: { ...summary, nodes: 0 } })).toBe(false);
  expect(neverRan({ run: { level: "graph" }, summary: { ...summary, outcome: "killed" } })).toBe(
    false,
  );
});

test("choosing an inspector tab hides the summary, even if the tab is already chosen", () => {
  const ui = createUi(undefined);
  const summing = createRoot(() => createSummary(new Store(), ui));
  for (const tab of ["why", "why", "value"] as const) {
    summing.show(true);
    ui.setInspectorTab(tab);
    expect(summing.shown()).toBe(false);
  }
});
