import { expect, test } from "vitest";
import { channelAxis, partOf, shapeOf } from "@/views/inspector/channel_grid";

test.each([
  [[64, 16, 8, 8], 1],
  [[16, 1, 3, 3], 0],
  [[5, 8, 8], 0],
  [[1, 8, 8], -1],
  [[8, 8], -1],
])("the axis of %j that is spread out is %i", (shape, axis) => {
  expect(channelAxis(shape)).toBe(axis);
});

test.each([
  [[32, 64], "2.000"],
  [[12, 12], "1.000"],
  [[64, 2], "1.000"],
  [[2, 64], "3.000"],
  [[0, 0], "1.000"],
  [[64, 96], "1.500"],
  [[256, 300], "1.000"],
] as const)("a picture of %j has the proportions %s", (grid, shape) => {
  expect(shapeOf(grid)).toBe(shape);
});

test.each([
  [[128, 96], ""],
  [[96, 200], "each the first (96, 128) of (96, 200)"],
  [[224, 224], "each the first (128, 128) of (224, 224)"],
] as const)("for channels of %j the note is %j", (grid, words) => {
  expect(partOf(grid)).toBe(words);
});
