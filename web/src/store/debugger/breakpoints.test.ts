import { expect, test } from "vitest";
import {
  added,
  changed,
  effectText,
  kindAndTarget,
  markOf,
  nodeMarks,
  optionsText,
  removed,
  specOf,
  stepsOf,
  stepsText,
  switched,
  toggled,
} from "@/store/debugger/breakpoints";
import type { BreakpointStatus } from "@/wire/types.gen";

function status(
  id: number,
  target: string,
  change: Partial<BreakpointStatus["breakpoint"]> = {},
  verified = true,
): BreakpointStatus {
  return {
    breakpoint: {
      id,
      kind: "node",
      target,
      when: "after",
      condition: "",
      enabled: true,
      phase: "",
      first_step: 0,
      last_step: null,
      hits: "",
      log: "",
      once: false,
      group: "",
      ...change,
    },
    verified,
    hits: 0,
    message: "",
  };
}

const SET = [status(1, "loss/mean"), status(2, "softmax", { kind: "op" })];

test("toggling a node's breakpoint adds it with id 0 or removes it; the others keep their ids", () => {
  const set = toggled(SET, "net/tanh");
  expect(set.map((breakpoint) => breakpoint.id)).toEqual([1, 2, 0]);
  expect(set.at(-1)).toMatchObject({ kind: "node", target: "net/tanh", when: "after" });
  expect(toggled(SET, "loss/mean").map((breakpoint) => breakpoint.id)).toEqual([2]);
});

test("an op's breakpoint of the same name is a different one", () => {
  expect(toggled(SET, "softmax")).toHaveLength(3);
});

test("changes leave the other breakpoints as they are", () => {
  expect(changed(SET, 2, { condition: "value > 1" })).toMatchObject([
    { id: 1, condition: "" },
    { id: 2, condition: "value > 1", target: "softmax" },
  ]);
  expect(removed(SET, 1).map((breakpoint) => breakpoint.id)).toEqual([2]);
  expect(added(SET, { kind: "scope", target: "loss", when: "before" }).at(-1)).toMatchObject({
    id: 0,
    kind: "scope",
    target: "loss",
    when: "before",
    condition: "",
    enabled: true,
  });
});

test("breakpoints on single nodes mark them by their state", () => {
  expect(markOf(status(1, "x", { enabled: false }, false))).toBe("disabled");
  expect(markOf(status(1, "x", {}, false))).toBe("unverified");
  const marks = nodeMarks(
    [...SET, status(3, "gone")],
    new Map([
      ["loss/mean", 9],
      ["softmax", 4],
    ]),
  );
  expect([...marks]).toEqual([[9, "enabled"]]);
});

test("a scope's breakpoint differs from that of a node with the same name", () => {
  const set = toggled(SET, "loss/mean", "scope");
  expect(set.map((breakpoint) => [breakpoint.kind, breakpoint.target])).toEqual([
    ["node", "loss/mean"],
    ["op", "softmax"],
    ["scope", "loss/mean"],
  ]);
  const statuses = [...SET, status(3, "loss", { kind: "scope" })];
  expect(toggled(statuses, "loss", "scope").map((breakpoint) => breakpoint.id)).toEqual([1, 2]);
});

test("a range of steps survives a round trip through text", () => {
  for (const text of ["", "3", "3..", "..7", "3..7"]) {
    const range = stepsOf(text);
    expect(range).not.toBeNull();
    if (range !== null) expect(stepsText(range)).toBe(text);
  }
  for (const text of ["x", "7..3", "-1", "3 7", "1.5"]) expect(stepsOf(text)).toBeNull();
});

test("a group is switched as a whole, and the rest stays", () => {
  const set = [status(1, "a", { group: "g" }), status(2, "b"), status(3, "c", { group: "g" })];
  expect(switched(set, "g", false).map((breakpoint) => breakpoint.enabled)).toEqual([
    false,
    true,
    false,
  ]);
});

test("a breakpoint's options are listed in a few words", () => {
  expect(optionsText(status(1, "a").breakpoint)).toEqual([]);
  const options = {
    when: "before",
    first_step: 3,
    hits: "% 5",
    once: true,
    log: "{step}",
  } as const;
  expect(optionsText(status(1, "a", options).breakpoint)).toEqual([
    "before",
    "step 3..",
    "hits % 5",
    "once",
    "logs “{step}”",
  ]);
});

test.each([
  [{ kind: "node" }, "Stops after a runs."],
  [{ kind: "node", when: "before" }, "Stops before a runs."],
  [{ kind: "glob" }, "Stops after any node whose name matches a runs."],
  [{ kind: "regex" }, "Stops after any node whose whole name matches a runs."],
  [{ kind: "op" }, "Stops after any a runs."],
  [{ kind: "scope" }, "Stops after the first node inside a runs, each time the scope is entered."],
  [{ kind: "source" }, "Stops after any node made at a runs."],
  [{ kind: "node", log: "{step}" }, "Logs a line without stopping, after a runs."],
  [
    { kind: "op", condition: "value > 3", phase: "backward", first_step: 3, hits: "% 5" },
    "Stops after any a runs, in the backward phase, in step 3.., if value > 3, at one in 5 hits.",
  ],
  [{ kind: "node", once: true, enabled: false }, "Off. Stops after a runs, once."],
] as const)("the effect of a breakpoint is one sentence: %o", (change, text) => {
  expect(effectText(status(1, "a", change).breakpoint)).toBe(text);
});

test("a typed kind takes precedence over the chosen one", () => {
  expect(kindAndTarget("node", " op:log ")).toEqual({ kind: "op", target: "log" });
  expect(kindAndTarget("node", "source:In[4]:2")).toEqual({ kind: "source", target: "In[4]:2" });
  expect(kindAndTarget("glob", "hidden*/tanh")).toEqual({ kind: "glob", target: "hidden*/tanh" });
  expect(kindAndTarget("node", "op:")).toEqual({ kind: "node", target: "op:" });
  expect(kindAndTarget("op", "my:op")).toEqual({ kind: "op", target: "my:op" });
});

test("command-line syntax is parsed by the server, a plain name is not", () => {
  expect(specOf("node", "loss/mean")).toBe("");
  expect(specOf("op", " log ")).toBe("");
  expect(specOf("node", "op:log if value < 0.05")).toBe("op:log if value < 0.05");
  expect(specOf("op", "log if value < 0.05")).toBe("op:log if value < 0.05");
  expect(specOf("op", "before log [step 3..]")).toBe("before op:log [step 3..]");
  expect(specOf("node", "before source:model.py:42 [once]")).toBe(
    "before source:model.py:42 [once]",
  );
  expect(specOf("source", "train.py:42")).toBe("source:train.py:42");
  expect(specOf("node", "hidden*/tanh")).toBe("hidden*/tanh");
  expect(specOf("node", "42")).toBe("42");
});
