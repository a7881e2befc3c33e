import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { FAMILIES } from "@/base/families";
import { type Font, textWidth, truncate, truncateMiddle } from "@/base/fonts_metrics";
import { printable } from "@/base/printable";
import { composeScene } from "@/layout/compose";
import { buildHierarchy } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import {
  centred,
  fitted,
  fittedWhole,
  READABLE_ZOOM,
  revealing,
  seen,
  toScreen,
  toWorld,
  zoomAt,
} from "@/render/camera/camera";
import { cameraFor, sceneBounds, steadyPoint } from "@/render/camera/camera_follow";
import { TOKENS } from "@/render/draw/design_tokens";
import { edgeWords } from "@/render/draw/draw_edges";
import { heat, liveState } from "@/render/draw/execution_overlay";
import { formatBytes, formatCount, formatTime } from "@/render/draw/format";
import { literalPalette, mix } from "@/render/draw/palette";
import { renderSvg } from "@/render/paint/export_entry";
import { sceneChanges } from "@/render/scene/changes";
import { edgeAt, hitTest, neighbourOf, pointedAt } from "@/render/scene/hit";
import { SceneModel } from "@/render/scene/model";
import { pathKey, scenePath } from "@/render/scene/path";
import type { GraphNode, GraphValue } from "@/render/scene/types";
import { node } from "@/render/testing";
import { plainLook, svgOf } from "@/render/view/view_options";

const FONT: Font = { face: "sans", weight: 500, size: 12 };

const VALUES: readonly GraphValue[] = [1, 2, 3, 4].map((id) => ({
  id: 100 + id,
  shape: [32, 10],
  dtype: "float32",
  bytes: 1280,
}));

function model(nodes: readonly GraphNode[], open: "all" | ReadonlySet<string>): SceneModel {
  const hierarchy = buildHierarchy(nodes, new Map(VALUES.map((value) => [value.id, value])));
  return new SceneModel(hierarchy, composeScene(new NestedLayout(hierarchy), open, 1));
}

const CHAIN = [
  node(1),
  node(2, { scope: "s", inputs: [101] }),
  node(3, { scope: "s", inputs: [102] }),
  node(4, { inputs: [103] }),
];

describe("text", () => {
  it("is cut with an ellipsis so that it fits", () => {
    for (const room of [5, 12, 30, 60, 119]) {
      const cut = truncate("a rather long name of a node", FONT, room);
      expect(textWidth(cut, FONT)).toBeLessThanOrEqual(room);
      if (cut !== "") expect(cut.endsWith("…")).toBe(true);
    }
    expect(truncate("short", FONT, 100)).toBe("short");
    expect(truncate("x", FONT, 0)).toBe("");
  });

  it("keeps the end when cut in the middle, and never half a character", () => {
    const cut = truncateMiddle("broadcast_to_broadcast_to_17", FONT, 90);
    expect(cut.endsWith("o_17")).toBe(true);
    expect(textWidth(cut, FONT)).toBeLessThanOrEqual(90);
    const faces = truncateMiddle("😀".repeat(60), FONT, 80);
    expect(faces).not.toMatch(/^[\udc00-\udfff]|[\ud800-\udbff]$/);
  });

  it("of any length is cut to what fits", () => {
    const long = "W".repeat(5_000_000);
    expect(truncate(long, FONT, 100).length).toBeLessThan(20);
  });

  it("cannot reverse its neighbours or contain control characters", () => {
    expect(printable("a\u202eb\u0000c\ud800")).toBe("a�b�c�");
  });
});

describe("numbers", () => {
  it.each([
    [0, "0 ns"],
    [12, "12.0 ns"],
    [1840, "1.84 µs"],
    [999_900, "1.00 ms"],
    [41_300_000, "41.3 ms"],
    [2e9, "2.00 s"],
  ])("writes %d ns as %s", (ns, text) => expect(formatTime(ns)).toBe(text));

  it("writes bytes and counts with units", () => {
    expect(formatBytes(128)).toBe("128 B");
    expect(formatBytes(2 ** 21)).toBe("2.0 MiB");
    expect(formatBytes(1_048_570)).toBe("1.0 MiB");
    expect(formatCount(1, "op")).toBe("1 op");
    expect(formatCount(12345, "op")).toBe("12,345 ops");
  });
});

describe("camera", () => {
  const view = { width: 800, height: 600 };

  it("keeps the selected or current item in place when zoomed by key", () => {
    const at = (x: number, y: number) => ({ x, y, width: 20, height: 10 });
    expect(steadyPoint([at(700, 90), at(0, 0)], view)).toEqual({ x: 710, y: 95 });
    expect(steadyPoint([at(-30, 90), at(0, 0)], view)).toEqual({ x: 10, y: 5 });
    expect(steadyPoint([undefined, at(0, 596)], view)).toEqual({ x: 400, y: 300 });
  });

  it("keeps the point under the pointer while zooming", () => {
    const before = { x: 13, y: -40, zoom: 0.7 };
    const anchor = { x: 321, y: 200 };
    const world = toWorld(before, anchor);
    const back = toScreen(zoomAt(before, anchor, 1.9), world);
    expect(back.x).toBeCloseTo(anchor.x);
    expect(back.y).toBeCloseTo(anchor.y);
  });

  it("fits a graph whole, or readably around the focus", () => {
    expect(fitted({ x: 0, y: 0, width: 750, height: 300 }, undefined, view).zoom).toBe(1);
    const focus = { x: 480, y: 60_000, width: 120, height: 36 };
    const tall = fitted({ x: 0, y: 0, width: 1000, height: 100_000 }, focus, view);
    expect(tall.zoom).toBeGreaterThanOrEqual(READABLE_ZOOM);
    const sight = seen(tall, view);
    expect(focus.y).toBeGreaterThan(sight.y);
    expect(focus.y + focus.height).toBeLessThan(sight.y + sight.height);
  });

  it("enlarges a small graph, but not beyond what looks like one", () => {
    expect(fitted({ x: 0, y: 0, width: 608, height: 300 }, undefined, view).zoom).toBe(1.25);
    expect(fitted({ x: 0, y: 0, width: 90, height: 24 }, undefined, view).zoom).toBe(1.5);
    expect(fitted({ x: 0, y: 0, width: 0, height: 0 }, undefined, view).zoom).toBe(1);
  });

  it("does not enlarge a graph again while it grows", () => {
    const [fewer, more] = [CHAIN.slice(0, 2), CHAIN].map((nodes) => model(nodes, "all"));
    const choice = { toggled: undefined, touched: false, whole: false, focus: undefined };
    const large = { width: 3000, height: 2000 };
    const first = cameraFor({ x: 0, y: 0, zoom: 1 }, undefined, fewer!, large, choice);
    expect(first.zoom).toBe(1.5);
    const away = { x: -5000, y: 0, zoom: 0.9 };
    expect(cameraFor(away, fewer, more!, large, choice).zoom).toBe(1);
  });

  it("fits a picture again after it has become much smaller, but not after a small change", () => {
    const [fewer, more] = [CHAIN.slice(0, 2), CHAIN].map((nodes) => model(nodes, "all"));
    const choice = { toggled: undefined, touched: false, whole: false, focus: undefined };
    const whole = cameraFor({ x: 0, y: 0, zoom: 1 }, undefined, more!, view, choice);
    const at = (share: number) => {
      const { zoom } = whole;
      const bounds = sceneBounds(more!);
      const middle = { x: bounds.x + bounds.width / 2, y: bounds.y + bounds.height / 2 };
      return centred(middle, zoom * share, view);
    };
    const next = (share: number) => cameraFor(at(share), fewer, more!, view, choice).zoom;
    expect(next(0.5)).toBe(Math.min(whole.zoom, 1));
    expect(next(0.9)).toBe(at(0.9).zoom);
    const moved = cameraFor(at(0.5), fewer, more!, view, { ...choice, touched: true });
    expect(moved.zoom).toBe(at(0.5).zoom);
  });

  it("shows all of a graph on demand, however small that makes it", () => {
    for (const bounds of [
      { x: -50, y: 0, width: 36_000, height: 900 },
      { x: 0, y: 20, width: 1000, height: 100_000 },
    ]) {
      const sight = seen(fittedWhole(bounds, view), view);
      expect(sight.x).toBeLessThan(bounds.x);
      expect(sight.y).toBeLessThan(bounds.y);
      expect(sight.x + sight.width).toBeGreaterThan(bounds.x + bounds.width);
      expect(sight.y + sight.height).toBeGreaterThan(bounds.y + bounds.height);
    }
  });

  it("moves no further than needed to reveal", () => {
    const camera = { x: 0, y: 0, zoom: 1 };
    const rect = { x: 300, y: 300, width: 100, height: 36 };
    expect(revealing(camera, rect, view)).toEqual(camera);
    const moved = revealing(camera, { ...rect, y: 900 }, view);
    expect(moved.x).toBe(0);
    expect(moved.y + 600).toBeGreaterThan(936);
    expect(moved.y + 600).toBeLessThan(936 + 100);
  });
});

describe("hits", () => {
  const shown = model(CHAIN, new Set(["s"]));
  const at = (box: number, dx: number, dy: number): { x: number; y: number } => ({
    x: shown.scene.x[box]! + dx,
    y: shown.scene.y[box]! + dy,
  });

  it("find nodes, and their gutter on both sides of the edge", () => {
    const box = shown.nodeBox[1]!;
    expect(hitTest(shown, at(box, 40, 10))).toMatchObject({
      item: { kind: "node", id: 2 },
      gutter: false,
    });
    expect(hitTest(shown, at(box, 6, 10))?.gutter).toBe(true);
    expect(hitTest(shown, at(box, -8, 10))).toMatchObject({ box, gutter: true });
    expect(hitTest(shown, { x: -500, y: -500 })).toBeUndefined();
  });

  it("find a scope by its header, and tell its chevron apart", () => {
    const box = shown.groupBox[shown.hierarchy.groupAt.get("s")!]!;
    expect(hitTest(shown, at(box, 8, 10))).toMatchObject({
      item: { kind: "scope", path: "s" },
      chevron: true,
    });
    expect(hitTest(shown, at(box, 60, 10))?.chevron).toBe(false);
    expect(hitTest(shown, at(box, 4, 60))).toBeUndefined();
  });

  it("map a hidden node to the folded scope that hides it", () => {
    const folded = model(CHAIN, new Set());
    expect(folded.itemOf(folded.visibleBox(2))).toEqual({ kind: "scope", path: "s" });
    expect(folded.ownBox({ kind: "node", id: 3 })).toBe(-1);
  });

  it("follow edges through the borders of scopes with the arrow keys", () => {
    expect(neighbourOf(shown, shown.nodeBox[0]!, "down")).toBe(shown.nodeBox[1]);
    expect(neighbourOf(shown, shown.nodeBox[1]!, "down")).toBe(shown.nodeBox[2]);
    expect(neighbourOf(shown, shown.nodeBox[3]!, "up")).toBe(shown.nodeBox[2]);
    expect(neighbourOf(shown, shown.nodeBox[0]!, "up")).toBe(-1);
  });
});

describe("live state", () => {
  const { hierarchy } = model(CHAIN, "all");

  it("counts a node that last ran in an earlier step as not yet run", () => {
    const live = liveState(
      hierarchy,
      {
        times: Uint32Array.of(0, 1, 3, 3, 0),
        step: Uint32Array.of(0, 7, 7, 6, 0),
        durationNs: Float64Array.of(0, 10, 20, 40, 0),
        flags: Uint8Array.of(0, 0, 1, 2, 0),
      },
      7,
    );
    expect([...live.done]).toEqual([1, 1, 0, 0]);
    const group = hierarchy.groupAt.get("s")!;
    expect(live.groupNs[group]).toBe(60);
    expect(live.groupFlags[group]).toBe(1);
    expect(live.groupNs[0]).toBe(70);
    expect(live.sharesOf(group)[FAMILIES.indexOf("elementwise")]).toBe(1);
    expect(heat(50, 50)).toBe(1);
    expect(heat(0, 50)).toBeUndefined();
  });

  it("accepts columns shorter than the graph: nodes that they lack have not run", () => {
    const none = new Uint32Array(0);
    const live = liveState(
      hierarchy,
      {
        times: none,
        step: none,
        durationNs: new Float64Array(0),
        flags: new Uint8Array(0),
      },
      1,
    );
    expect([...live.done]).toEqual([0, 0, 0, 0]);
    expect(live.groupNs[0]).toBe(0);
  });
});

describe("the SVG", () => {
  const hostile = [
    "<img src=x onerror=alert(1)>",
    "\"' onload='x' &amp; ]]>",
    "\u202egpj.exe",
    "\u0000\u0007",
    "</text><script>alert(1)</script>",
    "x".repeat(100_000),
    "中文 ☃ 😀",
    "\ud800",
  ];
  const nodes = hostile.map((text, k) =>
    node(k + 1, {
      name: `${k}`,
      label: text,
      detail: text,
      scope: k % 2 === 0 ? text.replaceAll("/", "|") : "",
      inputs: k > 0 ? [100 + k] : [],
    }),
  );

  it.each(["light", "dark"])("is well-formed and inert whatever names hold (%s)", (theme) => {
    for (const open of ["all", []]) {
      const title = hostile[0];
      const svg = renderSvg(JSON.stringify({ nodes, values: VALUES, open, theme, title }));
      const document = new DOMParser().parseFromString(svg, "image/svg+xml");
      expect(document.querySelector("parsererror")).toBeNull();
      expect(document.documentElement.localName).toBe("svg");
      expect(document.querySelector("script, foreignObject, image, a, use, img")).toBeNull();
      expect(document.querySelector("title")?.textContent).toBe(hostile[0]);
      for (const element of document.querySelectorAll("*")) {
        for (const { name } of element.attributes) expect(name).not.toMatch(/^on|href/i);
      }
      expect(svg).not.toMatch(/\u202e|NaN|undefined/);
      expect(svg.length).toBeLessThan(200_000);
    }
  });

  it("shows what is open, and folds the rest", () => {
    const draw = (open: "all" | string[]): string =>
      renderSvg(
        JSON.stringify({
          nodes: CHAIN,
          values: VALUES,
          open,
          theme: "light",
          title: "t",
        }),
      );
    expect(draw("all")).toContain(">add_3<");
    // A box has an id and, as its tooltip, its full name.
    expect(draw("all")).toMatch(/<g id="node-3"><title>[^<]*add_3<\/title>/);
    expect(draw([])).toMatch(/<g id="scope-\d+"><title>/);
    expect(draw([])).not.toContain(">add_3<");
    expect(draw([])).toContain(">s<");
    expect(draw("all")).toBe(draw("all"));
  });

  it("of nothing is an empty picture, and of nonsense an error that says what is wrong", () => {
    expect(renderSvg(JSON.stringify({ nodes: [], values: [], open: "all" }))).toContain("</svg>");
    expect(() => renderSvg("{}")).toThrow("`nodes` and `values` must be lists");
  });
});

describe("changes of a step", () => {
  // Node 4 read value 101 before and reads 103 now; node 3 is new in this step.
  const changes = {
    marks: new Map([
      [3, "new"],
      [4, "rewired"],
    ] as const),
    rewired: new Map([[4, { before: [101], after: [103] }]]),
  };

  it("mark boxes, edges, and former edges between boxes", () => {
    const open = model(CHAIN, "all");
    const sceneChange = sceneChanges(open, changes);
    const box = (id: number) => open.boxOf({ kind: "node", id });
    expect(sceneChange.boxes.get(box(3))).toEqual({ new: 1, rewired: 0, skipped: 0, whole: "new" });
    expect(sceneChange.boxes.get(box(4))?.whole).toBe("rewired");
    expect(sceneChange.boxes.has(box(2))).toBe(false);
    expect(sceneChange.ghosts).toEqual([[box(1), box(4)]]);
    expect(sceneChange.edges.length).toBeGreaterThan(0);
    expect(sceneChange.edges.every((edge) => open.scene.value[edge] === 103)).toBe(true);
  });

  it("are counted on a folded scope, which is not new as a whole", () => {
    const folded = model(CHAIN, new Set());
    const sceneChange = sceneChanges(folded, changes);
    expect(sceneChange.boxes.get(folded.boxOf({ kind: "scope", path: "s" }))).toEqual({
      new: 1,
      rewired: 0,
      skipped: 0,
      whole: undefined,
    });
  });
});

describe("a path", () => {
  const path = {
    nodes: new Map([
      [4, "1"],
      [3, "2"],
      [2, "3"],
    ]),
    culprit: 2,
    edges: [
      [3, 4],
      [2, 3],
    ] as const,
    tone: "nan" as const,
  };
  const ends = (scene: SceneModel, edge: number) => [
    scene.scene.producer[edge],
    scene.scene.target[edge],
  ];

  it("signs its boxes and follows its edges", () => {
    const open = model(CHAIN, "all");
    const shownPath = scenePath(open, path);
    expect(shownPath.boxes.get(open.nodeBox[1]!)).toMatchObject({ text: "3", culprit: true });
    expect(shownPath.boxes.get(open.nodeBox[3]!)).toMatchObject({ text: "1", culprit: false });
    expect(shownPath.boxes.has(open.nodeBox[0]!)).toBe(false);
    const producers = [...shownPath.edges.keys()].map((edge) => ends(open, edge)[0]);
    expect(new Set(producers)).toEqual(new Set([1, 2]));
  });

  it("has the same sign on the canvas as in the legend, in one colour", () => {
    const open = model(CHAIN, "all");
    const mixed = { ...path, tones: new Map([[2, "select" as const]]) };
    const shownPath = scenePath(open, mixed);
    const drawn = [...shownPath.boxes.values()].map(({ text, tone }) => `${text} ${tone}`);
    expect(pathKey(mixed)).toEqual([
      { sign: "1", tone: "nan", words: "asked about (NaN)" },
      { sign: "3", tone: "select", words: "finite" },
    ]);
    for (const row of pathKey(mixed)) expect(drawn).toContain(`${row.sign} ${row.tone}`);
    expect(pathKey({ ...path, tone: "select" })).toEqual([
      { sign: "1", tone: "select", words: "asked about (finite)" },
    ]);
  });

  it("is gathered at a folded scope", () => {
    const folded = model(CHAIN, new Set());
    const shownPath = scenePath(folded, path);
    const scope = folded.visibleBox(1);
    expect(shownPath.boxes.get(scope)).toEqual({ text: "2–3", culprit: true, tone: "nan" });
    expect([...shownPath.edges.keys()].map((edge) => ends(folded, edge))).toEqual([
      [2, folded.nodeBox[3]],
    ]);
    const equal = (sign: string) => new Map([2, 3].map((id) => [id, sign]));
    const signOf = (nodes: ReadonlyMap<number, string>) =>
      scenePath(folded, { ...path, nodes }).boxes.get(scope)?.text;
    expect(signOf(equal("≠"))).toBe("≠2");
    // Two nodes that are three steps away must not read as 32.
    expect(signOf(equal("3"))).toBe("3");
  });
});

describe("control edges", () => {
  it("are separate edges that carry nothing, unless a value passes anyway", () => {
    const ordered = [node(1), node(2, { control: [1] }), node(3, { inputs: [101], control: [1] })];
    const shown = model(ordered, "all");
    const words = Array.from({ length: shown.scene.edges }, (_, edge) => edgeWords(shown, edge));
    expect(words.map((label) => label.shape).sort()).toEqual(["(32, 10)", "runs before"]);
  });
});

describe("the palette", () => {
  it("holds exactly what the tokens' CSS says", () => {
    const css = readFileSync(resolve("src/app/styles/tokens.css"), "utf8");
    const [dark, light] = css.split(/:root\[data-theme="light"\]\s*\{/);
    const value = (text: string, token: string): string | undefined =>
      new RegExp(`--${token}:\\s*([^;]+);`).exec(text)?.[1]?.trim();
    for (const token of TOKENS) {
      expect(literalPalette("dark")[token]).toBe(value(dark!, token));
      expect(literalPalette("light")[token]).toBe(value(light!, token));
    }
  });

  it("mixes hex colours", () => {
    expect(mix("#000000", "#ffffff", 0.5)).toBe("#808080");
    expect(mix("#fff", "#000000ff", 1)).toBe("#000000");
    expect(mix("red", "#000000", 0.5)).toBe("red");
  });
});

describe("edges under the pointer", () => {
  const shown = model(CHAIN, "all");
  const edgeOf = (producer: number): number =>
    [...shown.scene.producer].indexOf(shown.hierarchy.indexOf.get(producer)!);
  const middle = (edge: number) => {
    const { start, points } = shown.scene;
    const [a, b] = [start[edge]!, start[edge + 1]! - 1];
    return {
      x: (points[2 * a]! + points[2 * b]!) / 2,
      y: (points[2 * a + 1]! + points[2 * b + 1]!) / 2,
    };
  };

  it("are found within a few px, and not from further away", () => {
    const edge = edgeOf(2);
    const { x, y } = middle(edge);
    expect(edgeAt(shown, { x: x + 3, y }, 5)).toBe(edge);
    expect(edgeAt(shown, { x: x + 40, y }, 5)).toBe(-1);
    // Zoomed out, a screen px covers more of the world.
    expect(pointedAt(shown, { x: x + 8, y }, 1).edge).toBeUndefined();
    expect(pointedAt(shown, { x: x + 8, y }, 0.5).edge?.edge).toBe(edge);
  });

  it("yield to the box above them", () => {
    const box = shown.nodeBox[shown.hierarchy.indexOf.get(2)!]!;
    const rect = shown.rect(box);
    const at = { x: rect.x + rect.width / 2, y: rect.y + rect.height - 2 };
    expect(pointedAt(shown, at, 1)).toMatchObject({
      hover: { kind: "node", id: 2 },
      edge: undefined,
    });
  });
});

describe("text in SVG", () => {
  it("states its measured width, so that another font does not cover its neighbours", () => {
    const svg = renderSvg(JSON.stringify({ nodes: CHAIN, values: VALUES, open: "all" }));
    const texts = svg.match(/<text [^>]*>/g) ?? [];
    expect(texts.length).toBeGreaterThan(4);
    for (const text of texts) {
      expect(text).toMatch(/ textLength="[\d.]+" lengthAdjust="spacingAndGlyphs"/);
    }
  });
});

describe("a picture that is exported", () => {
  const plain = { title: "", fonts: "" };
  const face =
    '@font-face{font-family:"Inter NS";font-weight:400 650;src:url(data:font/woff2;base64,AA==)}';

  it("has its own background and the given fonts, but no other style that it is given", () => {
    const fonts = `${face}</style><script>alert(1)</script>@import url(https://example.org)`;
    const svg = renderSvg(JSON.stringify({ nodes: CHAIN, values: VALUES, fonts }));
    expect(svg).toMatch(/<svg [^>]*background:#f6f7f8/);
    expect(svg).toContain(`<style>${face}.m{`);
    expect(svg).not.toMatch(/script|@import|example/);
  });

  it("has a caption below that is sized for the document and no wider than it", () => {
    const page = { title: `train.py, in step 3 after ${"loss/mean".repeat(40)}`, fonts: "" };
    const seenBy = { camera: { x: 10, y: 20, zoom: 0.5 }, view: { width: 400, height: 300 } };
    const look = plainLook(literalPalette("dark"));
    const svg = svgOf(look, model(CHAIN, "all"), [], page, seenBy);
    expect(svg).toContain('viewBox="10 20 800 652" width="400" height="326"');
    const caption = /<text x="34" y="654"[^>]*textLength="([\d.]+)"[^>]*>([^<]*)</.exec(svg);
    expect(caption?.[2]).toMatch(/^train\.py, in step 3 after loss\/mean.*…$/);
    expect(Number(caption?.[1])).toBeLessThanOrEqual(800 - 48);
  });

  it("of the screen has the screen's size, and is cut at its borders", () => {
    const seenBy = { camera: { x: 10, y: 20, zoom: 0.5 }, view: { width: 400, height: 300 } };
    const svg = svgOf(plainLook(literalPalette("dark")), model(CHAIN, "all"), [], plain, seenBy);
    expect(svg).toContain('viewBox="10 20 800 600" width="400" height="300"');
    expect(svg).toContain("background:#0e1114");
  });

  it("coloured by an amount says what its colours mean", () => {
    const look = { ...plainLook(literalPalette("dark")), colourBy: "memory" as const };
    const svg = svgOf(look, model(CHAIN, new Set()), [], plain);
    expect(svg).toContain("Memory of the outputs");
    expect(svg).toContain("2.5 KiB");
  });
});
