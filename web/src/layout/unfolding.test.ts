import { describe, expect, it, vi } from "vitest";
import { composeScene } from "@/layout/compose";
import { buildHierarchy } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import { plainNode } from "@/layout/testing";
import { BOX_NODE, type LayoutNode, type Scene } from "@/layout/types";
import { unfold } from "@/layout/unfolding";

const VALUES = 100_000;

/** A model of blocks, each with two scopes of operations. */
function model(blocks: number, size: number): LayoutNode[] {
  const nodes: LayoutNode[] = [];
  const chain = (scope: string, forward?: number): void => {
    const id = nodes.length + 1;
    const inputs = [VALUES + id - 1];
    nodes.push({ ...plainNode(id, VALUES), scope, inputs, forward });
  };
  for (let block = 0; block < blocks; block++) {
    for (const part of ["attention", "mlp"]) {
      for (let k = 0; k < size; k++) chain(`net/layers/${block}/${part}`);
    }
  }
  for (let forward = nodes.length; forward > 0; forward--) {
    chain(`backward/${nodes[forward - 1]!.scope}`, forward);
  }
  return nodes;
}

function layoutOf(nodes: readonly LayoutNode[]): NestedLayout {
  return new NestedLayout(buildHierarchy(nodes, new Map()));
}

function zoomOf({ left, right, top, bottom }: Scene, window: { width: number; height: number }) {
  return Math.min(window.width / (right - left), window.height / (bottom - top));
}

const NOTHING: ReadonlySet<string> = new Set();

describe("the first picture", () => {
  const window = { width: 1000, height: 620 };

  it("is readable in the window, however large the graph is", () => {
    for (const blocks of [1, 4, 12, 48]) {
      const layout = layoutOf(model(blocks, 8));
      const open = unfold(layout, NOTHING, NOTHING, window);
      expect(zoomOf(composeScene(layout, open, 1), window)).toBeGreaterThanOrEqual(0.75);
    }
  });

  it("shows one of a model's layers, with its contents", () => {
    const layout = layoutOf(model(12, 8));
    const open = unfold(layout, NOTHING, NOTHING, window);
    const layers = layout.hierarchy.repeats.byPath.get("net/layers/0…")!.members;
    expect(layers).toHaveLength(12);
    expect(layers.filter((path) => open.has(path))).toEqual(["net/layers/0"]);
    expect(open.has("net/layers/0/attention")).toBe(true);
  });

  it("shows all layers of a small model", () => {
    const layout = layoutOf(model(4, 1));
    const open = unfold(layout, NOTHING, NOTHING, { width: 1600, height: 1100 });
    const scene = composeScene(layout, open, 1);
    const { groups } = layout.hierarchy;
    const shown = [...scene.ref.filter((_, box) => scene.kind[box] !== BOX_NODE)];
    const layers = shown.filter((ref) => /^net\/layers\/\d$/.test(groups[ref]!.path));
    expect(layers).toHaveLength(4);
  });

  it("opens the forward pass before the backward one", () => {
    const layout = layoutOf(model(12, 8));
    const open = unfold(layout, NOTHING, NOTHING, { width: 700, height: 560 });
    expect(open.has("net/layers/0/attention")).toBe(true);
    expect(open.has("backward/net/layers/11/mlp")).toBe(false);
  });

  it("opens the forward pass even if the backward pass was open", () => {
    const layout = layoutOf(model(12, 8));
    const open = unfold(layout, new Set(["backward", "backward/net"]), NOTHING, window);
    expect(open.has("net/layers")).toBe(true);
  });

  it("leaves a scope of one operation for last", () => {
    const layout = layoutOf([
      { ...plainNode(1, VALUES), scope: "only" },
      ...model(1, 8).map((node) => ({
        ...node,
        id: node.id + 1,
        inputs: [node.inputs[0]! + 1],
        outputs: [VALUES + node.id + 1],
        forward: undefined,
      })),
    ]);
    const opened = [200, 220, 240, 260, 280, 300, 350, 400].map((height) => {
      const open = unfold(layout, NOTHING, NOTHING, { width: 700, height });
      return [open.has("net"), open.has("only")];
    });
    expect(opened).toContainEqual([true, false]);
    expect(opened).not.toContainEqual([false, true]);
  });

  it("opens no more of the optimizer than its modules", () => {
    const updates = Array.from({ length: 8 }, (_, at) => ({
      ...plainNode(at + 1, VALUES),
      scope: `optimizer/part_${at % 2}/weight`,
      phase: "optimizer",
    }));
    const open = unfold(layoutOf(updates), NOTHING, NOTHING, { width: 2000, height: 1400 });
    expect([...open].filter((path) => path.startsWith("optimizer/"))).toEqual([]);
  });

  it("opens no optimizer of a single module", () => {
    const updates = Array.from({ length: 8 }, (_, at) => ({
      ...plainNode(at + 1, VALUES),
      scope: "optimizer/part/weight",
      phase: "optimizer",
    }));
    const open = unfold(layoutOf(updates), NOTHING, NOTHING, { width: 2000, height: 1400 });
    expect([...open]).toEqual([]);
  });

  it("is the same on a slow machine", () => {
    const large = { width: 1600, height: 1100 };
    const fast = unfold(layoutOf(model(12, 8)), NOTHING, NOTHING, large);
    let now = 0;
    const clock = vi.spyOn(performance, "now").mockImplementation(() => {
      now += 60;
      return now;
    });
    const slow = unfold(layoutOf(model(12, 8)), NOTHING, NOTHING, large);
    clock.mockRestore();
    expect([...slow]).toEqual([...fast]);
    expect(fast.size).toBeGreaterThan(6);
  });

  it("is not one thin column in a wide window", () => {
    const nodes = Array.from({ length: 16 }, (_, at) => ({
      ...plainNode(at + 1, VALUES),
      inputs: at === 0 ? [] : [VALUES + at],
      scope: `part_${Math.floor(at / 4)}`,
      op: `op_${Math.floor(at / 4)}`,
    }));
    const layout = layoutOf(nodes);
    const wide = { width: 1700, height: 930 };
    const open = unfold(layout, NOTHING, NOTHING, wide);
    expect(open.size).toBe(4);
    const { left, right, top, bottom } = composeScene(layout, open, 1);
    expect(right - left).toBeGreaterThan(0.5 * (bottom - top));
  });

  it("has shorter columns where a low window shows little otherwise", () => {
    const chain = (from: number, to: number, scope: string) =>
      Array.from({ length: to - from }, (_, at) => ({
        ...plainNode(from + at, VALUES),
        inputs: from + at === 1 ? [] : [VALUES + from + at - 1],
        scope,
      }));
    const layout = layoutOf([...chain(1, 3, ""), ...chain(3, 11, "long"), ...chain(11, 18, "end")]);
    const open = unfold(layout, NOTHING, NOTHING, { width: 686, height: 391 });
    expect([...open].sort()).toEqual(["end", "long"]);
  });

  it("keeps open scopes that are readable, and always those in `kept`", () => {
    const layout = layoutOf(model(2, 3));
    const before = new Set(["net", "net/layers", "net/layers/0", "net/layers/0/mlp"]);
    const open = unfold(layout, before, NOTHING, { width: 2000, height: 1400 });
    for (const path of before) expect(open.has(path)).toBe(true);
    const kept = new Set(["backward", "backward/net"]);
    for (const path of kept) {
      expect(unfold(layout, NOTHING, kept, { width: 300, height: 200 }).has(path)).toBe(true);
    }
  });

  it("is chosen anew if the open scopes are the smaller part of a graph that has grown", () => {
    const scopes = [...Array(3).fill("early"), ...Array(8).fill("later")];
    const nodes = scopes.map((scope, at) => ({
      ...plainNode(at + 1, VALUES),
      scope,
      inputs: [VALUES + at],
    }));
    const grown = layoutOf(nodes);
    const shown = [300, 350, 400, 450, 500, 550, 600].map((height) => {
      const open = unfold(grown, new Set(["early"]), NOTHING, { width: 200, height });
      return [...open].sort().join(" ");
    });
    expect([...new Set(shown)]).toEqual(["early", "later", "early later"]);
  });

  it("stays as it is if no more can be open", () => {
    const layout = layoutOf(model(2, 3));
    const before = new Set(["net", "net/layers", "net/layers/0", "net/layers/0/mlp"]);
    const small = { width: 300, height: 200 };
    layout.setColumn(500);
    expect(unfold(layout, before, NOTHING, small, true)).toBe(before);
    expect(layout.columnHeight).toBe(500);
    expect(unfold(layout, before, NOTHING, small)).not.toEqual(before);
    const large = { width: 2000, height: 1400 };
    expect(unfold(layout, new Set(["net"]), NOTHING, large, true).has("net/layers")).toBe(true);
  });
});

describe("a long chain", () => {
  const nodes = Array.from({ length: 60 }, (_, at) => ({
    ...plainNode(at + 1, VALUES),
    // Every fifth node also reads the node before the last: a skip over the node in between.
    inputs: at === 0 ? [] : [VALUES + at, ...(at % 5 === 4 ? [VALUES + at - 1] : [])],
  }));
  const scene = composeScene(layoutOf(nodes), "all", 1);

  it("is cut into columns that fill a window", () => {
    const width = scene.right - scene.left;
    const height = scene.bottom - scene.top;
    expect(height).toBeLessThan(1400);
    expect(width / height).toBeGreaterThan(0.6);
    const lefts = new Set(scene.x);
    expect(lefts.size).toBeGreaterThan(1);
  });

  it("has all of its lines in the picture", () => {
    const heights = scene.points.filter((_, at) => at % 2 === 1);
    expect(scene.top).toBeLessThanOrEqual(Math.min(...heights));
    expect(scene.bottom).toBeGreaterThanOrEqual(Math.max(...heights));
  });

  it("keeps boxes apart, and edges at their ends", () => {
    for (let a = 0; a < scene.boxes; a++) {
      for (let b = a + 1; b < scene.boxes; b++) {
        const apart =
          scene.x[a]! + scene.width[a]! <= scene.x[b]! ||
          scene.x[b]! + scene.width[b]! <= scene.x[a]! ||
          scene.y[a]! + scene.height[a]! <= scene.y[b]! ||
          scene.y[b]! + scene.height[b]! <= scene.y[a]!;
        expect(apart).toBe(true);
      }
    }
    for (let edge = 0; edge < scene.edges; edge++) {
      const [first, last] = [scene.start[edge]!, scene.start[edge + 1]! - 1];
      const source = scene.source[edge]!;
      const target = scene.target[edge]!;
      const bottom = scene.y[source]! + scene.height[source]!;
      expect(Math.abs(scene.points[2 * first + 1]! - bottom)).toBeLessThan(2);
      expect(Math.abs(scene.points[2 * last + 1]! - scene.y[target]!)).toBeLessThan(2);
    }
  });

  it("has no line through a box", () => {
    for (let edge = 0; edge < scene.edges; edge++) {
      for (let at = scene.start[edge]!; at + 1 < scene.start[edge + 1]!; at++) {
        const [ax, ay, bx, by] = [0, 1, 2, 3].map((k) => scene.points[2 * at + k]!);
        if (ax !== bx && ay !== by) continue; // a curve between two layers
        for (let box = 0; box < scene.boxes; box++) {
          const inside =
            Math.max(ax!, bx!) > scene.x[box]! + 1 &&
            Math.min(ax!, bx!) < scene.x[box]! + scene.width[box]! - 1 &&
            Math.max(ay!, by!) > scene.y[box]! + 1 &&
            Math.min(ay!, by!) < scene.y[box]! + scene.height[box]! - 1;
          expect(inside).toBe(false);
        }
      }
    }
  });
});

describe("a tall box among small ones", () => {
  it("does not keep the chain in one column", () => {
    const inside = (id: number) => id >= 4 && id <= 12;
    const nodes = Array.from({ length: 15 }, (_, at) => ({
      ...plainNode(at + 1, VALUES),
      inputs: at === 0 ? [] : [VALUES + at],
      scope: inside(at + 1) ? "block" : "",
    }));
    const layout = layoutOf(nodes);
    const open = new Set(["block"]);
    const tall = composeScene(layout, open, 1);
    layout.setColumn(0.8 * (tall.bottom - tall.top));
    const wrapped = composeScene(layout, open, 1);
    expect(wrapped.bottom - wrapped.top).toBeLessThan(0.9 * (tall.bottom - tall.top));
  });
});

describe("a wide row of boxes that are alike", () => {
  it("becomes a grid in a scope that each box leaves by its own port", () => {
    const slices = Array.from({ length: 12 }, (_, at) => ({
      ...plainNode(at + 2, VALUES),
      inputs: [VALUES + 1],
      scope: "slices",
    }));
    const nodes = [
      plainNode(1, VALUES),
      ...slices,
      { ...plainNode(14, VALUES), inputs: slices.map(({ id }) => VALUES + id) },
    ];
    const scene = composeScene(layoutOf(nodes), "all", 1);
    expect(scene.right - scene.left).toBeLessThan(1200);
  });

  it("becomes a grid", () => {
    const slices = Array.from({ length: 64 }, (_, at) => ({
      ...plainNode(at + 2, VALUES),
      inputs: [VALUES + 1],
    }));
    const nodes = [
      plainNode(1, VALUES),
      ...slices,
      { ...plainNode(66, VALUES), inputs: slices.map(({ id }) => VALUES + id) },
    ];
    const scene = composeScene(layoutOf(nodes), "all", 1);
    const width = scene.right - scene.left;
    expect(width).toBeLessThan(3000); // in one row: 8,320
    expect(width / (scene.bottom - scene.top)).toBeLessThan(5);
  });
});
