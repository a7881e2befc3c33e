import { expect, test } from "vitest";
import { fitness } from "@/base/fitness";

test("a full name ranks first, scattered letters rank last", () => {
  const titles = [
    "exp",
    "model/exp",
    "Export the graph as SVG",
    "model/exp_1",
    "model/vexp",
    "example",
  ];
  const ranks = titles.map((title) => fitness(title, "exp"));
  expect(ranks).toEqual([...ranks].sort((a, b) => (a ?? 0) - (b ?? 0)));
  // The gap is larger than the handicap of a node against a command in the list.
  expect((ranks[1] ?? 0) + 5).toBeLessThan(ranks[2] ?? 0);
  expect(fitness("model/log", "exp")).toBeUndefined();
});
