import { createRoot } from "solid-js";
import { expect, test } from "vitest";
import { type Requests, Store } from "@/store/page/store";
import {
  createProblems,
  errorBesides,
  noProblems,
  problemCount,
  unobservedWords,
} from "@/views/problems";
import { node, runInfo, snapshot } from "@/wire/fixtures";
import { LineError } from "@/wire/socket";
import type { Governed, NodeProblem } from "@/wire/types.gen";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const PROBLEM: NodeProblem = {
  node: 2,
  count: 1,
  first_seq: 7,
  first_step: 2,
  last_seq: 7,
  last_step: 2,
  nan: false,
  inf: true,
  failed: false,
  error: "",
  healed: false,
  edits: [],
  edited: false,
  first: true,
};

test("problems stay when nodescope ends", async () => {
  const { store, problems, dispose } = createRoot((end) => {
    const made = new Store();
    return { store: made, problems: createProblems(made), dispose: end };
  });
  let answers: () => Promise<unknown> = () =>
    Promise.resolve({ type: "problems", rows: [PROBLEM], nodes: 1, count: 1, broken_loss: null });
  store.attach({ request: (() => answers()) as Requests["request"] });
  store.linkChanged({ kind: "open", server: "test" });
  store.runsChanged([runInfo()]);
  store.receive([snapshot({ seq: 9, nodes: [node(2, "log")], node_seqs: [1] })]);
  await settled();
  // Nothing is requested before the first picture, which the server has to send first.
  expect(problems()).toBeUndefined();
  store.first.arrived();
  await settled();
  expect(problems()?.rows).toEqual([PROBLEM]);

  answers = () => Promise.reject(new LineError("nodescope has ended"));
  store.linkChanged({ kind: "ended" });
  await settled();
  expect(problems()?.rows).toEqual([PROBLEM]);
  dispose();
});

test("the rows say so if not all steps were observed", () => {
  const words = (steps: number, leftOut: number, rows: readonly NodeProblem[] = [PROBLEM]) =>
    unobservedWords(rows, { steps, steps_left_out: leftOut } as Governed);
  expect(words(40, 25)).toBe(
    "15 of 40 training steps were observed: the counts and steps above are of these, and it may " +
      "have gone on in the others.",
  );
  expect([words(40, 0), unobservedWords([PROBLEM], undefined)]).toEqual(["", ""]);
  // An operation that raises is observed in every step.
  const raised = { ...PROBLEM, nan: false, inf: false, failed: true };
  expect([words(40, 25, [raised]), words(40, 25, [])]).toEqual(["", ""]);
});

test("an error that stops the program is a problem, unless a node's row shows it", () => {
  const store = (error: string, stop: string) =>
    ({ model: () => ({ info: runInfo({ error }) }), stop: () => ({ error: stop }) }) as never;
  const list = { rows: [PROBLEM], nodes: 1, count: 1, broken_loss: null } as never;
  expect(problemCount(store("", ""), list)).toBe(1);
  expect(errorBesides(store("", "ValueError: no"), list)).toBe("ValueError: no");
  expect(problemCount(store("", "ValueError: no"), list)).toBe(2);
  expect(problemCount(store("ValueError: no", ""), undefined)).toBe(1);
  const info = runInfo({ state: "finished", status: 130, error: "KeyboardInterrupt" });
  const interrupted = { model: () => ({ info }), stop: () => undefined } as never;
  expect(problemCount(interrupted, undefined)).toBe(0); // Ctrl-C is not a problem of the program
  const raised = { ...PROBLEM, failed: true, error: "ValueError: no" };
  expect(problemCount(store("ValueError: no", ""), { rows: [raised], nodes: 1 } as never)).toBe(1);
});

test("an empty list mentions Inf that the program itself wrote", () => {
  expect(noProblems(0)).toBe("No NaN, no Inf, no failed node, nothing lost.");
  expect(noProblems(1)).toContain("in 1 node.");
  expect(noProblems(12)).toContain("in 12 nodes.");
});
