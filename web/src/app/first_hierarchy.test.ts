import { expect, test } from "vitest";
import { hierarchyOf, lookedAt, read } from "@/app/first_hierarchy";
import { NO_REPEATS } from "@/base/repeats";
import { buildHierarchy, type Hierarchy } from "@/layout/hierarchy";
import { hierarchyFrom, packedHierarchy } from "@/layout/posted_hierarchy";
import { know } from "@/store/run/known_structure";
import { type RunGraph, type RunModel, update } from "@/store/run/run_model";
import { buildTree } from "@/store/run/tree";
import { graphModel } from "@/views/graph/graph_model";
import { node, produced, records, snapshot } from "@/wire/fixtures";
import { identityOf } from "@/wire/graph_columns";
import type { Node } from "@/wire/types.gen";

/** Equal layers, each reading the previous one, with a weight for each and a backward pass. */
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
      // Every third section is of another kind.
      op: at % 4 === 0 ? "conv" : at % 12 === 1 ? "tanh" : "relu",
      inputs: at === 0 ? [] : [at],
    }),
  );
}

function graphOf(model: RunModel | undefined): RunGraph {
  if (model === undefined) throw new Error("a snapshot gives a model");
  return model.graph;
}

function numbered(hierarchy: Hierarchy): unknown {
  const { groups, groupOf, host, stubs, chips, crossing, seed } = hierarchy;
  const named = groups.map(({ saved, stack, ...group }) => [group, stack?.members]);
  return { named, groupOf, host, stubs, chips: [...chips], crossing, seed };
}

test.each([
  ["layers", layers(6)],
  ["a flat graph", chain(400)],
])("a worker prepares the same hierarchy of %s as the canvas", (_, nodes) => {
  const message = snapshot({ nodes, values: nodes.map(({ id, name }) => produced(id, name)) });
  const graph = graphOf(update(undefined, message));
  const tree = buildTree(graph);
  const looked = lookedAt(read(message));
  know(message.nodes, structuredClone(looked.known));
  const known = buildTree(graph);
  expect(known.sections).toEqual(tree.sections);
  expect(known.repeats.stacks).toEqual(tree.repeats.stacks);
  for (const member of tree.repeats.stackOf.keys()) {
    expect(known.repeats.operations(member)).toEqual(tree.repeats.operations(member));
  }
  expect([...known.scopes.keys()]).toEqual([...tree.scopes.keys()]);
  const drawn = graphModel(graph, known);
  expect(drawn.origin).toBe(identityOf(message.nodes));
  const prepared = hierarchyOf(looked);
  const built = buildHierarchy(drawn.nodes, drawn.values, drawn.repeats, false);
  expect(numbered(built)).toEqual(numbered(prepared));
  if (drawn.repeats === undefined) throw new Error("the page knows the stacks of its graph");
  const posted = packedHierarchy(prepared);
  const told = hierarchyFrom(posted, drawn.nodes, drawn.values, drawn.repeats);
  expect(numbered(told)).toEqual(numbered(built));
  for (const { id, outputs } of drawn.nodes) {
    expect(told.indexOf.get(id)).toBe(built.indexOf.get(id));
    for (const value of outputs) {
      expect(told.producerOf.get(value)).toBe(built.producerOf.get(value));
    }
  }
});

test("prepared structures apply only to the snapshot itself", () => {
  const message = snapshot({ nodes: layers(6), values: [produced(2, "a")] });
  const model = update(undefined, message);
  const graph = graphOf(model);
  know(message.nodes, { sections: undefined, stacks: [], spans: NO_REPEATS.spans() });
  expect(graphModel(graph, buildTree(graph), true).origin).toBeUndefined();
  expect(graphModel(graph, buildTree(graph, false)).origin).toBeUndefined();
  const more = records({ seq: 9, nodes: [node(90, "late")], node_seqs: [9] });
  const later = graphOf(update(model, more));
  expect(later.origin).toBeUndefined();
  expect(buildTree(later).repeats.stacks.length).toBe(1);
});
