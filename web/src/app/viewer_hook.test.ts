import { createRoot } from "solid-js";
import { expect, test } from "vitest";
import { viewerHook, wantsViewerHook } from "@/app/viewer_hook";
import type { GraphView } from "@/render/scene/types";
import { Store } from "@/store/page/store";
import { node, RUN, snapshot } from "@/wire/fixtures";

test("the hook exists only if the address asks for it", () => {
  expect(["?viewer=1", "?token=x&viewer=1", "", "?viewer=0"].map(wantsViewerHook)).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

test("opening a scope resolves once its picture is drawn", async () => {
  const store = createRoot(() => new Store());
  let there = false;
  const view = { settled: () => there } as GraphView;
  const frames: (() => void)[] = [];
  const hook = viewerHook({ store, view: () => view }, (task) => frames.push(task));
  expect(hook.ready()).toBe(false);
  store.openRun(RUN);
  store.receive([snapshot({ nodes: [node(1, "a/b/c/tanh"), node(2, "a/d/tanh")] })]);
  store.first.arrived();
  expect(hook.ready()).toBe(true);
  store.setOpen(new Set());
  let answered = false;
  const opened = hook.expand("a/b").then(() => {
    answered = true;
  });
  expect([...store.folds().open]).toEqual(["a", "a/b"]);
  for (const task of frames.splice(0)) task();
  await Promise.resolve();
  expect(answered).toBe(false);
  there = true;
  for (const task of frames.splice(0)) task();
  await opened;
  void hook.expandAll();
  expect([...store.folds().open].sort()).toEqual(["a", "a/b", "a/b/c", "a/d"]);
});
