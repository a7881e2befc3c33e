import { describe, expect, it } from "vitest";
import { composeScene } from "@/layout/compose";
import { farReads } from "@/layout/far";
import { buildHierarchy } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import { plainNode } from "@/layout/testing";
import { BOX_FAR, type LayoutNode, orderValue } from "@/layout/types";

const VALUES = 1000;

/** A chain of 60 whose nodes `readers` also read the value of `producer`, which comes first. */
function chain(readers: readonly number[], producer: Partial<LayoutNode> = {}): LayoutNode[] {
  const first = { ...plainNode(1, VALUES), label: "mask", inputs: [VALUES + 2], ...producer };
  const rest = Array.from({ length: 60 }, (_, at): LayoutNode => {
    const id = at + 2;
    const inputs = [...(at > 0 ? [VALUES + id - 1] : []), ...(readers.includes(at) ? [1001] : [])];
    return { ...plainNode(id, VALUES), inputs };
  });
  return [first, ...rest];
}

function sceneOf(nodes: readonly LayoutNode[]) {
  const hierarchy = buildHierarchy(nodes, new Map());
  const scene = composeScene(new NestedLayout(hierarchy), "all", 0);
  const stubs = [...scene.kind.keys()].filter((box) => scene.kind[box] === BOX_FAR);
  const readers = [...scene.source.keys()]
    .filter((edge) => stubs.includes(scene.source[edge]!))
    .map((edge) => scene.target[edge]!)
    .map((box) => hierarchy.nodes[scene.ref[box]!]!.id - 2);
  return { scene, stubs, readers: readers.sort((a, b) => a - b) };
}

describe("a value that many nodes read far from its producer", () => {
  it("has a stub beside each far reader, with the producer, and a line to the near one", () => {
    const nodes = chain([3, 20, 30, 40, 50]);
    const { scene, stubs, readers } = sceneOf(nodes);
    expect(readers).toEqual([20, 30, 40, 50]);
    expect(stubs.map((box) => scene.ref[box])).toEqual([0, 0, 0, 0]);
    const lines = [...scene.producer].filter((node) => node === 0).length;
    expect(lines).toBe(5);
    for (const [edge, source] of scene.source.entries()) {
      if (!stubs.includes(source)) continue;
      const distance = scene.y[scene.target[edge]!]! - scene.y[source]!;
      expect(distance).toBeGreaterThan(0);
      expect(distance).toBeLessThan(120);
    }
  });

  it("has lines to a few far readers, such as long skip connections", () => {
    expect(sceneOf(chain([20, 40, 59])).stubs).toEqual([]);
  });

  it("has a stub for a single far reader if its producer has no inputs, such as labels", () => {
    const labels = { label: "labels", inputs: [] };
    expect(sceneOf(chain([58], labels)).readers).toEqual([58]);
    expect(sceneOf(chain([3], labels)).stubs).toEqual([]);
  });
});

it("a stub is directly above its reader, however tall the items beside it", () => {
  const inside = Array.from({ length: 12 }, (_, at): LayoutNode => {
    const inputs = at > 0 ? [VALUES + at + 1] : [];
    return { ...plainNode(at + 2, VALUES), inputs, scope: "model" };
  });
  const loss = { ...plainNode(14, VALUES), inputs: [VALUES + 13, VALUES + 1], scope: "loss" };
  const data = { ...plainNode(1, VALUES), scope: "inputs" };
  const image = { ...plainNode(15, VALUES), scope: "inputs" };
  const first = { ...inside[0]!, inputs: [VALUES + 15] };
  const nodes = [data, image, first, ...inside.slice(1), loss];
  const hierarchy = buildHierarchy(nodes, new Map());
  const scene = composeScene(new NestedLayout(hierarchy), "all", 0);
  const stub = scene.kind.indexOf(BOX_FAR);
  const edge = scene.source.indexOf(stub);
  expect(hierarchy.nodes[scene.ref[stub]!]!.id).toBe(1);
  const bottom = scene.y[stub]! + scene.height[stub]!;
  expect(scene.points[2 * scene.start[edge]! + 1]).toBeCloseTo(bottom, 0);
  expect(scene.y[scene.target[edge]!]! - bottom).toBeLessThan(60);
});

describe("edges that stubs replace", () => {
  const border = (item: number): boolean => item >= 900;
  const row = Array.from({ length: 30 }, (_, at) => ({
    from: at,
    to: at + 1,
    value: at,
    bundle: 1,
  }));
  const high = (): number => 40;

  it("exclude edges to the border, bundles, and edges to a reader with many of them", () => {
    const far = (more: readonly (typeof row)[number][]) =>
      [...farReads([...row, ...more], border, high)].map((at) => at - row.length);
    const reads = (from: number, value: number) =>
      [12, 16, 20, 24].map((to) => ({ from, to, value, bundle: 1 }));
    expect(far(reads(1, 1))).toEqual([0, 1, 2, 3]);
    expect(far(reads(1, 1).map((edge) => ({ ...edge, bundle: 2 })))).toEqual([]);
    expect(far(reads(1, 1).map((edge) => ({ ...edge, to: edge.to + 888 })))).toEqual([]);
    expect(far([1, 2, 3].flatMap((from) => reads(from, from)))).toHaveLength(12);
    expect(far([1, 2, 3, 4].flatMap((from) => reads(from, from)))).toEqual([]);
  });

  it("include all far order edges, which carry no data", () => {
    const order = { from: 1, to: 25, value: orderValue(1), bundle: 1 };
    expect([...farReads([...row, order], border, high)]).toEqual([row.length]);
    expect([...farReads([...row, { ...order, to: 3 }], border, high)]).toEqual([]);
  });

  it("exclude edges on a cycle", () => {
    const ring = [...row, { from: 30, to: 0, value: 99, bundle: 1 }];
    expect([...farReads(ring, border, high)]).toEqual([]);
  });
});

describe("a value of the forward pass", () => {
  /** One node, and its readers in the backward pass, one after the other. */
  const saving = (readers: number): LayoutNode[] => [
    { ...plainNode(1, VALUES), label: "saved" },
    ...Array.from({ length: readers }, (_, at) => ({
      ...plainNode(at + 2, VALUES),
      scope: "backward",
      inputs: [VALUES + 1, ...(at > 0 ? [VALUES + at + 1] : [])],
      forward: 1,
    })),
  ];

  it("is named beside each of its readers in the backward pass if there are many", () => {
    const { scene, stubs, readers } = sceneOf(saving(5));
    expect(readers).toEqual([0, 1, 2, 3, 4]);
    expect(stubs.map((box) => scene.ref[box])).toEqual([0, 0, 0, 0, 0]);
  });

  it("is not named if there are few", () => {
    expect(sceneOf(saving(3)).stubs).toEqual([]);
  });

  it("is not named where its readers are folded", () => {
    const scene = composeScene(
      new NestedLayout(buildHierarchy(saving(5), new Map())),
      new Set(),
      0,
    );
    expect([...scene.kind]).not.toContain(BOX_FAR);
  });
});
