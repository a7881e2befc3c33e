import { expect, test } from "vitest";
import { reasonWords, stopWords } from "@/store/debugger/stop_words";
import { inWords, RequestError } from "@/wire/socket";
import type { Breakpoint, Stop } from "@/wire/types.gen";

const BREAKPOINT: Breakpoint = {
  id: 3,
  kind: "op",
  target: "exp",
  condition: "value > 3",
  when: "after",
  phase: "",
  first_step: 0,
  last_step: null,
  hits: "",
  log: "",
  once: false,
  group: "",
  enabled: true,
};

function stop(reason: Stop["reason"], text: string, more: Partial<Stop> = {}): Stop {
  const node = { node: 1, node_name: "time_0/getitem", scope: "time_0", when: "after" as const };
  const rest = { step: 1, seq: 9, thread: 1, breakpoint: 0, stack: [], edits: [], watch: 0 };
  return { reason, text, error: "", ...node, ...rest, ...more };
}

test.each([
  ["pause", "Stopped at time_0/getitem", "Pause was requested."],
  ["pause", "ns.breakpoint() at train.py:3", "ns.breakpoint() at train.py:3"],
  ["step", "Stepped to time_0/getitem", "Stepped to here."],
  ["step", "Stepped to the next training step: time_0/getitem", "The first operation of step 1."],
  ["run_to", "Ran to time_0/getitem", "Ran to here."],
  [
    "run_to",
    "Ran to time_0/getitem, a backward node of slice",
    "Ran to time_0/getitem, a backward node of slice.",
  ],
  ["exception", "time_0/getitem raises IndexError: no", "IndexError: no"],
  ["breakpoint", "Breakpoint 3: value > 3 on time_0/getitem", "Breakpoint op:exp if value > 3"],
] as const)("a stop by %s names its node once: %s", (reason, text, words) => {
  const why = stop(reason, text, reason === "breakpoint" ? { breakpoint: 3 } : {});
  expect(stopWords(why)).toMatch(/^Stopped /);
  expect(reasonWords(why, reason === "breakpoint" ? BREAKPOINT : undefined)).toBe(words);
});

test("a removed breakpoint is described as it was when hit, without its number", () => {
  expect(reasonWords(stop("breakpoint", "Breakpoint 3: loss"), undefined)).toBe("Breakpoint loss");
});

test("a hint becomes a sentence of its own", () => {
  expect(inWords(new RequestError("It is unknown", "run with --level values"))).toBe(
    "It is unknown. Run with --level values",
  );
});
