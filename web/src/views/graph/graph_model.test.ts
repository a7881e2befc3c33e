import { expect, test } from "vitest";
import { buildHierarchy } from "@/layout/hierarchy";
import { liveState } from "@/render/draw/execution_overlay";
import { NodeColumns } from "@/store/run/columns";
import { flagsOf, isDone, scopeCounts } from "@/store/run/counts";
import { update } from "@/store/run/run_model";
import { buildTree } from "@/store/run/tree";
import { graphModel } from "@/views/graph/graph_model";
import { decodeExecutions } from "@/wire/decode";
import { columns, node, snapshot } from "@/wire/fixtures";
import { HAS_NAN, type Node } from "@/wire/types.gen";

test("the drawing counts like the rest of the page", () => {
  const nodes = [
    node(1, "net/a/w", { family: "leaf", role: "parameter", op: "parameter" }),
    node(2, "net/a/matmul", { family: "matmul", inputs: [1] }),
    node(3, "net/tanh", { family: "activation", inputs: [2] }),
    node(4, "net/b/multiply", { inputs: [3] }),
    node(5, "backward/net/multiply", { phase: "backward", inputs: [4] }),
  ];
  const executions = columns([
    { seq: 1, node: 1, step: 0, duration: 900 },
    { seq: 2, node: 4, step: 1, duration: 50, flags: HAS_NAN },
    { seq: 3, node: 5, step: 1, duration: 7 },
    { seq: 4, node: 2, step: 2, duration: 20 },
    { seq: 5, node: 3, step: 2, duration: 30, flags: HAS_NAN },
  ]);
  const graph = update(undefined, snapshot({ seq: 5, nodes, executions }))?.graph;
  if (graph === undefined) throw new Error("no graph");
  const shown = new NodeColumns();
  shown.apply(decodeExecutions(executions));
  const tree = buildTree(graph);
  const drawn = graphModel(graph, tree);
  const hierarchy = buildHierarchy(drawn.nodes, drawn.values);
  for (const step of [1, 2]) {
    const live = liveState(hierarchy, shown, step);
    for (const group of hierarchy.groups) {
      const members = tree.scopes.get(group.path)?.members ?? [];
      const counts = scopeCounts(graph, members, shown, step);
      expect([
        group.path,
        group.ops,
        live.groupNs[group.index],
        live.groupDone[group.index],
      ]).toEqual([group.path, counts.operations.length, counts.ns, counts.ran > 0 ? 1 : 0]);
    }
    hierarchy.nodes.forEach(({ id }, index) => {
      expect(live.done[index] === 1).toBe(isDone(graph.nodes[id], shown, step));
      expect(live.flags[index]).toBe(flagsOf(graph.nodes[id], shown, step));
    });
  }
});

test("control edges are drawn on request, and in a graph without values", () => {
  const graphOf = (nodes: readonly Node[]) => {
    const graph = update(undefined, snapshot({ seq: 5, nodes }))?.graph;
    if (graph === undefined) throw new Error("no graph");
    return graph;
  };
  const ordered = node(3, "c", { control_inputs: [1] });
  const graph = graphOf([node(1, "a"), node(2, "b", { inputs: [1] }), ordered]);
  const shown = (control: boolean) => graphModel(graph, undefined, control);
  const controls = (control: boolean) => shown(control).nodes.map((drawn) => drawn.control?.length);
  expect(controls(false)).toEqual([undefined, undefined, undefined]);
  expect(controls(true)).toEqual([0, 0, 1]);
  // A different structure of the same nodes, and each one stays the same object.
  expect(shown(true).structure).not.toBe(shown(false).structure);
  expect(shown(true).structure).toBe(shown(true).structure);
  expect(shown(false).structure).toBe(shown(false).structure);
  const tasks = graphModel(graphOf([node(1, "a"), ordered]));
  expect(tasks.nodes.at(-1)?.control).toEqual([1]);
});
