import { expect, test } from "vitest";
import { IdTable, MadeById, MadeLater, Mapped } from "@/base/by_id";

test("any number is an id", () => {
  const table = new IdTable();
  const ids = [0, 1, 5000, 2 ** 30, 2 ** 40, -3, 0.5];
  ids.forEach((id, at) => {
    table.set(id, at);
  });
  expect(ids.map((id) => table.get(id))).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect([table.get(2), table.has(2), table.get(2 ** 41), table.has(0)]).toEqual([
    undefined,
    false,
    undefined,
    true,
  ]);
  table.set(1, 9);
  expect(table.get(1)).toBe(9);
});

test("an entry is made when it is first read, and only once", () => {
  const made: number[] = [];
  const map = new MadeById([7, 3], (row) => {
    made.push(row);
    return { row };
  });
  expect(map.has(3) && !map.has(1)).toBe(true);
  expect(made).toEqual([]);
  expect(map.get(3)).toBe(map.get(3));
  expect(made).toEqual([1]);
  expect([...map.keys()]).toEqual([7, 3]);
  expect([...map]).toEqual([
    [7, { row: 0 }],
    [3, { row: 1 }],
  ]);
  expect([map.size, map.get(8)]).toEqual([2, undefined]);
});

test("a converted map, and a map made as a whole, behave like maps", () => {
  const from = new Map([["a", 1]]);
  const mapped = new Mapped(from, (value) => ({ value }));
  expect(mapped.get("a")).toBe(mapped.get("a"));
  expect(new Map(mapped)).toEqual(new Map([["a", { value: 1 }]]));
  expect([mapped.has("b"), mapped.get("b")]).toEqual([false, undefined]);
  let times = 0;
  const later = new MadeLater(() => {
    times += 1;
    return from;
  });
  expect(times).toBe(0);
  expect([later.get("a"), later.size, [...later.values()], times]).toEqual([1, 1, [1], 1]);
});
