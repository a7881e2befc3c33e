import { describe, expect, test } from "vitest";
import {
  finiteRange,
  paintElements,
  parseHex,
  scaleFor,
  scaleOf,
  scaleTable,
} from "@/base/colour_scale";
import { elementCount, tensorBytes } from "@/base/dtypes";
import { breakable, dedented, pythonTokens } from "@/base/python_tokens";
import { ancestors, isWithin, leafName, parentScope } from "@/base/scopes";

describe("Python lines", () => {
  test.each([
    "    return e / e.sum(-1, keepdims=True)  # softmax",
    "x = f'{a}' + \"b # no comment\"",
    "s = 'not closed",
    "",
    '"""doc',
    "λ = 0.5e-3 * α_1(x)",
  ])("the joined pieces of %j equal it", (line) => {
    expect(
      pythonTokens(line)
        .map((token) => token.text)
        .join(""),
    ).toBe(line);
  });

  test("break where a reader would break them, and arrows stay whole", () => {
    expect(breakable("self.pool(nn.relu(x[0,1])))")).toEqual([
      "self.pool(",
      "nn.relu(",
      "x[",
      "0,",
      "1])))",
    ]);
    expect(breakable(") -> ns.Tensor:")).toEqual([") ", "->", " ns.Tensor:"]);
    expect(breakable("1.5")).toEqual(["1.5"]);
    for (const text of ["a->b.c(d)", "", "..."]) expect(breakable(text).join("")).toBe(text);
  });

  test("kinds", () => {
    const kinds = Object.fromEntries(
      pythonTokens("return np.exp(x, 1.5) # why").map((token) => [token.text, token.kind]),
    );
    expect(kinds).toMatchObject({
      return: "keyword",
      exp: "call",
      "1.5": "number",
      "# why": "comment",
    });
  });
});

test("scopes", () => {
  expect(ancestors("a/b/c")).toEqual(["a", "a/b", "a/b/c"]);
  expect(ancestors("")).toEqual([]);
  expect(parentScope("a/b")).toBe("a");
  expect(parentScope("a")).toBe("");
  expect(leafName("a/b")).toBe("b");
  expect(isWithin("a/bc", "a/b")).toBe(false);
  expect(isWithin("a/b/c", "a/b")).toBe(true);
  expect(isWithin("x", "")).toBe(true);
});

test("lines lose the indentation that all of them have", () => {
  expect(dedented(["    a", "", "\tb(", "        c"])).toEqual(["a", "", "b(", "    c"]);
  expect(dedented(["def f():", "    pass"])).toEqual(["def f():", "    pass"]);
  expect(dedented(["", "   "])).toEqual(["", ""]);
});

test("sizes", () => {
  expect(tensorBytes([2, 3], "float32")).toBe(24);
  expect(tensorBytes([], "float64")).toBe(8);
  expect(tensorBytes([10], "bool")).toBe(10);
  expect(tensorBytes([10], "float8_e4m3fn")).toBe(10);
  expect(tensorBytes([10], "bfloat16")).toBe(20);
  expect(tensorBytes([10], "")).toBe(0);
  expect(elementCount([])).toBe(1);
  expect(elementCount([0, 4])).toBe(0);
});

describe("colours of values", () => {
  const table = scaleTable([
    [0, 0, 0],
    [255, 255, 255],
  ]);
  const paint = { table, nan: [255, 0, 200], inf: [120, 0, 255] } as const;

  test("no difference is the middle stop, and both ends are told apart", () => {
    const stops = ["#000", "#111", "#222", "#abcdef", "#777", "#888", "#fff"];
    const diverging = scaleOf("div", (token) => stops[Number(token.replace("--div-", ""))] ?? "");
    const different = { ...paint, table: diverging };
    const pixels = paintElements(Float64Array.of(-3, 3), [-3, 3], different);
    expect([...pixels]).toEqual([0, 0, 0, 255, 255, 255, 255, 255]);
    const alike = paintElements(Float64Array.of(0), [0, 0], different);
    const [r, g, b] = parseHex("#abcdef");
    for (const [at, part] of [r, g, b].entries())
      expect(Math.abs((alike[at] ?? 0) - part)).toBeLessThan(2);
  });

  test("signed values are around zero, those of one sign are not", () => {
    expect(scaleFor([-1, 3])).toEqual({ scale: "div", range: [-3, 3] });
    expect(scaleFor([-4, 3])).toEqual({ scale: "div", range: [-4, 4] });
    expect(scaleFor([0, 3])).toEqual({ scale: "seq", range: [0, 3] });
    expect(scaleFor([-5, -2])).toEqual({ scale: "seq", range: [-5, -2] });
  });

  test("low is dark and high is light, whatever the theme", () => {
    const [dark, light] = [scaleOf("seq", () => "#000"), scaleOf("seq", () => "#fff")];
    expect(dark).toEqual(light);
    const lightness = (at: number) =>
      0.2126 * (dark[at * 3] ?? 0) +
      0.7152 * (dark[at * 3 + 1] ?? 0) +
      0.0722 * (dark[at * 3 + 2] ?? 0);
    for (let at = 1; at < 256; at++) expect(lightness(at)).toBeGreaterThan(lightness(at - 1) - 1);
    expect(lightness(255)).toBeGreaterThan(lightness(0) + 150);
  });

  test("NaN and Inf have their own, whatever the range", () => {
    const pixels = paintElements(Float64Array.of(0, 1, Number.NaN, Infinity), [0, 1], paint);
    expect([...pixels.slice(0, 3)]).toEqual([0, 0, 0]);
    expect([...pixels.slice(4, 7)]).toEqual([255, 255, 255]);
    expect([...pixels.slice(8, 11)]).toEqual([255, 0, 200]);
    expect([...pixels.slice(12, 15)]).toEqual([120, 0, 255]);
  });

  test("elements that are all equal are in the middle of the scale", () => {
    const pixels = paintElements(Float64Array.of(3, 3), [3, 3], paint);
    expect([...pixels.slice(0, 3)]).toEqual([128, 128, 128]);
  });

  test("the range covers only the finite elements", () => {
    expect(finiteRange(Float64Array.of(Number.NaN, -2, Infinity, 5))).toEqual([-2, 5]);
    expect(finiteRange(Float64Array.of(Number.NaN))).toBeUndefined();
    expect(parseHex("#ff8000")).toEqual([255, 128, 0]);
  });
});
