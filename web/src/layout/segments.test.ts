import { expect, test } from "vitest";
import { SegmentList } from "@/layout/segments";

test("segments are listed by group, in the order in which they were added", () => {
  const list = new SegmentList();
  const added = Array.from({ length: 5000 }, (_, k) => ({ from: k, to: k + 1, value: 7 * k }));
  added.forEach(({ from, to, value }, k) => {
    list.add((k * k) % 3, from, to, value);
  });
  const segments = list.sorted(4);
  for (const group of [0, 1, 2, 3]) {
    expect(segments.of(group)).toEqual(added.filter((_, k) => (k * k) % 3 === group));
  }
  expect(segments.of(9)).toEqual([]);
});

test("numbers of any size are kept", () => {
  const list = new SegmentList();
  list.add(0, 1, 2 ** 31 - 1, 3);
  list.add(0, 2 ** 31, 4, 2 ** 36 + 5);
  list.add(0, 6, 7, 8);
  expect(list.sorted(1).of(0)).toEqual([
    { from: 1, to: 2 ** 31 - 1, value: 3 },
    { from: 2 ** 31, to: 4, value: 2 ** 36 + 5 },
    { from: 6, to: 7, value: 8 },
  ]);
});
