import { createRoot } from "solid-js";
import { expect, test } from "vitest";
import type { StepChanges } from "@/store/history/changes";
import { createChanges } from "@/store/history/changes_query";
import { type Requests, Store } from "@/store/page/store";
import { columns, node, RUN, records, runInfo, session, snapshot, stopAt } from "@/wire/fixtures";
import type { RequestBody } from "@/wire/types.gen";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const row = (step: number, start: number, end: number | null) => ({
  step,
  start_seq: start,
  start_ns: start,
  end_seq: end,
  end_ns: end,
  observed: true,
});
const moved = (phase: "running" | "stopped", version: number) =>
  ({
    type: "session",
    run: RUN,
    info: session({
      phase,
      version,
      stop: phase === "stopped" ? stopAt(1, "a", { step: 3, seq: 20 + version }) : null,
    }),
  }) as const;

test("the executions of a step are requested once, and a step to the next node changes nothing", async () => {
  const requests: RequestBody[] = [];
  let changes: () => StepChanges | undefined = () => undefined;
  const store = createRoot(() => {
    const store = new Store();
    changes = createChanges(store);
    return store;
  });
  const state = columns([
    { seq: 12, node: 1, step: 2 },
    { seq: 5, node: 2, step: 1 },
  ]);
  store.attach({
    request: ((body: RequestBody) => {
      requests.push(body);
      return Promise.resolve(
        body.type === "get_state"
          ? {
              type: "state_at",
              since: null,
              gone: [],
              steps: [],
              seq: body.seq,
              step: 2,
              time_ns: 0,
              executions: state,
            }
          : { type: "done" },
      );
    }) as Requests["request"],
  });
  store.runsChanged([runInfo()]);
  store.receive([
    snapshot({
      seq: 21,
      nodes: [node(1, "a"), node(2, "b")],
      node_seqs: [2, 3],
      steps: [row(1, 1, 10), row(2, 11, 20), row(3, 21, null)],
    }),
    moved("stopped", 1),
  ]);
  await settled();
  expect(changes()?.step).toBe(2);
  expect(changes()?.counts).toEqual({ new: 0, rewired: 0, skipped: 1 });
  const before = changes();
  store.receive([moved("running", 2)]);
  expect(changes()).toBe(before);
  store.receive([records({ seq: 23, executions: columns([{ seq: 23, node: 1, step: 3 }]) })]);
  store.receive([moved("stopped", 3)]);
  await settled();
  expect(changes()).toBe(before);
  expect(requests.filter((body) => body.type === "get_state")).toEqual([
    { type: "get_state", run: RUN, seq: 20 },
  ]);
});

test.each([
  ["an error", { state: "finished", status: 1, error: "ValueError: no" }],
  ["Ctrl-C, opened later", { state: "recorded", status: 130, error: "KeyboardInterrupt" }],
  ["a kill", { state: "lost", status: null }],
] as const)("a step ended by %s has skipped nothing", async (_, end) => {
  for (const [change, skipped] of [
    [end, 0],
    [{ state: "finished", status: 0 } as const, 1],
  ] as const) {
    let changes: () => StepChanges | undefined = () => undefined;
    const store = createRoot(() => {
      const store = new Store();
      changes = createChanges(store);
      return store;
    });
    const executions = columns([
      { seq: 12, node: 1, step: 2 },
      { seq: 5, node: 2, step: 1 },
    ]);
    store.attach({
      request: ((body: RequestBody) =>
        Promise.resolve(
          body.type === "get_state"
            ? {
                type: "state_at",
                since: null,
                gone: [],
                steps: [],
                seq: body.seq,
                step: 2,
                time_ns: 0,
                executions,
              }
            : { type: "done" },
        )) as Requests["request"],
    });
    const info = runInfo(change);
    store.runsChanged([info]);
    store.receive([
      snapshot({
        run: info,
        seq: 20,
        nodes: [node(1, "a"), node(2, "b")],
        node_seqs: [2, 3],
        steps: [row(1, 1, 10), row(2, 11, 20)],
      }),
    ]);
    await settled();
    expect(changes()?.counts.skipped ?? 0).toBe(skipped);
  }
});
