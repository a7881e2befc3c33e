import { expect, test } from "vitest";
import { attributeText, detail } from "@/store/run/node_text";
import { node } from "@/wire/fixtures";

test("a number has no trailing zeros", () => {
  const texts = [0.1, 0.015625, -2.5, 100, 1e-7, 1234.5].map((number) => attributeText(number));
  expect(texts).toEqual(["0.1", "0.015625", "\u22122.5", "100", "1e\u22127", "1,234.5"]);
});

test("a shape has the page's notation, other tuples that of Python", () => {
  expect(attributeText([64, 10], "shape")).toBe("(64, 10)");
  expect(attributeText([64, -1], "shape")).toBe("(64, ?)");
  expect(attributeText([], "shape")).toBe("scalar");
  expect(attributeText([0, 1], "axis")).toBe("(0, 1)");
  expect(detail(node(1, "reshape", { attrs: { shape: [64, 1] } }))).toBe("shape (64, 1)");
});
