import { expect, test } from "vitest";
import { PastState } from "@/store/history/past_state";
import { columns } from "@/wire/fixtures";
import type { StateAt } from "@/wire/types.gen";

type Row = { readonly seq: number; readonly node: number; readonly times: number };

function stateAt(seq: number, rows: readonly Row[], since: number | null, gone: number[]): StateAt {
  const executions = columns([...rows]);
  return {
    type: "state_at",
    seq,
    since,
    gone,
    executions,
    step: 1,
    time_ns: 0,
    values: [],
    steps: [],
  };
}

test("differences replace the earlier rows", () => {
  const past = new PastState();
  expect(past.heldOf("a")).toBeNull();
  const rows = [
    { seq: 4, node: 1, times: 2 },
    { seq: 5, node: 2, times: 1 },
  ];
  past.take("a", stateAt(5, rows, null, []), undefined, false);
  expect([past.lastSeq, past.lastNode, past.heldOf("a"), past.heldOf("b")]).toEqual([
    5,
    2,
    5,
    null,
  ]);

  past.take("a", stateAt(6, [{ seq: 6, node: 1, times: 3 }], 5, []), undefined, false);
  expect([...past.seq.slice(0, 3)]).toEqual([0, 6, 5]);
  expect([past.times[1], past.lastNode]).toEqual([3, 1]);

  // Back at the earlier moment: node 1 as it was then, node 2 not yet run.
  past.take("a", stateAt(4, [{ seq: 4, node: 1, times: 2 }], 6, [2]), undefined, false);
  expect([...past.seq.slice(0, 3)]).toEqual([0, 4, 0]);
  expect([past.times[1], past.times[2], past.lastSeq, past.lastNode]).toEqual([2, 0, 4, 1]);
});

test("a full state keeps nothing of another run", () => {
  const past = new PastState();
  past.take("a", stateAt(9, [{ seq: 9, node: 3, times: 1 }], null, []), undefined, false);
  past.take("b", stateAt(2, [{ seq: 2, node: 1, times: 1 }], null, []), undefined, false);
  expect([past.seq[3], past.lastSeq, past.heldOf("a"), past.heldOf("b")]).toEqual([0, 2, null, 2]);
});

test("a state of a live run is not a base for differences", () => {
  const past = new PastState();
  past.take("a", stateAt(9, [{ seq: 9, node: 3, times: 1 }], null, []), undefined, true);
  expect([past.seq[3], past.heldOf("a")]).toEqual([9, null]);
});
