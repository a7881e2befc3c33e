import { expect, test } from "vitest";
import { NodeColumns } from "@/store/run/columns";
import { placeWords } from "@/store/run/place";
import { decodeExecutions } from "@/wire/decode";
import { columns } from "@/wire/fixtures";

test("the place of an execution is named unless it is a thread of the program", () => {
  expect(placeWords({ worker: 0, queue: 0 })).toBe("");
  expect(placeWords({ worker: 2, queue: 0 })).toBe("worker 2");
  expect(placeWords({ worker: 0, queue: 1 })).toBe("lane 1");
  expect(placeWords({ worker: 2, queue: 1 })).toBe("worker 2 · lane 1");
});

test("a node has the place of its latest execution", () => {
  const nodes = new NodeColumns();
  nodes.apply(decodeExecutions(columns([{ seq: 1, node: 3, worker: 2, lane: 5 }])));
  expect([nodes.worker[3], nodes.lane[3]]).toEqual([2, 5]);
  nodes.apply(decodeExecutions(columns([{ seq: 2, node: 3 }])));
  expect([nodes.worker[3], nodes.lane[3]]).toEqual([0, 0]);
});
