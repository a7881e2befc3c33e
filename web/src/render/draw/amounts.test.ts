import { describe, expect, test } from "vitest";
import { buildHierarchy } from "@/layout/hierarchy";
import { amountColour, groupAmounts } from "@/render/draw/amounts";
import { literalPalette, sequential } from "@/render/draw/palette";
import type { Amounts, GraphNode } from "@/render/scene/types";

const PALETTE = literalPalette("dark");

function node(id: number, scope: string): GraphNode {
  return {
    id,
    name: `${scope}/${id}`,
    label: String(id),
    op: "exp",
    family: "elementwise",
    scope,
    phase: "forward",
    inputs: [],
    outputs: [],
    detail: "",
    forward: undefined,
  };
}

const HIERARCHY = buildHierarchy(
  [node(1, "a"), node(2, "a/b"), node(3, "a/b"), node(4, "c")],
  new Map(),
);

function amounts(change: Partial<Amounts>): Amounts {
  const values = new Map([
    [1, 1],
    [2, 3],
    [3, 4],
  ]);
  return { values, join: "largest", least: 0, most: 4, ...change };
}

function of(path: string, given: Amounts): number | undefined {
  const group = HIERARCHY.groups.findIndex((entry) => entry.path === path);
  return groupAmounts(HIERARCHY, given)[group];
}

describe("a folded scope has", () => {
  test("the largest of all numbers in it, at any depth", () => {
    expect([of("a/b", amounts({})), of("a", amounts({}))]).toEqual([4, 4]);
  });

  test("their mean, weighted", () => {
    const weights = new Map([
      [1, 6],
      [2, 1],
      [3, 1],
    ]);
    expect(of("a/b", amounts({ join: "mean" }))).toBe(3.5);
    expect(of("a", amounts({ join: "mean", weights }))).toBe((6 + 3 + 4) / 8);
  });

  test("their sum", () => {
    expect([of("a/b", amounts({ join: "sum" })), of("a", amounts({ join: "sum" }))]).toEqual([
      7, 8,
    ]);
  });

  test("their norm", () => {
    expect(of("a/b", amounts({ join: "norm" }))).toBe(5);
    expect(of("a", amounts({ join: "norm" }))).toBeCloseTo(Math.sqrt(26));
  });

  test("no number if nothing in it has one", () => {
    expect(of("c", amounts({}))).toBeNaN();
    const broken = new Map([[2, Number.NaN]]);
    expect(of("a", amounts({ values: broken }))).toBeNaN();
  });
});

describe("a number's colour", () => {
  test("is at its place between the ends of the scale", () => {
    expect(amountColour(PALETTE, amounts({}), 2)).toBe(sequential(PALETTE, 0.5));
    expect(amountColour(PALETTE, amounts({ least: 2, most: 2 }), 2)).toBe(sequential(PALETTE, 0));
  });

  test("is on a logarithmic scale of three decades without a lower end", () => {
    const scale = amounts({ least: undefined, most: 1 });
    expect(amountColour(PALETTE, scale, 0.1)).toBe(sequential(PALETTE, 2 / 3));
    expect(amountColour(PALETTE, scale, 0)).toBe(PALETTE["text-off"]);
  });

  test("may be given, and is `text-off` if there is no number", () => {
    const own = amounts({ colour: (value) => (value > 3 ? "#ff0000" : undefined) });
    expect(amountColour(PALETTE, own, 4)).toBe("#ff0000");
    expect(amountColour(PALETTE, own, 2)).toBe(sequential(PALETTE, 0.5));
    expect(amountColour(PALETTE, own, undefined)).toBe(PALETTE["text-off"]);
    expect(amountColour(PALETTE, own, Number.NaN)).toBe(PALETTE["text-off"]);
  });
});
