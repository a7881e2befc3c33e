import { describe, expect, test } from "vitest";
import { wrapped } from "@/base/wrap";

describe("a line of output", () => {
  test("stays whole if it fits", () => {
    expect(wrapped("", 20)).toEqual([""]);
    expect(wrapped("x".repeat(20), 20)).toEqual(["x".repeat(20)]);
  });

  test("breaks after a space, or at the edge if there is none", () => {
    expect(wrapped("ShapeError: inner dimensions differ", 20)).toEqual([
      "ShapeError: inner ",
      "dimensions differ",
    ]);
    expect(wrapped("x".repeat(45), 20).map((piece) => piece.length)).toEqual([20, 20, 5]);
  });

  test("loses nothing and cuts no character in two", () => {
    const line = "a😀".repeat(30);
    for (const columns of [8, 9, 10]) {
      const pieces = wrapped(line, columns);
      expect(pieces.join("")).toBe(line);
      expect(pieces.some((piece) => /^[\uDC00-\uDFFF]/.test(piece))).toBe(false);
    }
  });
});
