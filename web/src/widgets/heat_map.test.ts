import { expect, test } from "vitest";
import { pictureSize } from "@/widgets/heat_map";

test.each([
  ["square cells", 64, 64, 192, 192],
  ["an image keeps its proportions", 64, 96, 192, 128],
  ["a narrow matrix is stretched until it is seen", 64, 10, 96, 192],
  ["a stripe stays narrow", 128, 2, 12, 192],
  ["few cells are not enormous", 2, 3, 84, 56],
])("%s: %i × %i", (_, rows, cols, width, height) => {
  expect(pictureSize(rows, cols)).toEqual({ width, height });
});
