import { describe, expect, it } from "vitest";
import { composeScene } from "@/layout/compose";
import { buildHierarchy, isPort } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import { plainNode } from "@/layout/testing";
import { BOX_FOLD, BOX_INPUT, BOX_NODE, type LayoutNode, type Scene } from "@/layout/types";
import { SceneModel } from "@/render/scene/model";

const VALUES = 1000;

/** Blocks of a matmul, two branches and a sum, one after the other. */
function blocks(count: number): LayoutNode[] {
  const nodes: LayoutNode[] = [{ ...plainNode(1, VALUES), label: "x" }];
  for (let block = 0; block < count; block++) {
    const last = nodes.length;
    const add = (op: string, inputs: readonly number[], inner = ""): number => {
      const id = nodes.length + 1;
      const scope = `block_${block}${inner}`;
      nodes.push({
        ...plainNode(id, VALUES),
        op,
        label: op,
        scope,
        inputs: inputs.map((at) => VALUES + at),
      });
      return id;
    };
    const weight = nodes.length + 1;
    const parameter = { op: "parameter", family: "leaf", role: "parameter" };
    nodes.push({ ...plainNode(weight, VALUES), scope: `block_${block}`, ...parameter });
    const product = add("matmul", [last, weight]);
    const left = add("tanh", [product], "/left");
    const right = add("relu", [product], "/right");
    add("add", [left, right, last]);
  }
  nodes.push({ ...plainNode(nodes.length + 1, VALUES), inputs: [VALUES + nodes.length] });
  return nodes;
}

function scenesOf(nodes: readonly LayoutNode[]) {
  const layout = new NestedLayout(buildHierarchy(nodes, new Map()));
  const sceneOf = (...open: string[]): Scene => composeScene(layout, new Set(open), 1);
  return { layout, sceneOf, hierarchy: layout.hierarchy };
}

const kinds = (scene: Scene, kind: number): number[] =>
  [...scene.ref].filter((_, box) => scene.kind[box] === kind);

describe("a stack of scopes that are alike", () => {
  const nodes = blocks(12);
  const { layout, sceneOf, hierarchy } = scenesOf(nodes);
  const stack = hierarchy.groupAt.get("block_0…")!;

  it("is one box between what comes before and after", () => {
    const scene = sceneOf();
    expect(kinds(scene, BOX_FOLD)).toEqual([stack]);
    expect(hierarchy.groups[stack]!.name).toBe("block_0–11");
    expect(hierarchy.groups[stack]!.ops).toBe(48);
    expect(scene.boxes).toBe(3);
    expect(scene.edges).toBe(2);
  });

  it("shows the scope that is open, always at the same place", () => {
    const first = sceneOf("block_0", "block_0/left");
    const fifth = sceneOf("block_5", "block_5/left");
    expect(kinds(first, BOX_NODE)).toHaveLength(2 + 3);
    expect(fifth.boxes).toBe(first.boxes);
    for (const column of ["kind", "parent", "x", "y", "width", "height", "points"] as const) {
      expect([...fifth[column]]).toEqual([...first[column]]);
    }
    const named = (scene: Scene) =>
      kinds(scene, BOX_NODE).map((node) => hierarchy.nodes[node]!.scope);
    expect(named(first).filter((scope) => scope === "block_0")).toHaveLength(2);
    expect(named(fifth).filter((scope) => scope === "block_5")).toHaveLength(2);
  });

  it("joins the edges outside to those of the scope that is shown", () => {
    const scene = sceneOf("block_5");
    const model = new SceneModel(hierarchy, scene);
    const box = model.boxOf({ kind: "scope", path: "block_5" });
    const ends = [...scene.source, ...scene.target].filter((end) => end === box);
    expect(ends.length).toBeGreaterThanOrEqual(4);
    const incoming = [...scene.target].indexOf(box);
    const at = (edge: number, point: number) => scene.points[2 * point] ?? edge;
    const arrives = at(incoming, scene.start[incoming + 1]! - 1);
    const inner = [...scene.source].indexOf(box);
    expect(at(inner, scene.start[inner]!)).toBeCloseTo(arrives, 0);
  });

  it("stands for the nodes of scopes that are not shown", () => {
    const model = new SceneModel(hierarchy, sceneOf("block_5"));
    const shown = model.boxOf({ kind: "scope", path: "block_5" });
    const hidden = nodes.find(({ scope }) => scope === "block_9/left")!;
    expect(model.boxOf({ kind: "node", id: hidden.id })).toBe(shown);
    expect(model.ownBox({ kind: "node", id: hidden.id })).toBe(-1);
    expect(model.ownBox({ kind: "scope", path: "block_9" })).toBe(-1);
    expect(model.itemOf(shown)).toEqual({ kind: "scope", path: "block_5" });
    expect(model.stackAround(shown)?.index).toBe(stack);
  });

  it("shows all if several are open, or the stack is", () => {
    for (const open of [["block_0…"], ["block_2", "block_7"]]) {
      const scene = sceneOf(...open);
      const drawn = new Set(
        [...scene.ref].flatMap((ref, box) =>
          scene.kind[box] === BOX_NODE || scene.kind[box] === BOX_INPUT
            ? []
            : [hierarchy.groups[ref]!.path],
        ),
      );
      for (let block = 0; block < 12; block++) expect(drawn).toContain(`block_${block}`);
    }
  });

  it("lays out only its own scope again when it shows another one", () => {
    sceneOf("block_5");
    sceneOf("block_6");
    // The scope, and the group around its stack.
    expect(layout.fresh).toBeLessThanOrEqual(2);
  });
});

describe("all scopes open", () => {
  it("show each operation once, and each edge", () => {
    for (const count of [1, 3, 7]) {
      const nodes = blocks(count);
      const { layout, hierarchy } = scenesOf(nodes);
      const scene = composeScene(layout, "all", 1);
      const drawn = kinds(scene, BOX_NODE).concat(kinds(scene, BOX_INPUT));
      const computing = nodes.flatMap((node, at) => (node.family === "leaf" ? [] : [at]));
      expect(drawn.sort((a, b) => a - b)).toEqual(computing);
      const arriving = hierarchy.groups.flatMap(({ index }) =>
        hierarchy.segments
          .of(index)
          .filter(({ to }) => to < nodes.length && !isPort(to))
          .map(({ to, value }) => `${value} ${to}`),
      );
      const wanted = computing.flatMap((at) =>
        nodes[at]!.inputs.filter(
          (value) => nodes[hierarchy.producerOf.get(value)!]!.family !== "leaf",
        ).map((value) => `${value} ${at}`),
      );
      expect(arriving.sort()).toEqual(wanted.sort());
    }
  });
});
