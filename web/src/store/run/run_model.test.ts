import { describe, expect, test } from "vitest";
import { NodeColumns } from "@/store/run/columns";
import {
  earlierStep,
  earlierWords,
  failedLast,
  gradientOf,
  isAfter,
  lastObserved,
  leftOutAt,
  MAX_LOGS,
  type RunMessage,
  type RunModel,
  raisedIn,
  ranAfterStep,
  seenWhileRunning,
  standsAfter,
  stepAt,
  stepShown,
  update,
  withStepsAround,
} from "@/store/run/run_model";
import { decodeExecutions } from "@/wire/decode";
import {
  columns,
  fieldsOf,
  node,
  produced,
  records,
  runInfo,
  session,
  snapshot,
} from "@/wire/fixtures";
import { FAILED, type Governed, type Keeping, type Stop } from "@/wire/types.gen";

function play(...messages: readonly RunMessage[]): RunModel {
  let model: RunModel | undefined;
  for (const message of messages) model = update(model, message);
  if (model === undefined) throw new Error("no snapshot was played");
  return model;
}

const STEP_1 = { step: 1, start_seq: 1, start_ns: 0, end_seq: null, end_ns: null, observed: true };
const LINE = { seq: 3, step: 1, time_ns: 5, stream: "stdout", text: "hello" } as const;

describe("replay", () => {
  test("a snapshot and later records give the same model as a later snapshot", () => {
    const first = [node(1, "a/x"), node(2, "a/y")];
    const rows = [
      { seq: 1, node: 1 },
      { seq: 2, node: 2 },
      { seq: 4, node: 1, step: 2, flags: 1 },
    ];
    const replayed = play(
      snapshot({ seq: 1, nodes: first.slice(0, 1), values: [produced(1, "a/x")], steps: [STEP_1] }),
      records({ seq: 3, nodes: first.slice(1), values: [produced(2, "a/y")], logs: [LINE] }),
      records({
        seq: 4,
        steps: [
          { ...STEP_1, end_seq: 3, end_ns: 9 },
          { ...STEP_1, step: 2, start_seq: 4 },
        ],
        gradients: [{ seq: 4, value: 1, gradient: 2 }],
      }),
    );
    const fresh = play(
      snapshot({
        seq: 4,
        nodes: first,
        values: [produced(1, "a/x"), produced(2, "a/y")],
        logs: [LINE],
        steps: [
          { ...STEP_1, end_seq: 3, end_ns: 9 },
          { ...STEP_1, step: 2, start_seq: 4 },
        ],
        gradients: [{ seq: 4, value: 1, gradient: 2 }],
      }),
    );
    const plain = ({ graph, ...rest }: RunModel) => {
      const { origin, ...same } = graph;
      const maps = { byName: new Map(graph.byName), values: new Map(graph.values) };
      const nodes = graph.nodes.map((one) => one && fieldsOf(one));
      return { ...rest, graph: { ...same, ...maps, nodes, version: 0 } };
    };
    expect(plain(replayed)).toEqual(plain(fresh));

    const live = new NodeColumns();
    for (const row of rows) live.apply(decodeExecutions(columns([row])));
    const whole = new NodeColumns();
    whole.apply(
      decodeExecutions(
        columns([
          { seq: 2, node: 2, times: 1 },
          { seq: 4, node: 1, step: 2, flags: 1, times: 2 },
        ]),
      ),
    );
    expect(live).toEqual(whole);
  });

  test("repeated records change nothing", () => {
    const more = records({
      seq: 2,
      gradients: [{ seq: 2, value: 1, gradient: 3 }],
      steps: [STEP_1],
    });
    const once = play(snapshot({ seq: 1 }), more);
    expect(play(snapshot({ seq: 1 }), more, more)).toEqual(once);
    const columnsOnce = new NodeColumns();
    columnsOnce.apply(decodeExecutions(columns([{ seq: 1, node: 1 }])));
    columnsOnce.apply(decodeExecutions(columns([{ seq: 1, node: 1 }])));
    expect(columnsOnce.times[1]).toBe(1);
  });
});

describe("update", () => {
  test("shares what a message does not touch", () => {
    const before = play(snapshot({ nodes: [node(1, "x")] }));
    const after = update(before, records({ seq: 5 }));
    expect(after?.graph).toBe(before.graph);
    expect(after?.logs).toBe(before.logs);
    expect(update(before, records({ run: "fedcba9876543210", seq: 9 }))).toBe(before);
  });

  test("a redefined node keeps its place", () => {
    const model = play(
      snapshot({ nodes: [node(1, "x"), node(2, "y")] }),
      records({ nodes: [node(1, "x", { inputs: [2] })] }),
    );
    expect(model.graph.count).toBe(2);
    expect(model.graph.nodes[1]?.inputs).toEqual([2]);
    expect(model.graph.version).toBe(2);
  });

  test("an older session state does not replace a newer one", () => {
    const model = play(snapshot({ session: session({ version: 5, phase: "stopped" }) }), {
      type: "session",
      run: runInfo().id,
      info: session({ version: 4 }),
    });
    expect(model.session?.phase).toBe("stopped");
  });

  test("logs are bounded, and the lines cut are counted", () => {
    const logs = Array.from({ length: MAX_LOGS + 10 }, (_, i) => ({ ...LINE, seq: i }));
    const model = play(snapshot({}), records({ logs }));
    expect(model.logs).toHaveLength(MAX_LOGS);
    expect(model.logsCut).toBe(10);
    expect(model.logs.at(-1)?.seq).toBe(MAX_LOGS + 9);
  });

  test("the end of a run updates its info", () => {
    const model = play(snapshot({}), {
      type: "run",
      run: runInfo({ state: "finished", status: 0 }),
    });
    expect(model.info.state).toBe("finished");
  });
});

test("gradients and steps are looked up by moment", () => {
  const model = play(
    snapshot({
      gradients: [
        { seq: 10, value: 1, gradient: 7 },
        { seq: 20, value: 1, gradient: 8 },
      ],
      steps: [STEP_1, { ...STEP_1, step: 2, start_seq: 15 }],
    }),
  );
  expect(gradientOf(model, 1, 9)).toBeUndefined();
  expect(gradientOf(model, 1, 19)).toBe(7);
  expect(gradientOf(model, 1, undefined)).toBe(8);
  expect(stepAt(model.steps, 14)?.step).toBe(1);
  expect(stepAt(model.steps, 15)?.step).toBe(2);
  expect(stepAt(model.steps, 0)).toBeUndefined();
  const ended = { ...STEP_1, end_seq: 13 };
  expect([12, 13, 14].map((seq) => isAfter(ended, seq))).toEqual([false, false, true]);
  expect(isAfter({ ...ended, end_seq: null }, 99)).toBe(false);
  expect(isAfter(undefined, 99)).toBe(false);
});

test("a moment in an unobserved step belongs to that step", () => {
  const step = { step: 2, start_seq: 8, start_ns: 0, end_seq: 13, end_ns: 9, observed: true };
  const steps = [step, { ...step, step: 3, start_seq: 14, end_seq: 15, observed: false }];
  const at = (seq: number | null): number =>
    stepShown({ model: () => ({ steps }) as never, seq: () => seq, step: () => 2 });
  expect([12, 13, 14, null].map(at)).toEqual([2, 2, 3, 2]);
});

test("the last execution came after the step shown, or within it", () => {
  const step = { step: 4, start_seq: 8, start_ns: 0, end_seq: 13, end_ns: 9, observed: true };
  const ran = (lastSeq: number, shown = 4): boolean =>
    ranAfterStep({
      model: () => ({ steps: [step, { ...step, step: 5, start_seq: 20, end_seq: 21 }] }) as never,
      step: () => shown,
      shown: () => ({ lastSeq }),
    });
  expect([12, 13, 14].map((seq) => ran(seq))).toEqual([false, false, true]);
  // Step 5 runs unobserved: the last observed executions belong to step 4.
  expect(ran(14, 5)).toBe(false);
});

test("the end of a program that raised is in its last step, unless something ran after it", () => {
  const ended = { step: 4, start_seq: 8, start_ns: 0, end_seq: 13, end_ns: 9, observed: true };
  const graph = { nodes: [undefined, node(1, "w", { role: "parameter" }), node(2, "loss")] };
  const failed = {
    steps: [ended],
    seq: 20,
    graph,
    info: { error: "ShapeError: no", state: "finished" },
  } as unknown as RunModel;
  const ran = (seq: number) => ({ seq: [0, 19, seq], lastSeq: 19 }) as unknown as NodeColumns;
  expect(raisedIn(ended, failed, ran(12))).toBe(true);
  expect(raisedIn(ended, failed, ran(15))).toBe(false);
  expect(raisedIn({ ...ended, step: 3 }, failed, ran(12))).toBe(false);
  const finished = { ...failed, info: { error: "", state: "finished" } } as unknown as RunModel;
  expect(raisedIn(ended, finished, ran(12))).toBe(false);
  const stop = { error: "ValueError: no", step: 2 } as Stop;
  const live = {
    ...failed,
    info: { error: "", state: "live" },
    session: { stop },
  } as unknown as RunModel;
  expect(raisedIn(ended, live, ran(12))).toBe(true);

  const after = (model: RunModel, at: number, halted?: Stop): boolean =>
    standsAfter({ model: () => model, seq: () => null, stop: () => halted, live: ran(at) });
  expect(after(failed, 12)).toBe(false);
  expect(after(failed, 15)).toBe(true);
  expect(after(finished, 12)).toBe(true);
  expect(after(live, 12, stop)).toBe(false);
});

test("of tasks that failed because of another, the first to fail ended the program", () => {
  const task = { role: "task" } as const;
  const nodes = [
    undefined,
    node(1, "load", { ...task, outputs: [1] }),
    node(2, "mean", { ...task, inputs: [1], outputs: [2] }),
    node(3, "report", { ...task, inputs: [2], outputs: [3] }),
    node(4, "show", { ...task, inputs: [3], outputs: [4] }),
  ];
  const model = { graph: { nodes } } as unknown as RunModel;
  const ran = (flags: readonly number[]) =>
    ({ seq: [0, 1, 2, 3, 4], flags }) as unknown as NodeColumns;
  expect(failedLast(model, ran([0, 0, FAILED, FAILED, FAILED]))).toBe(2);
  expect(failedLast(model, ran([0, 0, 0, 0, FAILED]))).toBe(4);
  expect(failedLast(model, ran([0, 0, FAILED, 0, 0]))).toBe(0);
});

describe("steps that the governor left out", () => {
  const WHY = "to stay below 2×";
  const rows = [
    { ...STEP_1, end_seq: 5, end_ns: 1 },
    { ...STEP_1, step: 2, start_seq: 6, end_seq: 7, end_ns: 2, observed: false },
  ];

  test("are reported for a moment within them, not before or after", () => {
    expect(leftOutAt(rows, 5, WHY)).toBe("");
    expect(leftOutAt(rows, 6, WHY)).toContain("Values of step 2 were not recorded");
    expect(leftOutAt(rows, 8, WHY)).toBe("");
  });

  test("are named in a note, unlike a step that has not reached the node yet", () => {
    expect(earlierWords(rows, 1, 2, WHY)).toBe(
      "From step 1; step 2 ran unobserved, to stay below 2×.",
    );
    expect(earlierWords([], 1, 2, WHY)).toBe("From step 1; hasn't run yet in step 2.");
  });

  test("are replaced by the last observed step", () => {
    expect(lastObserved(rows, 1)).toBe(1);
    expect(lastObserved(rows, 2)).toBe(1);
    expect(lastObserved(rows.slice(1), 2)).toBe(2); // nothing was observed before
    expect(lastObserved(rows, 3)).toBe(3);
    expect(seenWhileRunning(rows, rows[1])).toBe(rows[0]);
    expect(seenWhileRunning(rows, rows[2])).toBe(rows[2]);
    expect(seenWhileRunning(rows.slice(1), rows[1])).toBe(rows[1]);
  });

  test("make the graph show an earlier step", () => {
    const at = (step: number, state: string, stop?: object, seq: number | null = null) =>
      earlierStep({
        model: () => ({ steps: rows, info: { state } }) as unknown as RunModel,
        stop: () => stop,
        seq: () => seq,
        step: () => step,
      });
    expect(at(2, "finished")).toBe(1);
    expect(at(3, "finished")).toBeUndefined();
    expect(at(2, "live")).toBeUndefined(); // while the program runs
    expect(at(2, "live", {})).toBe(1);
    expect(at(1, "live", undefined, rows[1]?.start_seq)).toBe(1);
  });

  test("keep the governor's last report while records bring no new one", () => {
    const report = { limit: 1.5, slowdown: 1.4, steps: 10, steps_left_out: 7 } as Governed;
    const first = update(undefined, snapshot({ governed: report }));
    expect(update(first, records({ seq: 3 }))?.governed).toBe(report);
  });
});

test("of very many steps, those around a moment are added with it", () => {
  const step = (number: number) => ({
    step: number,
    start_seq: 10 * number,
    start_ns: 0,
    end_seq: 10 * number + 9,
    end_ns: 0,
    observed: true,
  });
  const model = play(snapshot({ seq: 1000, steps: [step(1), step(50), step(99), step(100)] }));
  expect(stepAt(model.steps, 505)?.step).toBe(50);
  expect(stepAt(model.steps, 704)).toBeUndefined();
  const near = withStepsAround(model, [step(69), step(70), step(71)]);
  expect(near?.steps.map((step) => step.step)).toEqual([1, 50, 69, 70, 71, 99, 100]);
  expect(stepAt(near?.steps ?? [], 704)?.step).toBe(70);
  expect(withStepsAround(model, [])).toBe(model);
  expect(withStepsAround(undefined, [step(1)])).toBeUndefined();
});

test("records about what is kept are not events of the program", () => {
  const keeping = { level: "summary", nodes: [3] as readonly number[] } as Keeping;
  const before = play(snapshot({ seq: 8 }), records({ seq: 9, logs: [LINE] }));
  const selected = update(before, records({ seq: 10, last_event: 0, keeping }));
  expect(selected?.seq).toBe(10);
  expect(selected?.keeping?.nodes).toEqual([3]);
  expect(selected?.lastEvent).toBe(9);
  expect(update(selected, records({ seq: 11, logs: [LINE], keeping }))?.lastEvent).toBe(11);
  // A reloaded page counts the same.
  expect(play(snapshot({ seq: 10, last_event: 9, keeping }))?.lastEvent).toBe(9);
});
