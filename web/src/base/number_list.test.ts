import { expect, test } from "vitest";
import { numberList } from "@/base/number_list";

test.each([0, 1, 2, 3, 4, 9])("a list of %d numbers out of a column", (count) => {
  const column = Float64Array.from({ length: 12 }, (_, at) => 10 * at);
  expect(numberList(column, 2, 2 + count)).toEqual([...column.subarray(2, 2 + count)]);
});

test("a span that ends before it begins is an empty list", () => {
  expect(numberList([1, 2, 3], 2, 1)).toEqual([]);
});
