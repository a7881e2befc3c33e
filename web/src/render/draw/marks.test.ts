import { describe, expect, it } from "vitest";
import { type Font, textWidth } from "@/base/fonts_metrics";
import { grow, overlaps, type Rect } from "@/base/geometry";
import { composeScene } from "@/layout/compose";
import { buildHierarchy } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import { HEADER_HEIGHT } from "@/layout/sizes";
import type { Drawing, Marks } from "@/render/draw/draw";
import { placeLabels } from "@/render/draw/draw_edges";
import { raisedRect } from "@/render/draw/draw_marks";
import { liveState } from "@/render/draw/execution_overlay";
import { literalPalette } from "@/render/draw/palette";
import type { Painter } from "@/render/paint/painter";
import { drawOverlay, drawStill } from "@/render/paint/picture";
import { SceneModel } from "@/render/scene/model";
import { scenePath } from "@/render/scene/path";
import type { GraphNode } from "@/render/scene/types";
import { NO_AMOUNTS } from "@/render/scene/types";
import { node } from "@/render/testing";

type Call = readonly [name: string, ...args: unknown[]];

const PALETTE = literalPalette("dark");
const NODES = [
  node(1),
  node(2, { scope: "s", inputs: [101] }),
  node(3, { scope: "s", inputs: [102] }),
  node(4, { inputs: [103] }),
];

/** All painter calls, in order, while node 2 is selected and `onPath` has a place in a chain. */
function painted(nodes: readonly GraphNode[], stoppedAt: number | undefined, onPath = 2) {
  const calls: Call[] = [];
  const painter = new Proxy({} as Painter, {
    get:
      (_, name) =>
      (...args: unknown[]) =>
        calls.push([String(name), ...args]),
  });
  const values = nodes.map(({ id }) => ({ id: 100 + id, shape: [3], dtype: "f4", bytes: 12 }));
  const hierarchy = buildHierarchy(nodes, new Map(values.map((value) => [value.id, value])));
  const model = new SceneModel(hierarchy, composeScene(new NestedLayout(hierarchy), "all", 1));
  const { left, top, right, bottom } = model.scene;
  const path = { nodes: new Map([[onPath, "12"]]), culprit: 0, edges: [], tone: "nan" as const };
  const drawing: Drawing = {
    painter,
    palette: PALETTE,
    model,
    live: liveState(hierarchy, undefined, 0),
    view: { x: left - 9, y: top - 9, width: right - left + 18, height: bottom - top + 18 },
    zoom: 1,
    colourBy: "family",
    tints: new Map(),
    amounts: NO_AMOUNTS,
    heatMost: 0,
    matches: undefined,
    changes: undefined,
    path: scenePath(model, path),
    current: stoppedAt === undefined ? -1 : model.nodeBox[stoppedAt - 1]!,
    selected: model.nodeBox[1]!,
    raised: stoppedAt === undefined ? -1 : model.nodeBox[stoppedAt - 1]!,
    labels: placeLabels(model),
  };
  const marks: Marks = {
    current: stoppedAt === undefined ? undefined : { node: stoppedAt, when: "after", live: true },
    badge:
      stoppedAt === undefined
        ? undefined
        : { node: stoppedAt, histogram: [1, 2], nanCount: 0, infCount: 0, text: "" },
    breakpoints: new Map(),
    watchMarks: new Map(),
    selection: { kind: "node", id: 2 },
    hover: undefined,
    linked: new Set(),
    gutter: undefined,
    edge: undefined,
  };
  drawStill(drawing);
  drawOverlay(drawing, marks);
  const raised = stoppedAt === undefined ? undefined : raisedRect(drawing, marks, drawing.raised);
  const parent = model.scene.parent[drawing.raised] ?? -1;
  return { calls, raised, scope: parent < 0 ? undefined : model.rect(parent) };
}

const BESIDE = [node(1, { scope: "s" }), node(2, { scope: "s" })];

/** The right one of two nodes side by side. */
function rightOf(nodes: readonly GraphNode[]): number {
  const [x1, x2] = [1, 2].map((id) => painted(nodes, id).raised!.x);
  return x1! > x2! ? 1 : 2;
}

/** The index and rectangle of the last text `words`. */
function wordsAt(calls: readonly Call[], words: string): { at: number; rect: Rect } {
  const at = calls.findLastIndex((call) => call[0] === "text" && call[3] === words);
  const [, x, y, , font, , align] = calls[at] as [
    string,
    number,
    number,
    string,
    Font,
    ...string[],
  ];
  const width = textWidth(words, font);
  const rect = { x: align === "right" ? x - width : x, y: y - 8, width, height: 10 };
  return { at, rect };
}

describe("marks and the header of the scope around", () => {
  it.each([false, true])("the place in a chain touches no op count (raised: %s)", (raised) => {
    const right = rightOf(BESIDE);
    const { calls } = painted(BESIDE, raised ? right : undefined, right);
    const sign = wordsAt(calls, "12");
    const [name, x, y, width, height] = calls[sign.at - 1] as [string, ...number[]];
    expect(name).toBe("rect");
    const rect = { x: x!, y: y!, width: width!, height: height! };
    expect(overlaps(rect, grow(wordsAt(calls, "2 ops").rect, 1))).toBe(false);
  });

  it("the current node has no selection ring beside its own ring", () => {
    const rings = ({ calls }: ReturnType<typeof painted>) =>
      calls.filter(
        ([name, ...args]) =>
          name === "rect" && (args[6] as { colour: string } | undefined)?.colour === PALETTE.select,
      );
    expect(rings(painted(NODES, 2))).toEqual([]);
    expect(rings(painted(NODES, 3))).toHaveLength(1);
    expect(rings(painted(NODES, undefined))).toHaveLength(1);
  });

  it("the edges of the selected node pass below the header", () => {
    const { calls } = painted(NODES, undefined);
    const flow = calls.findLastIndex(
      ([name, , pen]) => name === "route" && (pen as { colour: string }).colour === PALETTE.select,
    );
    expect(flow).toBeGreaterThan(0);
    expect(wordsAt(calls, "2 ops").at).toBeGreaterThan(flow);
  });

  it("the current node grows inside its scope, and touches no op count", () => {
    const { calls, raised, scope } = painted(BESIDE, rightOf(BESIDE));
    const { rect } = wordsAt(calls, "2 ops");
    expect(overlaps(grow(raised!, 5), rect)).toBe(false);
    expect(raised!.y).toBeGreaterThanOrEqual(scope!.y + HEADER_HEIGHT);
    expect(raised!.y + raised!.height).toBeLessThanOrEqual(scope!.y + scope!.height - 5);
  });
});
