import { describe, expect, it } from "vitest";
import { renderSvg } from "@/render/paint/export_entry";
import { node } from "@/render/testing";

/** A flat program: the same four operations again and again. */
const OPS = ["matmul", "add", "tanh", "multiply"];
const NODES = Array.from({ length: 400 }, (_, at) => {
  const op = OPS[at % 4]!;
  return node(at + 1, { op, label: op, inputs: at > 0 ? [100 + at] : [] });
});

function drawn(open: "all" | readonly string[], levels: number | null, nodes = NODES): string[] {
  const svg = renderSvg(JSON.stringify({ nodes, values: [], open, levels, theme: "light" }));
  return [...svg.matchAll(/<text[^>]*>([^<]*)</g)].map(([, text]) => text!);
}

describe("a picture without a page", () => {
  it("of a long program without scopes has the page's sections, folded", () => {
    const texts = drawn([], null);
    expect(texts.length).toBeLessThan(20);
    expect(texts.some((text) => text.includes("‹"))).toBe(true);
    expect(texts.some((text) => text.startsWith("×"))).toBe(true);
  });

  it("opens them as scopes: all, or down to a level", () => {
    for (const texts of [drawn("all", null), drawn([], 2)]) {
      expect(texts.filter((text) => text === "tanh")).toHaveLength(100);
    }
  });

  it("of a short program has none", () => {
    expect(drawn([], null, NODES.slice(0, 40)).filter((text) => text === "tanh")).toHaveLength(10);
  });
});
