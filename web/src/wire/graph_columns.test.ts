import { expect, test } from "vitest";
import { fieldsOf, node, nodeColumns, produced, tensor, valueColumns } from "@/wire/fixtures";
import { nodesIn, valuesIn } from "@/wire/graph_columns";
import type { Node, ProducedValue } from "@/wire/types.gen";

const SOURCE = { file: "train.py", line: 7, function: "step" };
const NODES: readonly Node[] = [
  node(1, "net/w", { role: "parameter", family: "leaf", source: SOURCE, attrs: { axis: 1 } }),
  node(2, "net/split", { inputs: [1], outputs: [2, 3], writes: [[0, 1]], control_inputs: [1] }),
  node(9, "backward/net/split", { phase: "backward", inputs: [3, 2], outputs: [], forward: 2 }),
];

test("columns decode to the nodes and values that they were made from", () => {
  const { nodes, seqs } = nodesIn(nodeColumns(NODES, [4, 5, 6]));
  expect(nodes.map(fieldsOf)).toEqual(NODES);
  expect([...Array.from(seqs)]).toEqual([4, 5, 6]);
  const rows: readonly ProducedValue[] = [
    produced(1, "fed"),
    { value: { id: 2, name: "other", spec: tensor([4, null]), storage: 2 ** 40 }, producer: null },
  ];
  expect([...valuesIn(valueColumns(rows), NODES).values()]).toEqual(rows);
});

test("a node's name is made from its scope, and a value's name from its node", () => {
  const sent = {
    ...nodeColumns(NODES),
    name: { texts: ["w", "split"], places: Uint8Array.of(0, 1, 1) },
    inside: Uint8Array.of(1, 1, 1),
  };
  const { nodes } = nodesIn(sent);
  expect(nodes.map(({ name }) => name)).toEqual(NODES.map(({ name }) => name));
  const unnamed = [1, 2, 3].map((id) => produced(id, ""));
  const values = [...valuesIn(valueColumns(unnamed), nodes).values()];
  const names = values.map(({ value }) => value.name);
  expect(names).toEqual(["net/w", "net/split", "net/split:1"]);
});

test("nodes share what they have in common as one object", () => {
  const alike = [1, 2].map((id) => node(id, `n${id}`, { attrs: NODES[0]!.attrs, source: SOURCE }));
  const [first, second] = nodesIn(nodeColumns(alike)).nodes;
  expect(second?.attrs).toBe(first?.attrs);
  expect(second?.source).toBe(first?.source);
  expect(second?.inputs).toBe(first?.inputs);
});

test("nodes hold no copies of what the columns say", () => {
  const [first] = nodesIn(nodeColumns(NODES)).nodes;
  const own: unknown[] = Object.values(first ?? {});
  expect(own.filter((part) => typeof part === "string" || Array.isArray(part))).toEqual([]);
});

test("an index of a missing entry is refused", () => {
  const bad = { ...nodeColumns(NODES), kind: Uint8Array.of(0, 1, 7) };
  expect(() => nodesIn(bad)).toThrow("entry 7 of 3");
});
