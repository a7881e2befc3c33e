import { describe, expect, test } from "vitest";
import { type Abilities, abilitiesIn, type Situation } from "@/store/debugger/abilities";

const STOPPED: Situation = {
  linked: true,
  state: "live",
  phase: "stopped",
  stopped: true,
  arriving: false,
  pausing: false,
  past: false,
  seq: 20,
  breakpoints: 1,
};
const RUNNING: Situation = { ...STOPPED, phase: "running", stopped: false };
const OVER: Situation = { ...RUNNING, phase: "finished", state: "finished" };

const WHAT: readonly (keyof Abilities)[] = [
  "continue",
  "step",
  "back",
  "reverse",
  "pause",
  "detach",
];

/** What works in each state of a run, in the order of `WHAT`: 1 or 0. */
const TABLE: readonly (readonly [string, Situation, string])[] = [
  ["no run", { ...STOPPED, state: undefined }, "000000"],
  ["connection lost", { ...STOPPED, linked: false }, "000000"],
  ["before the first node", { ...STOPPED, seq: 0, breakpoints: 0 }, "110001"],
  ["stopped", STOPPED, "111101"],
  ["stopped, no breakpoint", { ...STOPPED, breakpoints: 0 }, "111001"],
  ["stopped, looking back", { ...STOPPED, past: true, seq: 7 }, "111101"],
  ["stopped, looking back, no breakpoint", { ...STOPPED, past: true, breakpoints: 0 }, "111001"],
  ["stopped, at the first record", { ...STOPPED, past: true, seq: 1 }, "110001"],
  ["running", RUNNING, "000011"],
  ["pausing", { ...RUNNING, pausing: true }, "000001"],
  ["stopped, its records still coming", { ...STOPPED, stopped: false, arriving: true }, "000001"],
  ["running, looking back", { ...RUNNING, past: true, seq: 7 }, "111111"],
  ["detached", { ...RUNNING, phase: "detached" }, "000000"],
  ["ending", { ...RUNNING, phase: "finished" }, "000000"],
  ["finished", OVER, "001100"],
  ["finished, no breakpoint", { ...OVER, breakpoints: 0 }, "001000"],
  ["finished, looking back", { ...OVER, past: true, seq: 7 }, "111100"],
  ["finished, looking back, no breakpoint", { ...OVER, past: true, breakpoints: 0 }, "011000"],
  ["finished, nothing recorded", { ...OVER, seq: 0 }, "000000"],
  ["opened recording", { ...OVER, state: "recorded", phase: undefined }, "001100"],
  ["lost", { ...OVER, state: "lost", phase: "stopped" }, "001100"],
];

describe("the available commands", () => {
  test.each(TABLE)("%s", (_, situation, works) => {
    const can = abilitiesIn(situation);
    expect(WHAT.map((ability) => (can[ability] === "" ? "1" : "0")).join("")).toBe(works);
  });

  test("unavailable commands say why", () => {
    expect(abilitiesIn(OVER).continue).toContain("the end of the recording");
    expect(abilitiesIn(OVER).pause).toBe("the program has ended");
    expect(abilitiesIn({ ...OVER, past: true, breakpoints: 0 }).continue).toBe(
      "no breakpoints are set",
    );
    expect(abilitiesIn({ ...RUNNING, pausing: true }).step).toBe("stopping at the next node");
    expect(abilitiesIn(STOPPED).pause).toBe("already stopped");
  });
});
