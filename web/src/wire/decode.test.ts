import { expect, test } from "vitest";
import { decodeElements, decodeExecutions } from "@/wire/decode";
import { columns } from "@/wire/fixtures";

test("columns become typed arrays, whatever their byte offset", () => {
  const rows = decodeExecutions(
    columns([
      { seq: 2 ** 40, node: 3, step: 4, start: 2 ** 50, duration: 12, flags: 9 },
      { seq: 2 ** 40 + 1, node: 4_000_000_000 },
    ]),
  );
  expect(rows.count).toBe(2);
  expect([...rows.seq]).toEqual([2 ** 40, 2 ** 40 + 1]);
  expect([...rows.node]).toEqual([3, 4_000_000_000]);
  expect(rows.startNs[0]).toBe(2 ** 50);
  expect(rows.flags[0]).toBe(9);
  expect(rows.times.length).toBe(0);
});

test("workers and lanes are decoded if there are any", () => {
  const rows = decodeExecutions(
    columns([
      { seq: 1, node: 1 },
      { seq: 2, node: 1, lane: 7 },
    ]),
  );
  expect([...rows.lane]).toEqual([0, 7]);
  expect(rows.worker.length).toBe(0);
});

test("numbers take as many bytes as the largest needs", () => {
  const narrow = {
    ...columns([
      { seq: 1, node: 1 },
      { seq: 2, node: 2 },
    ]),
  };
  const rows = decodeExecutions({
    ...narrow,
    seq: Uint8Array.of(7, 200),
    node: new Uint8Array(Uint16Array.of(1, 60_000).buffer),
    step: new Uint8Array(0),
  });
  expect([...rows.seq]).toEqual([7, 200]);
  expect([...rows.node]).toEqual([1, 60_000]);
  expect([...rows.step]).toEqual([0, 0]);
});

test("a column that is cut short is refused", () => {
  const good = columns([{ seq: 1, node: 1 }]);
  expect(() => decodeExecutions({ ...good, node: good.node.subarray(1) })).toThrow(/column node/);
  expect(() => decodeElements(new Uint8Array(15), 2)).toThrow(/15 bytes instead of 16/);
});

test("elements keep NaN and infinities", () => {
  const data = new Uint8Array(Float64Array.of(1.5, Number.NaN, -Infinity).buffer);
  expect([...decodeElements(data, 3)]).toEqual([1.5, Number.NaN, -Infinity]);
});
