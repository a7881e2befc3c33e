import { describe, expect, test } from "vitest";
import { NodeColumns } from "@/store/run/columns";
import { flagsOf, isDone, notFinite, operationsOf, scopeCounts } from "@/store/run/counts";
import { progressOf } from "@/store/run/progress";
import { update } from "@/store/run/run_model";
import { buildTree } from "@/store/run/tree";
import { decodeExecutions } from "@/wire/decode";
import { columns, node, snapshot } from "@/wire/fixtures";
import { HAS_INF, HAS_NAN } from "@/wire/types.gen";

/** Two scopes in one, with a parameter and a constant; step 2 has reached `net/a/tanh`. */
const NODES = [
  node(1, "net/a/w", { family: "leaf", role: "parameter", op: "parameter" }),
  node(2, "net/a/matmul", { family: "matmul" }),
  node(3, "net/a/tanh", { family: "activation" }),
  node(4, "net/b/two", { family: "leaf", role: "constant", op: "constant" }),
  node(5, "net/b/multiply"),
  node(6, "backward/net/b/multiply", { phase: "backward" }),
];
const ROWS = [
  { seq: 1, node: 1, step: 0, duration: 1000, flags: HAS_INF },
  { seq: 2, node: 4, step: 0, duration: 1000 },
  { seq: 5, node: 5, step: 1, duration: 50, flags: HAS_NAN },
  { seq: 6, node: 6, step: 1, duration: 60 },
  { seq: 7, node: 2, step: 2, duration: 20 },
  { seq: 8, node: 3, step: 2, duration: 30, flags: HAS_NAN },
];
const STEP = 2;

const message = snapshot({ seq: 8, nodes: NODES, executions: columns(ROWS) });
const graph = update(undefined, message)?.graph;
if (graph === undefined) throw new Error("no graph");
const shown = new NodeColumns();
shown.apply(decodeExecutions(message.executions));
const membersOf = (path: string) => buildTree(graph).scopes.get(path)?.members ?? [];

describe("one model, counted", () => {
  test("operations exclude parameters and constants; scopes count everything inside", () => {
    const count = (path: string) =>
      scopeCounts(graph, membersOf(path), shown, STEP).operations.length;
    expect(operationsOf(graph)).toBe(4);
    expect([count("net"), count("net/a"), count("net/b"), count("backward")]).toEqual([3, 2, 1, 1]);
  });

  test("operations are done if they ran in the step shown; data is done in every step", () => {
    const ran = (path: string) => scopeCounts(graph, membersOf(path), shown, STEP).ran;
    expect([ran("net"), ran("net/a"), ran("net/b"), ran("backward")]).toEqual([2, 2, 0, 0]);
    expect(NODES.map((node) => isDone(node, shown, STEP))).toEqual([
      true,
      true,
      true,
      true,
      false,
      false,
    ]);
  });

  test("the progress bar counts operations as well", () => {
    const { total, done, phases } = progressOf(graph, shown, STEP);
    expect([total, done]).toEqual([4, 2]);
    expect(phases.map((phase) => [phase.phase, phase.done, phase.total])).toEqual([
      ["forward", 2, 3],
      ["backward", 0, 1],
    ]);
  });

  test("the time of a scope is the sum over its operations", () => {
    const facts = scopeCounts(graph, membersOf("net"), shown, STEP);
    expect(facts.ns).toBe(100);
    expect(facts.families.map((family) => [family.family, family.operations, family.ns])).toEqual([
      ["elementwise", 1, 50],
      ["activation", 1, 30],
      ["matmul", 1, 20],
    ]);
  });

  test("nodes with NaN and Inf are counted in the step shown", () => {
    expect(notFinite(graph, shown, STEP)).toEqual({ nan: 1, inf: 1 });
    expect(flagsOf(NODES[4], shown, STEP)).toBe(0);
    // If step 2 ran unobserved, the counts start at the last observed step.
    expect(notFinite(graph, shown, 1)).toEqual({ nan: 2, inf: 1 });
  });
});
