import { describe, expect, test } from "vitest";
import { MatchWalk } from "@/store/run/match_walk";
import { type RunGraph, update } from "@/store/run/run_model";
import { buildTree, firstOpen, type Row, type Tree, visibleRows } from "@/store/run/tree";
import { node, produced, records, snapshot } from "@/wire/fixtures";

function graphOf(...names: readonly string[]): RunGraph {
  const model = update(undefined, snapshot({ nodes: names.map((name, i) => node(i + 1, name)) }));
  if (model === undefined) throw new Error("a snapshot gives a model");
  return model.graph;
}

const GRAPH = graphOf("x", "net/a/matmul", "net/a/tanh", "net/b/matmul", "loss/mean");

function labels(open: readonly string[]): readonly string[] {
  return visibleRows(buildTree(GRAPH), new Set(open)).map(indented);
}

function indented(row: Row): string {
  return `${"  ".repeat(row.depth)}${row.label}`;
}

function rowsFound(tree: Tree, ...ids: readonly number[]): readonly Row[] {
  const walk = new MatchWalk(tree, (id) => ids.includes(id));
  while (walk.advance(1));
  return walk.rows;
}

describe("rows", () => {
  test("exist only for open scopes", () => {
    expect(labels([])).toEqual(["x", "net", "loss"]);
    expect(labels(["net", "net/b"])).toEqual(["x", "net", "  a", "  b", "    matmul", "loss"]);
  });

  test("of a search are its matches and the scopes around them, folded or not", () => {
    const rows = rowsFound(buildTree(GRAPH), 4, 5).map(indented);
    expect(rows).toEqual(["net", "  b", "    matmul", "loss", "  mean"]);
  });

  test("are at first as many as fit", () => {
    expect([...firstOpen(buildTree(GRAPH), 6)]).toEqual(["net", "loss"]);
    expect([...firstOpen(buildTree(GRAPH), 99)]).toEqual(["net", "loss", "net/a", "net/b"]);
    expect([...firstOpen(buildTree(GRAPH), 3)]).toEqual([]);
  });
});

test("members are the same before and after a scope's entries are read", () => {
  const [unread, read] = [1, 2].map(() => buildTree(GRAPH).scopes.get("net"));
  expect(read?.children.map(({ path }) => path)).toEqual(["net/a", "net/b"]);
  expect(read?.children).toBe(read?.children);
  expect([unread?.members, read?.members]).toEqual([
    [2, 3, 4],
    [2, 3, 4],
  ]);
});

describe("weights", () => {
  const nodes = [
    node(1, "fc/weight", { role: "parameter", op: "parameter", outputs: [1] }),
    node(2, "head/weight", { role: "parameter", op: "parameter", outputs: [2] }),
    node(3, "encoder/fc/matmul", { inputs: [1], outputs: [3] }),
    node(4, "head/matmul", { inputs: [3, 2], outputs: [4] }),
    node(5, "again/head/matmul", { inputs: [4, 2], outputs: [5] }),
  ];
  const model = update(undefined, snapshot({ nodes }));
  if (model === undefined) throw new Error("a snapshot gives a model");
  const tree = buildTree(model.graph);

  test("are listed where their layer runs, if nothing runs in the scope of their name", () => {
    const open = new Set(["encoder", "encoder/fc", "head", "again"]);
    const rows = visibleRows(tree, open).map(indented);
    expect(rows).toEqual([
      ...["encoder", "  fc", "    weight", "    matmul"],
      ...["head", "  weight", "  matmul", "again", "  head"],
    ]);
    expect(tree.scopes.has("fc")).toBe(false);
    expect(tree.scopes.get("encoder")?.members).toEqual([1, 3]);
  });
});

describe("repeated scopes", () => {
  const names = ["x", ...[0, 1, 2, 3].map((at) => `net/block_${at}/tanh`), "out"];
  const model = update(
    undefined,
    snapshot({
      nodes: names.map((name, i) => node(i + 1, name, { inputs: i === 0 ? [] : [i] })),
      values: names.map((name, i) => produced(i + 1, name)),
    }),
  );
  if (model === undefined) throw new Error("a snapshot gives a model");
  const tree = buildTree(model.graph);
  const said = (row: Row): string => `${indented(row)}${row.open ? " open" : ""}`;
  const rows = (open: readonly string[]) => visibleRows(tree, new Set(open)).map(said);

  test("are one row, whose members are all nodes inside", () => {
    expect(rows(["net"])).toEqual(["x", "net open", "  block_0–3", "out"]);
    expect(tree.scopes.get("net/block_0…")?.members).toEqual([2, 3, 4, 5]);
    expect([...firstOpen(tree, 48)]).toEqual(["net"]);
  });

  test("have a row each if all are shown, or one if one is shown", () => {
    expect(rows(["net", "net/block_2"]).slice(2)).toEqual([
      "  block_0–3 open",
      "    block_2 open",
      "      tanh",
      "out",
    ]);
    expect(rows(["net", "net/block_0…"]).slice(3)).toEqual([
      "    block_0",
      "    block_1",
      "    block_2",
      "    block_3",
      "out",
    ]);
  });

  test("have a row if a search matches something in them", () => {
    expect(rowsFound(tree, 4).map(said)).toEqual([
      "net open",
      "  block_0–3 open",
      "    block_2 open",
      "      tanh",
    ]);
  });
});

test("nodes that a longer step adds are ordered by data flow, later ones come at the end", () => {
  const names = ["x", "time_0/cell", "time_1/cell", "out/matmul", "backward/out/matmul", "eval/a"];
  const late = ["time_2/cell", "time_3/cell"];
  const inputs = [[], [1], [2], [8], [4], [], [3], [7]];
  const model = update(
    undefined,
    snapshot({
      nodes: [...names, ...late].map((name, i) => node(i + 1, name, { inputs: inputs[i] ?? [] })),
      values: [...names, ...late].map((name, i) => produced(i + 1, name)),
    }),
  );
  if (model === undefined) throw new Error("a snapshot gives a model");
  // In a shorter step, the last ones are not used and keep their places.
  const shorter = records({
    seq: 90,
    nodes: [node(4, "out/matmul", { inputs: [3] })],
    node_seqs: [90],
  });
  for (const { graph } of [model, update(model, shorter) ?? model]) {
    expect(visibleRows(buildTree(graph), new Set(["time_0…"])).map((row) => row.label)).toEqual([
      "x",
      "time_0–3",
      "time_0",
      "time_1",
      "time_2",
      "time_3",
      "out",
      "backward",
      "eval",
    ]);
  }
});
