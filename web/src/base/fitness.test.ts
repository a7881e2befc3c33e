import { expect, test } from "vitest";
import { fitness } from "@/base/fitness";

test("a name in full comes first, letters that lie apart come last", () => {
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
  // A node's handicap beside a command in the list is less.
  expect((ranks[1] ?? 0) + 5).toBeLessThan(ranks[2] ?? 0);
  expect(fitness("model/log", "exp")).toBeUndefined();
});
