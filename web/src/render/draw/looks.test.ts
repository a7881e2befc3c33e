import { describe, expect, it } from "vitest";
import { overlaps } from "@/base/geometry";
import { composeScene } from "@/layout/compose";
import { buildHierarchy } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import { BOX_FOLD, BOX_SCOPE } from "@/layout/types";
import { Tween } from "@/render/camera/tween";
import { foldColour, heatMost, nodeColour, stripOf } from "@/render/draw/box_style";
import type { Drawing } from "@/render/draw/draw";
import { drawBoxes } from "@/render/draw/draw_boxes";
import { linkPoints, routeNear, savedWords } from "@/render/draw/draw_edges";
import { drawScopeLabels, placeScopeLabels } from "@/render/draw/draw_far_labels";
import { liveState } from "@/render/draw/execution_overlay";
import { literalPalette, quietInk, sequential, tinted } from "@/render/draw/palette";
import type { Painter } from "@/render/paint/painter";
import { SceneModel } from "@/render/scene/model";
import type { ColourBy, GraphNode } from "@/render/scene/types";
import { NO_AMOUNTS } from "@/render/scene/types";
import { node } from "@/render/testing";

const PALETTE = literalPalette("dark");

function modelOf(nodes: readonly GraphNode[], open: "all" | ReadonlySet<string>): SceneModel {
  const values = nodes.map(({ id }) => ({ id: 100 + id, shape: [3], dtype: "f4", bytes: 12 * id }));
  const hierarchy = buildHierarchy(nodes, new Map(values.map((value) => [value.id, value])));
  return new SceneModel(hierarchy, composeScene(new NestedLayout(hierarchy), open, 1));
}

function drawingOf(model: SceneModel, zoom: number, colourBy: ColourBy): Drawing {
  const { left, top, right, bottom } = model.scene;
  const states = {
    times: Uint32Array.of(0, 1, 1, 1, 1),
    step: Uint32Array.of(0, 1, 1, 1, 1),
    durationNs: Float64Array.of(0, 10, 400, 600, 5),
    flags: Uint8Array.of(0, 0, 1, 0, 0),
  };
  const live = liveState(model.hierarchy, states, 1);
  return {
    painter: undefined as never,
    palette: PALETTE,
    model,
    live,
    heatMost: heatMost(model, live, colourBy),
    view: { x: left - 9, y: top - 9, width: right - left + 18, height: bottom - top + 18 },
    zoom,
    colourBy,
    tints: new Map(),
    amounts: NO_AMOUNTS,
    matches: undefined,
    changes: undefined,
    path: undefined,
    current: -1,
    selected: -1,
    raised: -1,
    labels: [],
  };
}

const NODES = [
  node(1),
  node(2, { scope: "s", inputs: [101] }),
  node(3, { scope: "s/inner", inputs: [102] }),
  node(4, { inputs: [103] }),
];

describe("colour by an amount", () => {
  it.each([
    ["time", 1000],
    ["memory", 60],
  ] as const)("a folded scope has the sum of its nodes: %s", (mode, sum) => {
    const model = modelOf(NODES, new Set());
    const drawing = drawingOf(model, 1, mode);
    const group = model.hierarchy.groupAt.get("s")!;
    expect(drawing.heatMost).toBe(sum);
    expect(foldColour(drawing, group)).toBe(sequential(PALETTE, 1));
    expect(stripOf(drawing, group)).toEqual([[sequential(PALETTE, 1), 1]]);
    expect(nodeColour(drawing, 0)).not.toBe(sequential(PALETTE, 1));
  });

  it("the nodes of an open scope set the scale, not the scope", () => {
    expect(drawingOf(modelOf(NODES, "all"), 1, "time").heatMost).toBe(600);
  });

  it("a folded scope with a NaN in it is not drawn as finite", () => {
    const model = modelOf(NODES, new Set());
    const drawing = drawingOf(model, 1, "finite");
    expect(foldColour(drawing, model.hierarchy.groupAt.get("s")!)).toBe(PALETTE.nan);
  });
});

describe("names of scopes from far away", () => {
  const nodes = Array.from({ length: 40 }, (_, k) =>
    node(k + 1, { scope: `block_${k >> 2}/part_${k & 1}`, inputs: k > 0 ? [100 + k] : [] }),
  );

  it.each([0.4, 0.2, 0.05, 0.02])("the outermost have names that never overlap at %s", (zoom) => {
    const model = modelOf(nodes, "all");
    const drawing = drawingOf(model, zoom, "family");
    const boxes = model.boxesIn(drawing.view);
    const labels = placeScopeLabels(drawing, boxes);
    expect(labels.length).toBeGreaterThan(0);
    expect(labels[0]!.text).toMatch(/^block_/);
    // As large on the screen as in nearby boxes.
    expect(labels[0]!.rect.height * zoom).toBeGreaterThanOrEqual(12);
    labels.forEach((label, k) => {
      for (const other of labels.slice(k + 1)) expect(overlaps(label.rect, other.rect)).toBe(false);
    });
  });

  it.each([0.3, 0.2, 0.1])("never cover the current or the selected node at %s", (zoom) => {
    const model = modelOf(nodes, "all");
    const [current, selected] = [model.nodeBox[0]!, model.nodeBox[13]!];
    const drawing = { ...drawingOf(model, zoom, "family"), current, selected };
    const labels = placeScopeLabels(drawing, model.boxesIn(drawing.view));
    expect(labels.length).toBeGreaterThan(0);
    for (const { rect } of labels) {
      expect(overlaps(rect, model.rect(current))).toBe(false);
      expect(overlaps(rect, model.rect(selected))).toBe(false);
    }
  });

  it("have an opaque background, even if they are wider than their scope", () => {
    const model = modelOf([node(1, { scope: "a_scope_with_a_long_name" })], "all");
    const drawing = drawingOf(model, 0.1, "family");
    const boxes = model.boxesIn(drawing.view);
    const [label] = placeScopeLabels(drawing, boxes);
    const own = model.rect(label!.box);
    expect(label!.rect.x + label!.rect.width).toBeGreaterThan(own.x + own.width);
    const calls: string[] = [];
    const painter = {
      alpha: (now: number) => calls.push(`alpha ${now}`),
      rect: () => calls.push("rect"),
      text: () => calls.push("text"),
    } as unknown as Painter;
    drawScopeLabels({ ...drawing, painter }, boxes);
    expect(calls).toEqual(["rect", "text"]);
  });

  it.each([0.41, 0.38, 0.35])("cover no name in a box at %s", (zoom) => {
    const model = modelOf(nodes, "all");
    const drawing = drawingOf(model, zoom, "family");
    const labels = placeScopeLabels(drawing, model.boxesIn(drawing.view));
    expect(labels.length).toBeGreaterThan(0);
    for (const { rect } of labels) {
      const below = model.boxesIn(rect).filter((box) => model.scene.kind[box] !== BOX_SCOPE);
      expect(below).toEqual([]);
    }
  });

  it.each([0.4, 0.24, 0.19])("stay in scopes that the view cuts at %s", (zoom) => {
    const model = modelOf(nodes, "all");
    const whole = drawingOf(model, zoom, "family");
    let seen = 0;
    for (let x = 0; x < whole.view.width; x += 30) {
      const view = { ...whole.view, x: whole.view.x + x };
      for (const { box, rect } of placeScopeLabels({ ...whole, view }, model.boxesIn(view))) {
        if (model.scene.parent[box]! < 0) continue;
        const own = model.rect(box);
        expect(rect.x + rect.width).toBeLessThanOrEqual(own.x + own.width);
        seen++;
      }
    }
    expect(seen).toBeGreaterThan(0);
  });

  it("are beside the boxes in their scopes if there is room, though these have no names", () => {
    const wide = Array.from({ length: 9 }, (_, k) =>
      node(k + 1, { scope: "s", inputs: k > 0 ? [101] : [] }),
    );
    const model = modelOf(wide, "all");
    const drawing = drawingOf(model, 0.2, "family");
    const [label] = placeScopeLabels(drawing, model.boxesIn(drawing.view));
    expect(label?.text).toBe("s");
    const below = model.boxesIn(label!.rect).filter((box) => model.scene.kind[box] !== BOX_SCOPE);
    expect(below).toEqual([]);
  });

  it("near by, the headers are enough", () => {
    const model = modelOf(nodes, "all");
    const drawing = drawingOf(model, 0.8, "family");
    expect(placeScopeLabels(drawing, model.boxesIn(drawing.view))).toEqual([]);
  });

  it("a folded scope has its name, too", () => {
    const model = modelOf(nodes, new Set());
    const drawing = drawingOf(model, 0.2, "family");
    const labels = placeScopeLabels(drawing, model.boxesIn(drawing.view));
    expect(model.scene.kind[labels[0]!.box]).toBe(BOX_FOLD);
  });
});

describe("names at middle distance", () => {
  it.each([0.65, 0.46, 0.36])("keep clear of the family bar at %s", (zoom) => {
    const model = modelOf(NODES, "all");
    const texts: number[] = [];
    const bars: number[] = [];
    const painter = new Proxy({} as Painter, {
      get: (_, name) => (x: number, _y: number, wide: unknown) => {
        if (name === "text") texts.push(x);
        if (name === "rect" && typeof wide === "number" && wide < 3) bars.push(x + wide);
      },
    });
    drawBoxes({ ...drawingOf(model, zoom, "family"), painter }, [model.nodeBox[0]!]);
    expect([texts.length, bars.length]).toEqual([1, 1]);
    expect((texts[0]! - bars[0]!) * zoom).toBeGreaterThanOrEqual(2.2);
  });
});

describe("the word `saved` at its line", () => {
  const model = modelOf(NODES, "all");
  const box = model.rect(model.nodeBox[0]!);

  it("covers no box and no other words", () => {
    const lane = box.y + box.height + 6;
    const [start, end] = [box.x - 10, box.x + box.width + 200];
    const free = savedWords(model, start, end, lane, [])!;
    expect(free.x + free.width).toBeLessThanOrEqual(end);
    const other = savedWords(model, start, end, lane, [free])!;
    expect(overlaps(free, other)).toBe(false);
    for (let y = box.y - 30; y < box.y + 60; y += 3) {
      const words = savedWords(model, box.x, box.x + box.width + 4, y, []);
      if (words === undefined) continue;
      const below = model.boxesIn(words).filter((box) => model.scene.kind[box] !== BOX_SCOPE);
      expect(below).toEqual([]);
    }
  });

  it("is left out if there is no room", () => {
    const middle = box.y + box.height / 2;
    expect(savedWords(model, box.x, box.x + box.width, middle, [])).toBeUndefined();
  });
});

describe("a link between columns", () => {
  const touches = (points: readonly number[], rect: ReturnType<SceneModel["rect"]>, k: number) => {
    const [x, y] = [points[k]!, points[k + 1]!];
    return x >= rect.x && x <= rect.x + rect.width && y >= rect.y && y <= rect.y + rect.height;
  };

  it.each([
    ["above and to the right", { x: 700, y: 0, width: 300, height: 200 }],
    ["right above", { x: 380, y: 0, width: 120, height: 24 }],
    ["beside", { x: 700, y: 900, width: 300, height: 400 }],
    ["above and to the left", { x: 0, y: 0, width: 100, height: 24 }],
  ])("begins and ends at its boxes: %s", (_, to) => {
    const from = { x: 400, y: 1000, width: 160, height: 24 };
    const points = linkPoints(from, to, false);
    expect(touches(points, from, 0)).toBe(true);
    expect(touches(points, to, points.length - 2)).toBe(true);
  });

  it("goes up and down beside the column of its end, not within it", () => {
    const from = { x: 400, y: 100, width: 160, height: 24 };
    const to = { x: 900, y: 500, width: 120, height: 24 };
    const points = linkPoints(from, to, true, { x: 700, y: 0, width: 400, height: 600 });
    for (let k = 0; k + 3 < points.length; k += 2) {
      if (points[k + 1] !== points[k + 3]) expect(points[k]).toBeLessThan(700);
    }
  });
});

describe("in the transition from one scene to the next", () => {
  it("edges stay at their boxes", () => {
    const before = modelOf(NODES.slice(0, 3), "all");
    const after = modelOf(NODES, "all");
    const tween = Tween.start(after, before, 0, { x: 0, y: 0, zoom: 1 }, { x: 0, y: 0, zoom: 1 })!;
    const frame = tween.frame(60);
    const edges = frame.edgesIn({ x: -1e6, y: -1e6, width: 2e6, height: 2e6 });
    expect(edges.length).toBe(after.scene.edges);
    const { scene } = frame;
    for (const edge of edges) {
      const source = frame.rect(scene.source[edge]!);
      const x = scene.points[2 * scene.start[edge]!]!;
      expect(x).toBeGreaterThanOrEqual(source.x);
      expect(x).toBeLessThanOrEqual(source.x + source.width);
    }
  });
});

/** Contrast of two colours, by WCAG 2. */
function contrast(a: string, b: string): number {
  const light = (colour: string): number =>
    [1, 3, 5]
      .map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
      .reduce((sum, part, i) => sum + part * ([0.2126, 0.7152, 0.0722][i] ?? 0), 0);
  const [low = 0, high = 0] = [light(a), light(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

describe("ink on tinted boxes", () => {
  it.each(["dark", "light"] as const)("can be read in the %s theme", (theme) => {
    const palette = literalPalette(theme);
    const tints = [
      ...Object.entries(palette).flatMap(([name, hex]) => (name.startsWith("fate-") ? [hex] : [])),
      ...[0, 0.25, 0.5, 0.75, 1].map((t) => sequential(palette, t)),
    ];
    expect(tints.length).toBeGreaterThan(8);
    for (const tint of tints) {
      const ground = tinted(palette["bg-raised"], tint);
      expect(contrast(quietInk(palette, true), ground), tint).toBeGreaterThanOrEqual(4.5);
    }
    expect(contrast(quietInk(palette, false), palette["bg-raised"])).toBeGreaterThanOrEqual(4.5);
  });
});

describe("a route that leads far out of view", () => {
  const view = { x: 1000, y: 1000, width: 800, height: 500 };
  const route = (...points: number[]) => ({
    points,
    start: 0,
    end: points.length / 2,
    straightFirst: true,
  });

  it("is stroked near the view only", () => {
    const far = routeNear(route(1200, 900, 1200, 1100, 300_000, 1300, 300_000, 1400), view);
    for (let at = far.start; at < far.end; at++) {
      expect(Math.abs(far.points[2 * at]!)).toBeLessThan(6000);
    }
    // Points in view stay where they are.
    expect([...Array.from(far.points)].slice(0, 4)).toEqual([1200, 900, 1200, 1100]);
  });

  it("does not move while the view moves a little, so that dashes do not crawl", () => {
    const long = route(1200, -80_000, 1200, 90_000);
    const moved = routeNear(long, { ...view, x: 1003, y: 1004 });
    expect(moved.points).toEqual(routeNear(long, view).points);
  });

  it("is left as it is when it is near", () => {
    const near = route(1200, 900, 1200, 1100);
    expect(routeNear(near, view)).toBe(near);
  });
});
