import { createRoot } from "solid-js";
import { expect, test } from "vitest";
import { type Requests, Store } from "@/store/page/store";
import { createProblems } from "@/views/problems";
import { node, runInfo, snapshot } from "@/wire/fixtures";
import { LineError } from "@/wire/socket";
import type { NodeProblem } from "@/wire/types.gen";

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
  expect(problems()?.rows).toEqual([PROBLEM]);

  answers = () => Promise.reject(new LineError("nodescope has ended"));
  store.linkChanged({ kind: "ended" });
  await settled();
  expect(problems()?.rows).toEqual([PROBLEM]);
  dispose();
});
