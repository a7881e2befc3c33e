import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LayoutClient } from "@/layout/client";
import { offer } from "@/layout/prepared";
import { plainNode } from "@/layout/testing";

class FakeWorker {
  static readonly all: FakeWorker[] = [];
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onerror: (() => void) | null = null;
  readonly posted: { kind: string }[] = [];
  ended = false;

  constructor() {
    FakeWorker.all.push(this);
  }

  postMessage(request: { kind: string }): void {
    this.posted.push(request);
  }

  terminate(): void {
    this.ended = true;
  }

  get kinds(): string[] {
    return this.posted.map(({ kind }) => kind);
  }
}

beforeEach(() => vi.stubGlobal("Worker", FakeWorker));
afterEach(() => {
  vi.unstubAllGlobals();
  FakeWorker.all.length = 0;
});

function client(): LayoutClient {
  return new LayoutClient({ scene: () => undefined, busy: () => undefined });
}

test("a prepared worker lays out its graph without being sent it", () => {
  const canvas = client();
  const origin = {};
  const prepared = new FakeWorker();
  offer(origin, prepared as unknown as Worker);
  canvas.setGraph([], new Map(), 1, [], origin);
  canvas.request(new Set());
  expect(prepared.kinds).toEqual(["prepared", "layout"]);
  expect(FakeWorker.all).toEqual([prepared]);
  // After a layout is broken off, a new worker starts without the graph.
  expect(canvas.breakOff()).toBe(true);
  expect(prepared.ended).toBe(true);
  expect(FakeWorker.all.at(-1)?.kinds).toEqual(["graph"]);
});

test("an empty graph starts no worker", () => {
  const canvas = client();
  canvas.setGraph([], new Map(), 1);
  canvas.request(new Set());
  expect(FakeWorker.all).toEqual([]);
  canvas.setGraph([plainNode(1, 100)], new Map(), 2);
  canvas.request(new Set(["late"]));
  expect(FakeWorker.all.map(({ kinds }) => kinds)).toEqual([["graph", "layout"]]);
});

test("a prepared worker is handed over once, and only for its own graph", () => {
  const origin = {};
  const prepared = new FakeWorker();
  offer(origin, prepared as unknown as Worker);
  client().setGraph([], new Map(), 1, [], {});
  expect(prepared.posted).toEqual([]);
  client().setGraph([], new Map(), 1, [], origin);
  client().setGraph([], new Map(), 1, [], origin);
  expect(prepared.kinds).toEqual(["prepared"]);
  const another = new FakeWorker();
  offer({}, another as unknown as Worker);
  offer({}, new FakeWorker() as unknown as Worker);
  expect([prepared.ended, another.ended]).toEqual([false, true]);
});

test("the newest request goes to the new worker", () => {
  const canvas = client();
  canvas.setGraph([], new Map(), 1);
  canvas.request(new Set(["early"]));
  const origin = {};
  const prepared = new FakeWorker();
  offer(origin, prepared as unknown as Worker);
  canvas.setGraph([], new Map(), 2, [], origin);
  canvas.request(new Set(["late"]));
  expect(prepared.posted.at(-1)).toMatchObject({ kind: "layout", open: ["late"] });
});
