import { describe, expect, test } from "vitest";
import { Inbox } from "@/store/run/inbox";
import { RUN, session } from "@/wire/fixtures";
import type { Push } from "@/wire/types.gen";

/** Animation frames and timers that run when the test says so. */
class Clock {
  private readonly tasks = new Map<number, () => void>();
  private readonly timers = new Map<number, () => void>();
  private last = 0;

  frame(task: () => void): number {
    this.tasks.set(++this.last, task);
    return this.last;
  }
  cancelFrame(handle: number): void {
    this.tasks.delete(handle);
  }
  later(task: () => void): number {
    this.timers.set(++this.last, task);
    return this.last;
  }
  cancel(handle: number): void {
    this.timers.delete(handle);
  }
  paint(): void {
    const due = [...this.tasks.values()];
    this.tasks.clear();
    for (const task of due) task();
  }
  expire(): void {
    const due = [...this.timers.values()];
    this.timers.clear();
    for (const task of due) task();
  }
}

function inbox(): { clock: Clock; add: (push: Push) => void; batches: Push[][] } {
  const clock = new Clock();
  const batches: Push[][] = [];
  const box = new Inbox((pushes) => batches.push([...pushes]), clock);
  return { clock, add: (push) => box.add(push), batches };
}

const running: Push = { type: "session", run: RUN, info: session({ phase: "running" }) };
const stopped: Push = { type: "session", run: RUN, info: session({ phase: "stopped" }) };
const runs: Push = { type: "runs", runs: [] };

describe("the inbox", () => {
  test("passes on once per frame what arrived before it", () => {
    const { clock, add, batches } = inbox();
    add(running);
    add(runs);
    expect(batches).toEqual([]);
    clock.paint();
    clock.paint();
    expect(batches).toEqual([[running, runs]]);
  });

  test("passes on a stop at once, after what arrived before it", () => {
    const { clock, add, batches } = inbox();
    add(runs);
    add(stopped);
    expect(batches).toEqual([[runs, stopped]]);
    clock.paint();
    clock.expire();
    expect(batches).toHaveLength(1);
  });

  test("lets further stops wait for the frame", () => {
    const { clock, add, batches } = inbox();
    add(stopped);
    add(runs);
    add(stopped);
    expect(batches).toEqual([[stopped]]);
    clock.paint();
    expect(batches).toEqual([[stopped], [runs, stopped]]);
    add(stopped);
    expect(batches).toHaveLength(3);
  });

  test("is emptied by a timer where there are no frames", () => {
    const { clock, add, batches } = inbox();
    add(running);
    clock.expire();
    expect(batches).toEqual([[running]]);
    add(stopped);
    add(stopped);
    clock.expire();
    expect(batches).toEqual([[running], [stopped], [stopped]]);
  });
});
