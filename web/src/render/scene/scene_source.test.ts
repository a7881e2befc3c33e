import { afterEach, describe, expect, it, vi } from "vitest";
import { NO_REPEATS } from "@/base/repeats";
import { buildHierarchy } from "@/layout/hierarchy";
import { packedHierarchy } from "@/layout/posted_hierarchy";
import { offer, type PreparedRequest } from "@/layout/prepared";
import { type LayoutReply, type LayoutRequest, LayoutSession } from "@/layout/session";
import type { SceneModel } from "@/render/scene/model";
import { SceneSource, toggledAmong } from "@/render/scene/scene_source";
import { node } from "@/render/testing";

const NODES = ["a", "b"].flatMap((scope, at) =>
  [1, 2].map((number) => {
    const id = 2 * at + number;
    return node(id, { scope, inputs: id > 1 ? [99 + id] : [] });
  }),
);
const GRAPH = { nodes: NODES, values: new Map(), version: 1 };

function source() {
  const chosen: ReadonlySet<string>[] = [];
  const choosing: boolean[] = [];
  const boxes: number[] = [];
  const made = new SceneSource({
    scene: (model) => boxes.push(model.scene.boxes),
    chosen: (open) => chosen.push(open),
    choosing: (ahead) => choosing.push(ahead),
    respecified: () => undefined,
    busy: () => undefined,
    progress: () => undefined,
  });
  return { made, chosen, choosing, boxes };
}

/** A worker that answers on `HeldWorker.answer()`. */
class HeldWorker {
  private static readonly held: (() => void)[] = [];
  private readonly session = new LayoutSession();
  onmessage: ((event: { data: LayoutReply }) => void) | undefined;

  private ended = false;

  static answer(): void {
    HeldWorker.held.shift()?.();
  }

  terminate(): void {
    this.ended = true;
  }

  postMessage(request: LayoutRequest): void {
    HeldWorker.held.push(() => {
      if (this.ended) return;
      const data = this.session.handle(request);
      if (data !== undefined) this.onmessage?.({ data });
    });
  }
}

describe("breaking off", () => {
  it("keeps the picture and its open scopes", () => {
    vi.stubGlobal("Worker", HeldWorker);
    const { made, boxes } = source();
    made.setGraph(GRAPH);
    while (!made.settled) HeldWorker.answer();
    expect(made.breakOff()).toBeUndefined();
    made.setOpen(new Set(["a", "b"]));
    expect(made.breakOff()).toEqual(new Set());
    expect(made.settled).toBe(true);
    made.setOpen(new Set(["a"]));
    while (!made.settled) HeldWorker.answer();
    expect(boxes).toEqual([2, 4]);
  });

  it("folds everything if there is no picture yet", () => {
    vi.stubGlobal("Worker", HeldWorker);
    const { made, chosen, boxes } = source();
    made.setFirst(() => ({ window: { width: 1000, height: 800 }, kept: [] }));
    made.setGraph(GRAPH);
    expect(made.breakOff()).toEqual(new Set());
    made.setFirst(undefined);
    while (!made.settled) HeldWorker.answer();
    expect(chosen).toEqual([]);
    expect(boxes).toEqual([2]);
  });
});

/** A worker that has prepared the graph, and posts its hierarchy. */
class PreparedWorker {
  readonly session = new LayoutSession();
  onmessage: ((event: { data: LayoutReply }) => void) | undefined;

  postMessage(request: LayoutRequest | PreparedRequest): void {
    if (request.kind === "prepared") {
      const built = buildHierarchy(GRAPH.nodes, GRAPH.values, NO_REPEATS);
      const { version } = request;
      this.session.take(built, version);
      this.onmessage?.({ data: { kind: "hierarchy", version, hierarchy: packedHierarchy(built) } });
      return;
    }
    const data = this.session.handle(request);
    if (data !== undefined) this.onmessage?.({ data });
  }
}

it("a graph that a worker has prepared is drawn with the worker's hierarchy", async () => {
  const origin = {};
  const models: SceneModel[] = [];
  const made = new SceneSource({
    scene: (model) => models.push(model),
    chosen: () => undefined,
    choosing: () => undefined,
    respecified: (model) => models.push(model),
    busy: () => undefined,
    progress: () => undefined,
  });
  const graph = { ...GRAPH, repeats: NO_REPEATS, origin, structure: {} };
  offer(origin, new PreparedWorker() as unknown as Worker);
  made.setGraph(graph);
  made.setGraph({ ...graph, nodes: [...NODES], version: 2 });
  await expect.poll(() => made.settled).toBe(true);
  const [first, second] = models.map(({ hierarchy }) => hierarchy);
  expect(first?.groups.map(({ path, nodes }) => [path, nodes])).toEqual([
    ["", []],
    ["a", [0, 1]],
    ["b", [2, 3]],
  ]);
  // Other shapes need no new hierarchy.
  expect(second?.groups).toBe(first?.groups);
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("the first picture", () => {
  it("is the layout's choice, whatever was opened in the meantime", async () => {
    const { made, chosen, boxes } = source();
    made.setFirst(() => ({ window: { width: 1000, height: 800 }, kept: [] }));
    made.setGraph(GRAPH);
    made.setOpen(new Set());
    made.setOpen(new Set(["a"]));
    await expect.poll(() => made.settled).toBe(true);
    expect(chosen).toEqual([new Set(["a", "b"])]);
    expect(boxes).toHaveLength(1);
  });

  it("is the layout's choice for a graph that grows while it chooses", () => {
    vi.useFakeTimers();
    vi.stubGlobal("Worker", HeldWorker);
    const { made, chosen, choosing, boxes } = source();
    made.setFirst(() => ({ window: { width: 1000, height: 800 }, kept: [] }));
    made.setGraph(GRAPH);
    made.setOpen(new Set(["a"]));
    made.setGraph({ ...GRAPH, nodes: [...NODES, node(5, { inputs: [103] })], version: 2 });
    vi.runAllTimers();
    while (!made.settled) HeldWorker.answer();
    expect(choosing.at(-1)).toBe(false);
    expect(chosen).toEqual([new Set(["a", "b"]), new Set(["a", "b"])]);
    expect(boxes).toEqual([6, 7]);
  });

  it("is announced while a graph that has grown waits behind the picture of a smaller one", () => {
    vi.useFakeTimers();
    vi.stubGlobal("Worker", HeldWorker);
    const { made, chosen, choosing, boxes } = source();
    made.setFirst(() => ({ window: { width: 1000, height: 800 }, kept: [] }));
    made.setGraph(GRAPH);
    made.setGraph({ ...GRAPH, nodes: [...NODES, node(5, { inputs: [103] })], version: 2 });
    while (boxes.length === 0) HeldWorker.answer();
    expect([chosen.length, choosing.at(-1)]).toEqual([1, true]);
    vi.runAllTimers();
    while (!made.settled) HeldWorker.answer();
    expect([chosen.length, choosing.at(-1)]).toEqual([2, false]);
  });

  it("does not come if the layout fails", () => {
    class FailingWorker {
      onmessage: ((event: { data: LayoutReply }) => void) | undefined;
      terminate(): void {}
      postMessage(request: LayoutRequest): void {
        if (request.kind !== "layout") return;
        failing.push(() =>
          this.onmessage?.({
            data: { kind: "failed", ticket: request.ticket, message: "no room" },
          }),
        );
      }
    }
    const failing: (() => void)[] = [];
    vi.stubGlobal("Worker", FailingWorker);
    const said = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const { made, choosing } = source();
    made.setFirst(() => ({ window: { width: 1000, height: 800 }, kept: [] }));
    made.setGraph(GRAPH);
    expect(choosing.at(-1)).toBe(true);
    for (const fail of failing) fail();
    expect(said).toHaveBeenCalledWith("no room");
    said.mockRestore();
    expect([made.settled, choosing.at(-1)]).toEqual([true, false]);
  });

  it("is chosen once more when a graph that has grown a little stops growing", () => {
    vi.useFakeTimers();
    vi.stubGlobal("Worker", HeldWorker);
    const { made, chosen, choosing } = source();
    const first = { window: { width: 1000, height: 800 }, kept: [] };
    made.setFirst(() => first);
    const settle = () => {
      while (!made.settled) HeldWorker.answer();
    };
    const many = Array.from({ length: 20 }, (_, at) => node(at + 1, { scope: "a" }));
    const grow = (count: number) => {
      const nodes = [...many, ...Array.from({ length: count }, (_, at) => node(21 + at))];
      made.setGraph({ nodes, values: new Map(), version: count + 1 });
      vi.advanceTimersByTime(200);
      settle();
    };
    grow(0);
    expect(choosing.at(-1)).toBe(false);
    grow(2);
    expect(chosen).toHaveLength(1);
    expect(choosing.at(-1)).toBe(true);
    vi.advanceTimersByTime(2000);
    expect([made.settled, choosing.at(-1)]).toEqual([false, true]);
    settle();
    expect(chosen).toHaveLength(2);
    expect(choosing.at(-1)).toBe(false);
    grow(3);
    expect(choosing.at(-1)).toBe(false);
    vi.advanceTimersByTime(2000);
    expect(made.settled).toBe(true);
    expect(chosen).toHaveLength(2);
    made.setFirst(undefined);
    grow(6);
    vi.advanceTimersByTime(2000);
    settle();
    expect(chosen).toHaveLength(2);
  });

  it("is what the user opens in the meantime, which ends the choice", async () => {
    const { made, chosen, boxes } = source();
    made.setFirst(() => ({ window: { width: 1000, height: 800 }, kept: [] }));
    made.setGraph(GRAPH);
    made.setFirst(undefined);
    made.setOpen(new Set(["a"]));
    await expect.poll(() => made.settled).toBe(true);
    expect(chosen).toEqual([]);
    expect(boxes).toHaveLength(2);
    expect(boxes[1]).toBeLessThan(boxes[0] ?? 0);
  });

  it("is what was opened, if the layout chooses nothing", async () => {
    const { made, chosen, boxes } = source();
    made.setFirst(() => undefined);
    made.setGraph(GRAPH);
    made.setOpen(new Set(["a"]));
    await expect.poll(() => made.settled).toBe(true);
    expect(chosen).toEqual([]);
    expect(boxes).toHaveLength(2);
  });
});

it("among many scopes that open, outer ones are told apart from inner ones", () => {
  expect(toggledAmong(["a", "a/b", "a/b/c"], new Set(["a", "a/b", "a/b/c"]))).toBeUndefined();
  expect(toggledAmong(["a/1", "a/2", "a/2/b"], new Set(["a/2", "a/2/b"]))).toBe("a/2");
  expect(toggledAmong(["ab", "a"], new Set(["a"]))).toBe("a");
  // All 60,000 scopes of a model: comparing every pair would take far too long.
  const many = Array.from({ length: 60_000 }, (_, at) => `model/layer_${at >> 3}/part_${at & 7}`);
  expect(toggledAmong(many, new Set(many))).toBeUndefined();
});
