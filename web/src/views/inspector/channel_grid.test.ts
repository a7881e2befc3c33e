import { expect, test } from "vitest";
import { channelAxis } from "@/views/inspector/channel_grid";

test.each([
  [[64, 16, 8, 8], 1],
  [[16, 1, 3, 3], 0],
  [[5, 8, 8], 0],
  [[1, 8, 8], -1],
  [[8, 8], -1],
])("the axis of %j that is spread out is %i", (shape, axis) => {
  expect(channelAxis(shape)).toBe(axis);
});
