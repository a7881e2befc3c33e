import { describe, expect, it } from "vitest";
import { placeOf } from "@/views/compare/state";
import type { ComparedFunction, Verdict } from "@/wire/types.gen";

const fn = {
  owner: "train_step",
  stages: [{ name: "traced" }, { name: "simplify" }, { name: "fuse" }],
  nodes: [
    { id: 3, eager: 30 },
    { id: 4, eager: 0 },
  ],
} as unknown as ComparedFunction;
const verdict: Verdict = {
  outcome: "differs",
  text: "",
  cause: "rewrite",
  function: "train_step",
  step: 4,
  node: 3,
  name: "add",
  source: null,
  kernel: 0,
  kernel_name: "",
  rules: ["simplify/add_zero"],
  calls: 8,
  steps: 8,
  amount: null,
  detail: "",
};

describe("the place of a verdict", () => {
  it("is the node, in the graph after the pass that changed it", () => {
    expect(placeOf(verdict, [fn])).toEqual({
      owner: "train_step",
      stage: 1,
      picked: { side: "eager", id: 30 },
    });
  });
  it("is the final graph if a kernel is wrong", () => {
    const kernel = { ...verdict, cause: "kernel", kernel: 53, rules: [] } as const;
    expect(placeOf(kernel, [fn])?.stage).toBeUndefined();
    expect(placeOf({ ...kernel, node: 4 }, [fn])?.picked).toEqual({ side: "compiled", id: 53 });
  });
  it("is nowhere without a function", () => {
    expect(placeOf({ ...verdict, function: "" }, [fn])).toBeUndefined();
    expect(placeOf({ ...verdict, node: 0, rules: [] }, [fn])).toEqual({
      owner: "train_step",
      stage: undefined,
      picked: undefined,
    });
  });
});
