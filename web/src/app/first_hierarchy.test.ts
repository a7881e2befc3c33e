import { expect, test } from "vitest";
import { hierarchyOf, lookedAt } from "@/app/first_hierarchy";
import { buildHierarchy, type Hierarchy } from "@/layout/hierarchy";
import { know } from "@/store/run/known_structure";
import { type RunGraph, type RunModel, update } from "@/store/run/run_model";
import { buildTree } from "@/store/run/tree";
import { graphModel } from "@/views/graph/graph_model";
import { node, produced, records, snapshot } from "@/wire/fixtures";
import type { Node } from "@/wire/types.gen";

/** Layers that are alike, each reading the one before; a weight for each, and a backward pass. */
function layers(count: number): readonly Node[] {
  const nodes: Node[] = [];
  const leaf = { op: "parameter", family: "leaf", role: "parameter" } as const;
  const add = (name: string, change: Partial<Node>) =>
    nodes.push(node(nodes.length + 1, name, change));
  for (let at = 0; at < count; at++) {
    const before = 3 * at;
    add(`model/layer_${at}/weight`, leaf);
    add(`model/layer_${at}/matmul`, { inputs: at === 0 ? [1] : [before, before + 1] });
    add(`model/layer_${at}/tanh`, { inputs: [before + 2] });
  }
  add("backward/model/tanh", { phase: "backward", inputs: [3 * count], forward: 3 * count });
  return nodes;
}

/** A chain without scopes. */
function chain(count: number): readonly Node[] {
  return Array.from({ length: count }, (_, at) =>
    node(at + 1, `${at % 4 === 0 ? "conv" : "relu"}_${at}`, {
      op: at % 4 === 0 ? "conv" : "relu",
      inputs: at === 0 ? [] : [at],
    }),
  );
}

function graphOf(model: RunModel | undefined): RunGraph {
  if (model === undefined) throw new Error("a snapshot gives a model");
  return model.graph;
}

function numbered({ groups, groupOf, host, stubs, chips, crossing }: Hierarchy): unknown {
  const named = groups.map(({ path, name, parent, nodes, stubs: own, ops }) => [
    path,
    name,
    parent,
    nodes,
    own,
    ops,
  ]);
  return { named, groupOf, host, stubs, chips, crossing };
}

test.each([
  ["layers", layers(6)],
  ["a flat graph", chain(400)],
])("what a worker prepares of %s is what the canvas makes", (_, nodes) => {
  const message = snapshot({ nodes, values: nodes.map(({ id, name }) => produced(id, name)) });
  const graph = graphOf(update(undefined, message));
  const found = buildTree(graph);
  const looked = lookedAt(message);
  know(message.nodes, structuredClone(looked.known));
  const known = buildTree(graph);
  expect(known.sections).toEqual(found.sections);
  expect(known.repeats.stacks).toEqual(found.repeats.stacks);
  expect([...known.scopes.keys()]).toEqual([...found.scopes.keys()]);
  const drawn = graphModel(graph, known);
  expect(drawn.origin).toBe(message.nodes);
  expect(numbered(buildHierarchy(drawn.nodes, drawn.values, drawn.repeats, false))).toEqual(
    numbered(hierarchyOf(looked, message.values)),
  );
});

test("what is known and prepared is of the snapshot alone", () => {
  const message = snapshot({ nodes: layers(6), values: [produced(2, "a")] });
  const model = update(undefined, message);
  const graph = graphOf(model);
  know(message.nodes, { sections: undefined, stacks: [] });
  expect(graphModel(graph, buildTree(graph), true).origin).toBeUndefined();
  expect(graphModel(graph, buildTree(graph, false)).origin).toBeUndefined();
  const more = records({ seq: 9, nodes: [node(90, "late")], node_seqs: [9] });
  const later = graphOf(update(model, more));
  expect(later.origin).toBeUndefined();
  expect(buildTree(later).repeats.stacks.length).toBe(1);
});
