import { expect, test } from "vitest";
import { channelAxis, shapeOf } from "@/views/inspector/channel_grid";

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
  [[64, 96], "1.000"],
] as const)("a picture of %j has the proportions %s", (grid, shape) => {
  expect(shapeOf(grid)).toBe(shape);
});
