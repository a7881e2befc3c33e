import { createRoot } from "solid-js";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Requests, Store } from "@/store/page/store";
import { readAddress } from "@/store/page/url";
import { earlierStep, seenStep } from "@/store/run/run_model";
import {
  columns,
  node,
  produced,
  RUN,
  records,
  runInfo,
  session,
  snapshot,
  stopAt,
} from "@/wire/fixtures";
import { FAILED, type RequestBody, type ResponseBody } from "@/wire/types.gen";

let requests: RequestBody[];
let answer: (body: RequestBody) => ResponseBody | Promise<ResponseBody>;
let store: Store;

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const stopped = (id: number, name: string, version: number) =>
  ({
    type: "session",
    run: RUN,
    info: session({ phase: "stopped", version, stop: stopAt(id, name, { seq: version * 10 }) }),
  }) as const;
const NODES = [node(1, "x"), node(2, "net/a/matmul"), node(3, "net/b/tanh")];

function open(hash = ""): void {
  createRoot(() => {
    store = new Store(readAddress(hash));
  });
  store.attach({
    request: ((body: RequestBody) => {
      requests.push(body);
      return Promise.resolve(answer(body));
    }) as Requests["request"],
  });
  store.runsChanged([runInfo()]);
}

beforeEach(() => {
  requests = [];
  answer = () => ({ type: "done" });
  open();
});

describe("runs", () => {
  test("the newest live run is opened automatically", () => {
    expect(store.runId()).toBe(RUN);
    expect(requests).toEqual([{ type: "subscribe", run: RUN, seq: 0 }]);
  });

  test("a graph that is not run has no columns of executions", () => {
    store.receive([
      snapshot({ nodes: NODES, run: runInfo({ level: "graph", state: "finished" }) }),
    ]);
    expect(store.live.size).toBe(0);
    const ran = columns([{ seq: 4, node: 3 }]);
    store.receive([snapshot({ seq: 4, nodes: NODES, executions: ran })]);
    expect(store.live.size).toBeGreaterThan(3);
  });

  test("another run replaces the one shown", () => {
    store.receive([snapshot({ seq: 3, nodes: NODES })]);
    store.openRun("fedcba9876543210");
    expect(store.model()).toBeUndefined();
    expect(requests.map((body) => body.type)).toEqual(["subscribe", "unsubscribe", "subscribe"]);
    store.receive([records({ seq: 9 })]);
    expect(store.model()).toBeUndefined();
  });

  test("a stopped program that is not shown is listed until it continues", () => {
    const elsewhere = { run: "fedcba9876543210", name: "train.py", node: "loss/mean" };
    store.receive([{ type: "stopped_elsewhere", runs: [elsewhere] }]);
    expect(store.stoppedElsewhere()).toEqual([elsewhere]);
    store.receive([{ type: "stopped_elsewhere", runs: [] }]);
    expect(store.stoppedElsewhere()).toEqual([]);
  });

  test("a run is followed from its last seq after a lost connection", () => {
    store.receive([snapshot({ seq: 3 }), records({ seq: 8 })]);
    expect(store.following()).toEqual({ run: RUN, seq: 8 });
  });
});

describe("a stop", () => {
  test("opens the scopes around its node, and selects the node", () => {
    store.receive([snapshot({ nodes: NODES }), stopped(2, "net/a/matmul", 2)]);
    expect(store.selection()).toEqual({ kind: "node", id: 2 });
    expect(store.isOpen("net/a")).toBe(true);
    expect(store.stop()?.node).toBe(2);
    expect(store.stops()).toBe(1);
  });

  test("keeps scopes folded that the user folded", () => {
    store.receive([snapshot({ nodes: NODES })]);
    expect(store.isOpen("net")).toBe(true);
    store.toggleScope("net");
    store.receive([stopped(3, "net/b/tanh", 2)]);
    expect(store.isOpen("net")).toBe(false);
    store.toggleScope("net");
    store.receive([stopped(2, "net/a/matmul", 3)]);
    expect(store.isOpen("net/a")).toBe(true);
  });

  test("that is announced twice counts once", () => {
    store.receive([snapshot({ nodes: NODES }), stopped(2, "net/a/matmul", 2)]);
    store.select(undefined);
    store.receive([stopped(2, "net/a/matmul", 2)]);
    expect(store.selection()).toBeUndefined();
  });

  test("brings the page back from the past", async () => {
    answer = (body) =>
      body.type === "get_state"
        ? {
            type: "state_at",
            since: null,
            gone: [],
            steps: [],
            values: [],
            seq: body.seq,
            step: 1,
            time_ns: 5,
            executions: columns([]),
          }
        : { type: "done" };
    store.receive([snapshot({ seq: 9, nodes: NODES })]);
    await store.seek(4);
    expect(store.seq()).toBe(4);
    store.receive([stopped(2, "net/a/matmul", 2)]);
    expect(store.seq()).toBeNull();
  });
});

describe("the past", () => {
  const waiting: ((seq: number) => void)[] = [];
  beforeEach(() => {
    waiting.length = 0;
    answer = (body) => {
      if (body.type !== "get_state") return { type: "done" };
      return new Promise((resolve) => {
        waiting.push(() =>
          resolve({
            type: "state_at",
            since: null,
            gone: [],
            steps: [],
            values: [],
            seq: body.seq,
            step: 2,
            time_ns: 5,
            executions: columns([{ seq: body.seq, node: 2, times: 7 }]),
          }),
        );
      });
    };
    store.receive([
      snapshot({
        seq: 50,
        nodes: NODES,
        executions: columns([{ seq: 50, node: 3, times: 1 }]),
      }),
    ]);
  });

  test("after the first of many seeks, only the newest is requested", async () => {
    const done = store.seek(10);
    for (const seq of [11, 12, 13]) void store.seek(seq);
    waiting[0]?.(10);
    await settled();
    waiting[1]?.(13);
    await done;
    const seqs = requests.flatMap((body) => (body.type === "get_state" ? [body.seq] : []));
    expect(seqs).toEqual([10, 13]);
    expect(store.cursor()).toMatchObject({ kind: "past", seq: 13, step: 2 });
    expect(store.shown().times[2]).toBe(7);
    expect(store.shown().lastNode).toBe(2);
  });

  test("live data continues to arrive, and is complete afterwards", async () => {
    const done = store.seek(10);
    waiting[0]?.(10);
    await done;
    store.receive([records({ seq: 51, executions: columns([{ seq: 51, node: 1 }]) })]);
    expect(store.shown().times[1]).toBe(0);
    store.backToLive();
    expect(store.shown().times[1]).toBe(1);
    expect(store.shown().times[3]).toBe(1);
  });

  test("is not entered by an answer that arrives after leaving it", async () => {
    const done = store.seek(10);
    store.backToLive();
    waiting[0]?.(10);
    await done;
    expect(store.cursor().kind).toBe("live");
  });
});

describe("back to the stop", () => {
  const NAMES = ["x", ...[0, 1, 2, 3].flatMap((k) => [`t_${k}/in/mul`, `t_${k}/out/add`])];
  const BLOCKS = NAMES.map((name, i) => node(i + 1, name, { inputs: i === 0 ? [] : [i] }));
  const SCOPES = [0, 1, 2, 3].map((k) => `t_${k}`);
  const open = () => SCOPES.filter((path) => store.isOpen(path));
  const here = { kind: "node", id: 6 };
  beforeEach(() => {
    answer = (body) =>
      body.type === "move"
        ? { type: "moved", seq: body.back ? 3 : null, node: body.back ? 3 : 0, step: 1, text: "" }
        : {
            type: "state_at",
            since: null,
            gone: [],
            steps: [],
            values: [],
            seq: 3,
            step: 1,
            time_ns: 5,
            executions: columns([]),
          };
    const values = NAMES.map((name, i) => produced(i + 1, name));
    store.receive([snapshot({ nodes: BLOCKS, values }), stopped(6, "t_2/in/mul", 2)]);
    expect(open()).toEqual(["t_2"]);
  });

  test.each([
    ["the button", async () => store.backToLive()],
    ["a step past the end", () => store.travel({ type: "continue" }, false)],
  ])("a stack turns again to the scope of the stop: %s", async (_, comeBack) => {
    await store.travel({ type: "step_over" }, true);
    expect([open(), store.selection()]).toEqual([["t_0"], { kind: "node", id: 3 }]);
    await comeBack();
    expect([open(), store.selection()]).toEqual([["t_2"], here]);
  });

  test("a scope that the user folded stays folded", async () => {
    await store.seek(3);
    store.toggleScope("t_2/in");
    store.toggleScope("t_2/in");
    store.backToLive();
    expect(store.isOpen("t_2/in")).toBe(true);
    await store.seek(3);
    store.toggleScope("t_2/in");
    store.backToLive();
    expect([open(), store.isOpen("t_2/in")]).toEqual([["t_2"], false]);
  });

  test("the user's selection from before is shown again", async () => {
    store.disclose({ kind: "node", id: 9 });
    store.select({ kind: "node", id: 9 });
    await store.travel({ type: "step_over" }, true);
    expect(open()).toEqual(["t_0"]);
    store.backToLive();
    expect([open(), store.selection()]).toEqual([["t_3"], { kind: "node", id: 9 }]);
  });
});

test("an address opens its run, its selection, its scopes and its moment", async () => {
  answer = (body) =>
    body.type === "get_state"
      ? {
          type: "state_at",
          since: null,
          gone: [],
          steps: [],
          values: [],
          seq: body.seq,
          step: 1,
          time_ns: 5,
          executions: columns([]),
        }
      : { type: "done" };
  open(`#run=${RUN}&node=3&open=net&seq=4`);
  store.receive([
    snapshot({
      seq: 9,
      nodes: NODES,
      session: session({ phase: "stopped", version: 3, stop: stopAt(2, "net/a/matmul") }),
    }),
  ]);
  await settled();
  expect(store.selection()).toEqual({ kind: "node", id: 3 });
  expect([...store.folds().open]).toEqual(["net"]);
  expect(store.seq()).toBe(4);
});

test("a refused command is reported in words", async () => {
  store.attach({ request: () => Promise.reject(new Error("no such scope")) });
  expect(await store.control({ type: "step_out" })).toBe(false);
  expect(store.notices()[0]).toMatchObject({ tone: "error", text: "no such scope" });
});

describe("the result of a command disappears with the next one", () => {
  const moved = { type: "moved", seq: null, text: "no breakpoint is hit after this", node: 0 };
  const past = {
    type: "state_at",
    since: null,
    gone: [],
    steps: [],
    executions: columns([]),
    values: [],
    step: 1,
  };
  const texts = () => store.notices().map((notice) => notice.text);
  beforeEach(async () => {
    store.linkChanged({ kind: "lost", since: 0, attempt: 1 });
    store.linkChanged({ kind: "open", server: "test" });
    const answers: Record<string, unknown> = { move: moved, get_state: past };
    store.attach({
      request: ((body: RequestBody) => {
        if (body.type === "control") return Promise.reject(new Error("no such scope"));
        return Promise.resolve(answers[body.type] ?? { type: "done" });
      }) as unknown as Requests["request"],
    });
    await store.control({ type: "step_out" });
    expect(texts()).toEqual(["Connection restored.", "no such scope"]);
  });

  const commands: Record<string, () => Promise<unknown>> = {
    "another move": () => store.travel({ type: "continue" }, false),
    "a moment on the slider": () => store.seek(4),
    "back to live": () => Promise.resolve(store.backToLive()),
  };
  for (const [name, give] of Object.entries(commands)) {
    test(name, async () => {
      await give();
      expect(texts()).not.toContain("no such scope");
      expect(texts()).toContain("Connection restored.");
    });
  }

  test("the result of the next command is shown", async () => {
    await store.travel({ type: "continue" }, false);
    expect(texts().at(-1)).toBe("No breakpoint is hit after this.");
  });
});

describe("a stop that is announced before its records have arrived", () => {
  const late = (seq: number) => {
    const info = session({ phase: "stopped", version: 5, stop: stopAt(3, "net/b/tanh", { seq }) });
    return { type: "session", run: RUN, info } as const;
  };
  beforeEach(() => {
    vi.useFakeTimers();
    store.receive([
      snapshot({ run: runInfo({ recording: "r.nscope" }), seq: 10, nodes: NODES }),
      { type: "session", run: RUN, info: session({ phase: "running", version: 4 }) },
    ]);
    store.select({ kind: "node", id: 1 });
  });
  afterEach(() => void vi.useRealTimers());

  test("is not shown until they arrive", () => {
    store.receive([late(30)]);
    expect(store.stop()).toBeUndefined();
    expect([store.arriving(), store.stops()]).toEqual([20, 0]);
    expect(store.selection()).toEqual({ kind: "node", id: 1 });
    store.receive([records({ seq: 25 })]);
    expect([store.stop(), store.arriving()]).toEqual([undefined, 5]);
    store.receive([records({ seq: 31 })]);
    expect(store.stop()?.node).toBe(3);
    expect([store.arriving(), store.stops()]).toEqual([0, 1]);
    expect(store.selection()).toEqual({ kind: "node", id: 3 });
    store.receive([records({ seq: 32 })]);
    expect(store.stops()).toBe(1);
  });

  test("is shown with the available data if nothing more arrives", () => {
    store.receive([late(30)]);
    vi.advanceTimersByTime(2000);
    store.receive([records({ seq: 25 })]);
    vi.advanceTimersByTime(2000);
    expect(store.stop()).toBeUndefined();
    vi.advanceTimersByTime(1500);
    expect([store.stop()?.node, store.stops()]).toEqual([3, 1]);
    store.receive([records({ seq: 31 })]);
    expect([store.stop()?.node, store.stops()]).toEqual([3, 1]);
  });

  test("is shown at once if the run is not recorded", () => {
    open();
    store.receive([snapshot({ seq: 10, nodes: NODES }), late(30)]);
    expect(store.stop()?.node).toBe(3);
  });

  test("shows a requested pause as pending until it takes effect", async () => {
    const asking = store.control({ type: "pause" });
    expect(store.awaited()).toBe("pause");
    await asking;
    expect(store.awaited()).toBe("pause");
    store.receive([late(30)]);
    expect(store.awaited()).toBeUndefined();
  });

  test("shows a requested continue as pending until the program runs on", async () => {
    store.receive([late(10)]);
    const going = store.control({ type: "continue" });
    expect(store.awaited()).toBe("continue");
    await going;
    expect(store.awaited()).toBe("continue");
    store.receive([records({ seq: 11 })]);
    expect(store.awaited()).toBe("continue");
    // It may stop again before the page has seen it run.
    const info = session({ phase: "stopped", version: 6, stop: stopAt(1, "x", { seq: 12 }) });
    store.receive([{ type: "session", run: RUN, info }]);
    expect(store.awaited()).toBeUndefined();
    answer = () => {
      throw new Error("refused");
    };
    await store.control({ type: "continue" });
    expect(store.awaited()).toBeUndefined();
  });
});

describe("an error that ended the program", () => {
  const failed = (change = {}) => [
    snapshot({
      run: runInfo({ state: "recorded", status: 1, error: "ShapeError: no", ...change }),
      seq: 12,
      nodes: NODES,
      executions: columns([
        { seq: 10, node: 2 },
        { seq: 12, node: 3, flags: FAILED },
      ]),
    }),
  ];

  test("is shown at its node, in a recording and at the end of a live run", () => {
    store.receive(failed());
    expect(store.selection()).toEqual({ kind: "node", id: 3 });
    expect(store.isOpen("net/b")).toBe(true);
    expect(store.failure()).toBe(3);
    store.first.choose(new Set()); // the layout's choice comes later
    expect(store.isOpen("net/b")).toBe(true);
    open();
    store.receive([snapshot({ nodes: NODES })]);
    store.receive(failed({ state: "finished" }));
    expect(store.selection()).toEqual({ kind: "node", id: 3 });
  });

  test("is that of the last operation, though leaves are recorded once more at the end", () => {
    const leaf = node(4, "net/weight", { op: "parameter", family: "leaf", role: "parameter" });
    const executions = columns([
      { seq: 5, node: 2, step: 1 },
      { seq: 12, node: 3, step: 2, flags: FAILED },
      { seq: 14, node: 4, step: 2 },
    ]);
    const steps = [1, 2].map((step) => ({
      step,
      start_seq: step === 1 ? 1 : 9,
      start_ns: step,
      end_seq: step === 1 ? 8 : 13,
      end_ns: step + 1,
      observed: step === 1,
    }));
    const run = runInfo({ state: "finished", status: 1, error: "ShapeError: no" });
    store.receive([snapshot({ run, seq: 14, nodes: [...NODES, leaf], steps, executions })]);
    expect(store.failure()).toBe(3);
    expect(store.selection()).toEqual({ kind: "node", id: 3 });
    // Nothing else was observed in that step: nodes that ran in an earlier step did not run in it.
    expect(seenStep(store)).toBe(2);
    expect(earlierStep(store)).toBeUndefined();
  });

  test("does not replace the user's selection", () => {
    store.receive([snapshot({ nodes: NODES })]);
    store.select({ kind: "node", id: 1 });
    store.receive(failed({ state: "finished" }));
    expect(store.selection()).toEqual({ kind: "node", id: 1 });
  });

  test("is marked as soon as it stops the program, at the node that raised", () => {
    const raised = (error: string) => {
      const stop = stopAt(3, "net/b/tanh", { seq: 12, reason: "exception", error });
      const stopped = session({ phase: "stopped", version: 3, stop });
      store.receive([snapshot({ seq: 12, nodes: NODES, session: stopped })]);
    };
    raised("");
    expect([store.raised(), store.failure()]).toEqual([3, 0]);
    raised("KeyError: 2");
    expect(store.raised()).toBe(0);
  });

  test("is not one that the program has caught", () => {
    store.receive(failed({ status: 0, error: "" }));
    expect([store.selection(), store.failure()]).toEqual([undefined, 0]);
  });
});
