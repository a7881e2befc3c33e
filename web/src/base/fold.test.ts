import { expect, test } from "vitest";
import { foldColumns, shownPlane } from "@/base/fold";

test.each([
  [1, 1],
  [16, 16],
  [64, 8],
  [20, 5],
  [128, 16],
  [17, 5],
  [512, 32],
])("%i elements are in rows of %i", (count, columns) => {
  expect(foldColumns(count)).toBe(columns);
});

test.each([1, 2, 15, 16, 17, 31, 97, 128, 509, 512, 10_000])("all of %i have a place", (count) => {
  for (const [rows, cols] of [
    [1, count],
    [count, 1],
  ] as const) {
    const plane = shownPlane(rows, cols);
    expect(plane.rows * plane.cols).toBeGreaterThanOrEqual(count);
    expect((plane.rows - 1) * plane.cols).toBeLessThan(count);
  }
});

test("a matrix stays as it is", () => {
  expect(shownPlane(3, 40)).toEqual({ rows: 3, cols: 40 });
});
