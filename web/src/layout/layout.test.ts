import { describe, expect, it } from "vitest";
import { composeScene } from "@/layout/compose";
import { buildHierarchy } from "@/layout/hierarchy";
import { layoutLayered } from "@/layout/layered";
import { NestedLayout } from "@/layout/nested";
import { isotonic } from "@/layout/position";
import { nodeName } from "@/layout/sizes";
import { plainNode } from "@/layout/testing";
import {
  BOX_FAR,
  BOX_FOLD,
  BOX_NODE,
  BOX_SCOPE,
  BOX_STUB,
  EDGE_BACK,
  type LayoutNode,
  type LayoutValue,
  type Scene,
} from "@/layout/types";

/** Seeded (mulberry32), so that a failure can be reproduced. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function node(id: number, over: Partial<LayoutNode> = {}): LayoutNode {
  return { ...plainNode(id, 1000), ...over };
}

const SCOPES = [
  "",
  "a",
  "a/x",
  "a/x/deep",
  "a/y",
  "b",
  "backward",
  "backward/a",
  "backward/a/x",
  "backward/b",
  "optimizer",
  "optimizer/a",
];

function randomGraph(
  seed: number,
  count: number,
): { nodes: LayoutNode[]; values: Map<number, LayoutValue> } {
  const draw = random(seed);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(draw() * list.length)]!;
  const nodes: LayoutNode[] = [];
  for (let id = 1; id <= count; id++) {
    const kind = draw();
    const leaf = kind < 0.15;
    const inputs = leaf
      ? []
      : Array.from(
          { length: 1 + Math.floor(draw() * 3) },
          // Sometimes a value that is made later: a parameter that is written and read again.
          () => 1000 + 1 + Math.floor(draw() * (draw() < 0.04 ? count : Math.max(1, id - 1))),
        );
    nodes.push(
      node(id, {
        scope: pick(SCOPES),
        inputs,
        family: leaf ? "leaf" : "matmul",
        op: leaf ? pick(["parameter", "tensor", "constant"]) : "matmul",
        detail: draw() < 0.3 ? "axis -1" : "",
        forward: id > 3 && draw() < 0.5 ? 1 + Math.floor(draw() * (id - 1)) : undefined,
        label: "w".repeat(1 + Math.floor(draw() * 30)),
      }),
    );
  }
  const values = new Map(
    nodes.map(({ id }) => [
      1000 + id,
      {
        id: 1000 + id,
        shape: [id, 3],
        bytes: id * 100,
      },
    ]),
  );
  return { nodes, values };
}

function scene(seed: number, count: number, open: "all" | ReadonlySet<string> = "all"): Scene {
  const { nodes, values } = randomGraph(seed, count);
  return composeScene(new NestedLayout(buildHierarchy(nodes, values)), open, 1);
}

function check(laid: Scene): void {
  const right = (box: number): number => laid.x[box]! + laid.width[box]!;
  const bottom = (box: number): number => laid.y[box]! + laid.height[box]!;
  const siblings = new Map<number, number[]>();
  for (let box = 0; box < laid.boxes; box++) {
    const parent = laid.parent[box]!;
    siblings.set(parent, [...(siblings.get(parent) ?? []), box]);
    if (parent < 0) continue;
    expect(parent).toBeLessThan(box);
    expect(laid.x[box]!).toBeGreaterThanOrEqual(laid.x[parent]!);
    // Below the title, and not touching it.
    expect(laid.y[box]!).toBeGreaterThanOrEqual(laid.y[parent]! + 30);
    expect(right(box)).toBeLessThanOrEqual(right(parent));
    expect(bottom(box)).toBeLessThanOrEqual(bottom(parent));
  }
  for (const group of siblings.values()) {
    for (const a of group) {
      for (const b of group) {
        if (a >= b) continue;
        const apart =
          right(a) <= laid.x[b]! ||
          right(b) <= laid.x[a]! ||
          bottom(a) <= laid.y[b]! ||
          bottom(b) <= laid.y[a]!;
        expect(apart, `boxes ${a} and ${b} overlap`).toBe(true);
      }
    }
  }
  expect([...laid.points].every(Number.isFinite)).toBe(true);
}

describe("scenes of random graphs", () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])("keep boxes apart and children inside, seed %i", (seed) => {
    check(scene(seed, 20 + seed * 15));
  });

  it.each([11, 12, 13])("with some scopes folded, seed %i", (seed) => {
    const laid = scene(seed, 80, new Set(["a", "a/x", "backward"]));
    check(laid);
    expect([...laid.kind]).toContain(BOX_FOLD);
  });

  it("are the same each time", () => {
    expect(scene(5, 120)).toEqual(scene(5, 120));
  });

  it("lead edges down in the forward graph and up in the backward column, back edges aside", () => {
    for (const seed of [21, 22, 23]) {
      const { nodes, values } = randomGraph(seed, 90);
      const hierarchy = buildHierarchy(nodes, values);
      const laid = composeScene(new NestedLayout(hierarchy), "all", 1);
      for (let edge = 0; edge < laid.edges; edge++) {
        const first = laid.points[2 * laid.start[edge]! + 1]!;
        const last = laid.points[2 * laid.start[edge + 1]! - 1]!;
        // A value of the forward pass may be named beside its reader in the backward one.
        const stub = laid.kind[laid.source[edge]!] === BOX_FAR;
        const reader = laid.ref[laid.target[edge]!]!;
        const within = hierarchy.groupOf[stub ? reader : laid.producer[edge]!]!;
        const { column } = hierarchy.groups[within]!;
        const down = (last - first) * (column === 1 ? -1 : 1);
        if ((laid.edgeFlags[edge]! & EDGE_BACK) !== 0) expect(down).toBeLessThan(0);
        else expect(down).toBeGreaterThan(0);
      }
    }
  });
});

describe("folding", () => {
  it("lays out again only the scope and those around it", () => {
    const { nodes, values } = randomGraph(31, 150);
    const layout = new NestedLayout(buildHierarchy(nodes, values));
    composeScene(layout, new Set(["a", "a/x", "a/y", "b"]), 1);
    composeScene(layout, new Set(["a", "a/y", "b"]), 1);
    // The root and `a`.
    expect(layout.fresh).toBe(2);
  });

  it("comes back to the same picture", () => {
    const { nodes, values } = randomGraph(32, 150);
    const layout = new NestedLayout(buildHierarchy(nodes, values));
    const open = new Set(["a", "a/x", "backward"]);
    const before = composeScene(layout, open, 1);
    composeScene(layout, new Set(["a"]), 1);
    expect(composeScene(layout, open, 1)).toEqual(before);
  });
});

describe("a chain", () => {
  it("is in one straight line", () => {
    const nodes = Array.from({ length: 12 }, (_, k) =>
      node(k + 1, {
        inputs: k === 0 ? [] : [1000 + k],
        label: "x".repeat(1 + ((k * 7) % 20)),
      }),
    );
    const laid = composeScene(new NestedLayout(buildHierarchy(nodes, new Map())), "all", 1);
    const middles = [...laid.x].map((x, box) => x + laid.width[box]! / 2);
    for (const middle of middles) expect(Math.abs(middle - middles[0]!)).toBeLessThanOrEqual(1);
  });

  it("survives being a cycle", () => {
    const nodes = [
      node(1, { inputs: [1003] }),
      node(2, { inputs: [1001] }),
      node(3, { inputs: [1002] }),
    ];
    const laid = composeScene(new NestedLayout(buildHierarchy(nodes, new Map())), "all", 1);
    check(laid);
    expect([...laid.edgeFlags].filter((flags) => (flags & EDGE_BACK) !== 0)).toHaveLength(1);
  });
});

describe("grouping", () => {
  it("draws nodes that are recomputed for the backward pass", () => {
    const scope = "recompute/a";
    const nodes = [node(1), node(2, { scope, phase: "recompute", inputs: [1001] })];
    const hierarchy = buildHierarchy(nodes, new Map());
    const scene = composeScene(new NestedLayout(hierarchy), "all", 1);
    const boxed = Array.from(scene.ref).filter((_, box) => scene.kind[box] === BOX_NODE);
    expect(boxed.sort()).toEqual([0, 1]);
  });

  const values = new Map<number, LayoutValue>();

  it("draws a parameter of one scope inside its readers", () => {
    const nodes = [
      node(1, { op: "parameter", family: "leaf", scope: "h", label: "w" }),
      node(2, { inputs: [1001], scope: "h" }),
      node(3, { inputs: [1001], scope: "backward/h", phase: "backward", forward: 2 }),
    ];
    const hierarchy = buildHierarchy(nodes, values);
    expect(hierarchy.chips.get(1)).toEqual([0]);
    expect(hierarchy.chips.get(2)).toEqual([0]);
    expect(hierarchy.host[0]).toBe(1);
    const laid = composeScene(new NestedLayout(hierarchy), "all", 1);
    expect([...laid.kind].filter((kind) => kind === BOX_NODE)).toHaveLength(2);
    expect(laid.edges).toBe(0);
  });

  it("draws a parameter of several scopes beside each of them", () => {
    const nodes = [
      node(1, { op: "parameter", family: "leaf", label: "w" }),
      node(2, { inputs: [1001], scope: "a" }),
      node(3, { inputs: [1001], scope: "b" }),
    ];
    const laid = composeScene(new NestedLayout(buildHierarchy(nodes, values)), "all", 1);
    expect([...laid.kind].filter((kind) => kind === BOX_STUB)).toHaveLength(2);
    expect(laid.edges).toBe(2);
  });

  it("counts operations, not leaves, through nested scopes", () => {
    const nodes = [
      node(1, { op: "tensor", family: "leaf", scope: "a" }),
      node(2, { inputs: [1001], scope: "a/b" }),
      node(3, { inputs: [1002], scope: "a/b/c" }),
    ];
    const hierarchy = buildHierarchy(nodes, values);
    expect(hierarchy.groups[hierarchy.groupAt.get("a")!]!.ops).toBe(2);
  });

  it("keeps forward and backward apart and level with each other", () => {
    const nodes = [
      node(1, { scope: "a" }),
      node(2, { scope: "b", inputs: [1001] }),
      node(3, { scope: "backward/b", phase: "backward", inputs: [1002], forward: 2 }),
      node(4, { scope: "backward/a", phase: "backward", inputs: [1003, 1001], forward: 1 }),
    ];
    const hierarchy = buildHierarchy(nodes, values);
    const laid = composeScene(new NestedLayout(hierarchy), new Set(["backward"]), 1);
    const box = (path: string): number =>
      [...laid.ref].findIndex(
        (ref, at) =>
          (laid.kind[at] === BOX_FOLD || laid.kind[at] === BOX_SCOPE) &&
          hierarchy.groups[ref]!.path === path,
      );
    for (const path of ["a", "b"]) {
      expect(Math.abs(laid.y[box(path)]! - laid.y[box(`backward/${path}`)]!)).toBeLessThanOrEqual(
        1,
      );
    }
    expect(laid.x[box("backward")]!).toBeGreaterThan(laid.x[box("a")]! + laid.width[box("a")]!);
  });
});

describe("isotonic", () => {
  it("leaves an ordered sequence alone and averages a disordered one by weight", () => {
    expect([...isotonic(Float64Array.of(1, 2, 3), Float64Array.of(1, 1, 1))]).toEqual([1, 2, 3]);
    expect([...isotonic(Float64Array.of(3, 0), Float64Array.of(2, 1))]).toEqual([2, 2]);
  });
});

// A layout in quadratic time would exceed the time limit of a test.
it("lays out ten thousand nodes of one flat group", () => {
  const count = 10_000;
  const draw = random(99);
  const source = Int32Array.from({ length: count - 1 }, (_, k) =>
    Math.max(0, k - Math.floor(draw() ** 6 * 40)),
  );
  const target = Int32Array.from({ length: count - 1 }, (_, k) => k + 1);
  const laid = layoutLayered({
    width: new Float64Array(count).fill(120),
    height: new Float64Array(count).fill(36),
    pin: new Uint8Array(count),
    spread: new Uint8Array(count),
    source,
    target,
    sourceOffset: new Float32Array(count - 1),
    targetOffset: new Float32Array(count - 1),
    nodeGap: 16,
    layerGap: 30,
    portGap: 16,
    upward: false,
    wantedY: undefined,
  });
  expect(laid.x).toHaveLength(count);
});

describe("nodes computed for a single reader", () => {
  it("are beside that reader, not in one row at the top", () => {
    // As in an exported network: each layer's weights are data, transposed before they are used.
    const nodes: LayoutNode[] = [node(1, { family: "leaf", op: "tensor", role: "input" })];
    const layers = 30;
    for (let k = 0; k < layers; k++) {
      const first = 3 * k + 2;
      const data = { family: "leaf", op: "tensor", role: "input", label: `w_${k}` };
      nodes.push(node(first, data));
      nodes.push(node(first + 1, { inputs: [1000 + first] }));
      const before = k === 0 ? 1 : first - 1;
      nodes.push(node(first + 2, { inputs: [1000 + before, 1000 + first + 1] }));
    }
    const scene = composeScene(new NestedLayout(buildHierarchy(nodes, new Map())), "all", 1);
    // In two or three columns, as tall as a screen.
    expect(scene.right - scene.left).toBeLessThan(1400);
    expect(scene.bottom - scene.top).toBeLessThan(1100);
  });
});

describe("unconnected parts", () => {
  it("are in rows, not in one line across several screens", () => {
    const nodes: LayoutNode[] = [];
    for (let k = 0; k < 120; k++) {
      nodes.push(node(2 * k + 1, { scope: `optimizer/p_${k}` }));
      nodes.push(node(2 * k + 2, { scope: `optimizer/p_${k}`, inputs: [1000 + 2 * k + 1] }));
    }
    const layout = new NestedLayout(buildHierarchy(nodes, new Map()));
    const scene = composeScene(layout, "all", 1);
    const width = scene.right - scene.left;
    expect(width).toBeLessThan(2 * (scene.bottom - scene.top) + 1700);
    for (let a = 0; a < scene.boxes; a++) {
      for (let b = a + 1; b < scene.boxes; b++) {
        if (scene.parent[a] !== scene.parent[b]) continue;
        const apart =
          scene.x[a]! + scene.width[a]! <= scene.x[b]! ||
          scene.x[b]! + scene.width[b]! <= scene.x[a]! ||
          scene.y[a]! + scene.height[a]! <= scene.y[b]! ||
          scene.y[b]! + scene.height[b]! <= scene.y[a]!;
        expect(apart).toBe(true);
      }
    }
    // Edges end at the boxes that they join.
    for (let edge = 0; edge < scene.edges; edge++) {
      const end = scene.start[edge + 1]! - 1;
      const target = scene.target[edge]!;
      expect(scene.points[2 * end]!).toBeGreaterThanOrEqual(scene.x[target]!);
      expect(scene.points[2 * end]!).toBeLessThanOrEqual(scene.x[target]! + scene.width[target]!);
      expect(Math.abs(scene.points[2 * end + 1]! - scene.y[target]!)).toBeLessThan(2);
    }
  });
});

describe("a name in a box", () => {
  it.each([
    ["n0", "Relu", "Relu · n0"],
    ["12", "Conv", "Conv · 12"],
    ["out_28", "aten::relu.default", "relu · out_28"],
    ["conv3", "Conv", "conv3"],
    ["norm16", "BatchNormalization", "norm16"],
    ["mm_1", "aten::mm.default", "mm_1"],
    ["matmul_1", "dot", "matmul_1"],
    ["view_1", "reshape", "view_1"],
    ["bmm_12", "matmul", "bmm_12"],
    ["t_1", "transpose", "t_1"],
    ["t1", "Conv", "Conv · t1"],
    ["scores", "Gemm", "scores"],
  ])("says what the operation is: %s, %s", (label, op, shown) => {
    expect(nodeName({ label, op })).toBe(shown);
  });
});
