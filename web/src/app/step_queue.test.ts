import { createSignal } from "solid-js";
import { expect, test } from "vitest";
import type { PageCommand } from "@/app/page_command";
import { StepQueue } from "@/app/step_queue";
import type { Store } from "@/store/page/store";

function program() {
  const [stops, setStops] = createSignal(0);
  let reason = "step";
  const store = { stops, stop: () => ({ reason }) } as unknown as Store;
  const ran: string[] = [];
  const step = (title: string): PageCommand => ({
    title,
    keys: "F10",
    group: "Debugger",
    enabled: () => true,
    later: () => true,
    run: () => ran.push(title),
  });
  const stop = (why = "step"): void => {
    reason = why;
    setStops(stops() + 1);
  };
  return { queue: new StepQueue(store), ran, step, stop };
}

test("each press is one step, in order, one at each stop", () => {
  const { queue, ran, step, stop } = program();
  for (const name of ["a", "b", "c"]) expect(queue.add(step(name), false)).toBe(true);
  stop();
  expect(ran).toEqual(["a"]);
  stop();
  stop();
  stop();
  expect(ran).toEqual(["a", "b", "c"]);
  queue.dispose();
});

test("repeats of a key held down are not queued", () => {
  const { queue, ran, step, stop } = program();
  expect(queue.add(step("held"), true)).toBe(true);
  stop();
  expect(ran).toEqual([]);
  queue.dispose();
});

test("another kind of stop or another command empties the queue", () => {
  const { queue, ran, step, stop } = program();
  queue.add(step("a"), false);
  stop("breakpoint");
  stop();
  queue.add(step("b"), false);
  queue.clear();
  stop();
  expect(ran).toEqual([]);
  expect(queue.add({ ...step("c"), later: () => false }, false)).toBe(false);
  queue.dispose();
});
