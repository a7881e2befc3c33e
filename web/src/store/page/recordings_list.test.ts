import { expect, test } from "vitest";
import {
  ago,
  argumentsOf,
  clock,
  groupOf,
  matches,
  outcomeOf,
  outcomeTitle,
  outcomeTone,
  outcomeWords,
  runWords,
  sorted,
} from "@/store/page/recordings_list";
import type { Entry, Glance } from "@/wire/types.gen";

const NAN_SINCE_4 = { kind: "nan", step: 4 } as const;
const NOW = Date.parse("2026-03-04T12:00:00");

function glance(more: Partial<Glance> = {}): Glance {
  return {
    id: "0".repeat(16),
    name: "att.py",
    argv: ["att.py"],
    started_unix_ns: (NOW - 60_000) * 1e6,
    ran_ns: 1e9,
    steps: 3,
    level: "values",
    outcome: "finished",
    status: 0,
    error: "",
    nbytes: 1000,
    changed_unix_ns: NOW * 1e6,
    fault: "",
    broken_loss: null,
    ...more,
  };
}

function entry(id: string, more: Partial<Glance> = {}, where: Partial<Entry> = {}): Entry {
  return {
    id,
    run: "",
    live: false,
    here: true,
    folder: "~/work",
    file: `${id}.nscope`,
    ours: true,
    glance: glance(more),
    ...where,
  };
}

test("a run whose loss ended as NaN says since which step, and counts as trouble", () => {
  const broken = { broken_loss: { kind: "nan", step: 1204 } } as const;
  expect(outcomeWords(glance(broken))).toBe("finished, NaN since step 1,204");
  expect(outcomeTone("finished", broken.broken_loss)).toBe("bad");
  expect(outcomeTone("finished", null)).toBe("ok");
  expect(matches(entry("a", broken), "trouble", "")).toBe(true);
  expect(matches(entry("a"), "trouble", "")).toBe(false);
});

test("runs with different arguments are told apart", () => {
  expect(argumentsOf(glance({ argv: ["att.py", "1"] }))).toBe("1");
  expect(argumentsOf(glance({ argv: ["att.py", "--name", "a b"] }))).toBe("--name 'a b'");
});

test.each([
  ["interrupted", { status: 130, error: "" }],
  ["interrupted", { status: 130, error: "KeyboardInterrupt" }],
  ["interrupted", { status: 1, error: "KeyboardInterrupt: by hand" }],
  ["ValueError", { status: 1, error: "ValueError: no" }],
  ["status 3", { status: 3, error: "" }],
  ["finished", { status: 0, error: "" }],
  ["finished, NaN since step 4", { status: 0, error: "", broken_loss: NAN_SINCE_4 }],
  [
    "ValueError, NaN since step 4",
    { status: 1, error: "ValueError: no", broken_loss: NAN_SINCE_4 },
  ],
])("a run that ended is %s in the list of runs as on the start page", (words, end) => {
  const ended = { broken_loss: null, ...end };
  for (const state of ["finished", "recorded"] as const) {
    expect(runWords({ state, ...ended })).toBe(words);
    expect(outcomeWords({ ...ended, outcome: outcomeOf({ state, ...ended }) })).toBe(words);
  }
});

test("a run that has not ended says its state", () => {
  const open = { status: null, error: "", broken_loss: null };
  expect(runWords({ state: "live", ...open })).toBe("running");
  expect(runWords({ state: "lost", ...open })).toBe("killed");
  expect(runWords({ state: "recorded", ...open })).toBe("recording");
  expect(outcomeOf({ state: "live", ...open })).toBe("running");
  expect(outcomeOf({ state: "lost", ...open })).toBe("killed");
});

test("the title of a summary names the broken loss, but not the error", () => {
  expect(outcomeTitle({ outcome: "finished", broken_loss: NAN_SINCE_4 })).toBe(
    "Finished, NaN since step 4",
  );
  expect(outcomeTitle({ outcome: "failed", broken_loss: null })).toBe("Failed");
});

test("the outcome of a failed run names the error's type", () => {
  expect(outcomeWords(glance({ outcome: "failed", status: 1, error: "ValueError: no" }))).toBe(
    "ValueError",
  );
  expect(outcomeWords(glance({ outcome: "failed", status: 7, error: "SystemExit: 7" }))).toBe(
    "status 7",
  );
  expect(outcomeWords(glance({ outcome: "killed" }))).toBe("killed");
});

test("the start time, relative and absolute", () => {
  expect(ago(NOW - 5_000, NOW)).toBe("just now");
  expect(ago(NOW - 3 * 3_600_000, NOW)).toBe("3 h ago");
  expect(ago(NOW - 30 * 3_600_000, NOW)).toBe("yesterday");
  expect(ago(0, NOW)).toBe("");
  expect(clock(NOW - 3_600_000, NOW)).toBe("11:00");
  expect(clock(NOW - 3 * 86_400_000, NOW)).toBe("2026-03-01 12:00");
});

test("recordings are filtered, grouped and sorted", () => {
  const rows = [
    entry("a", { argv: ["att.py", "10"], steps: 1 }),
    entry("b", { argv: ["att.py", "2"], steps: 9 }),
    entry("c", { outcome: "failed", error: "KeyError: 'x'", steps: 5 }),
    entry("d", { outcome: "running" }, { live: true }),
    entry("e", {}, { here: false, glance: null }),
  ];
  const ids = (list: readonly Entry[]): string => list.map((entry) => entry.id).join("");
  expect(ids(rows.filter((row) => matches(row, "all", "att 10")))).toBe("a");
  expect(ids(rows.filter((row) => matches(row, "trouble", "")))).toBe("c");
  expect(ids(rows.filter((row) => matches(row, "all", "keyerror")))).toBe("c");
  expect(rows.map(groupOf)).toEqual(["here", "here", "here", "running", "elsewhere"]);
  expect(ids(sorted(rows.slice(0, 3), { by: "steps", up: false }))).toBe("bca");
  expect(ids(sorted(rows.slice(0, 2), { by: "program", up: false }))).toBe("ba");
  expect(ids(sorted(rows.slice(0, 3), { by: "outcome", up: false }))).toBe("cab");
});
