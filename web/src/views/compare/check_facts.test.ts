import { expect, test } from "vitest";
import { amountOf } from "@/views/compare/check_facts";
import type { Amount, Verdict } from "@/wire/types.gen";

const amount: Amount = {
  elements: 12,
  differing: 3,
  max_abs: 0.5,
  expected: "1.0",
  actual: "1.5",
  at: [0, 2],
};
const verdict = { function: "step", node: 7, amount } as unknown as Verdict;

test("only the node named by the verdict has the numbers of the check", () => {
  expect(amountOf(verdict, "step", 7)).toBe(amount);
  expect(amountOf(verdict, "step", 8)).toBeUndefined();
  expect(amountOf(verdict, "other", 7)).toBeUndefined();
  expect(amountOf(null, "step", 7)).toBeUndefined();
  expect(amountOf({ ...verdict, amount: null }, "step", 7)).toBeUndefined();
});
