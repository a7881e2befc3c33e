import { describe, expect, test } from "vitest";
import {
  changesOf,
  countsByScope,
  isNews,
  type RanIn,
  ranIn,
  subjectStep,
} from "@/store/history/changes";
import {
  lastRewiring,
  MAX_REWIRINGS,
  NO_HISTORY,
  withDefinitions,
} from "@/store/run/graph_history";
import { type RunMessage, type RunModel, update } from "@/store/run/run_model";
import { decodeExecutions } from "@/wire/decode";
import { columns, node, records, snapshot } from "@/wire/fixtures";
import type { Node } from "@/wire/types.gen";

const step = (number: number, start: number, end: number | null) => ({
  step: number,
  start_seq: start,
  start_ns: start,
  end_seq: end,
  end_ns: end,
  observed: true,
});

function defined(...rows: readonly (readonly [number, Node])[]) {
  return { nodes: rows.map((row) => row[1]), node_seqs: rows.map((row) => row[0]) };
}

function play(...messages: readonly RunMessage[]): RunModel {
  let model: RunModel | undefined;
  for (const message of messages) model = update(model, message);
  if (model === undefined) throw new Error("the first message is a snapshot");
  return model;
}

/** Three steps: 1 has x, a, loss; 2 adds b and reads it in loss; 3 skips b, loss reads a again. */
const STEPS = [step(1, 1, 10), step(2, 11, 20), step(3, 21, 30)];
const ALL = defined(
  [2, node(1, "x", { family: "leaf", role: "parameter" })],
  [3, node(2, "net/a", { inputs: [1] })],
  [5, node(3, "loss", { inputs: [2] })],
  [13, node(4, "net/b", { inputs: [2] })],
  [14, node(3, "loss", { inputs: [4] })],
  [24, node(3, "loss", { inputs: [2] })],
);
const MODEL = play(snapshot({ seq: 30, steps: STEPS, ...ALL }));
const RAN_3 = ranIn(
  decodeExecutions(
    columns([
      { seq: 2, node: 1, step: 1 },
      { seq: 15, node: 4, step: 2 },
      { seq: 23, node: 2, step: 3 },
      { seq: 25, node: 3, step: 3 },
    ]),
  ),
  3,
);

function changes(number: number, ran: RanIn | undefined, model = MODEL) {
  const row = model.steps.find((step) => step.step === number);
  if (row === undefined) throw new Error(`no step ${number}`);
  return changesOf(model.graph, model.steps, row, ran);
}

describe("a step's changes", () => {
  test("include new nodes, and nodes with changed inputs", () => {
    const marked = changes(2, undefined);
    expect([...marked.marks]).toEqual([
      [4, "new"],
      [3, "rewired"],
    ]);
    expect(marked.rewired.get(3)).toMatchObject({ before: [2], after: [4] });
    expect(marked.counts).toEqual({ new: 1, rewired: 1, skipped: 0 });
    expect(marked.complete).toBe(false);
  });

  test("include nodes of earlier steps that did not run, but never parameters", () => {
    const marked = changes(3, RAN_3);
    expect(marked.marks.get(4)).toBe("skipped");
    expect(marked.counts).toEqual({ new: 0, rewired: 1, skipped: 1 });
    expect(marked.complete).toBe(true);
    expect(isNews(marked, RAN_3)).toBe(true);
  });

  test("contain no skipped nodes while the step is not over", () => {
    expect(changes(3, undefined).counts.skipped).toBe(0);
  });

  test("contain no skipped nodes in an unobserved step", () => {
    const steps = [...STEPS.slice(0, 2), { ...step(3, 21, 30), observed: false }];
    const model = play(snapshot({ seq: 30, steps, ...ALL }));
    expect(changes(3, RAN_3, model).counts).toEqual({ new: 0, rewired: 1, skipped: 0 });
  });

  test("are not news if the nodes were also skipped in the previous step", () => {
    const model = play(
      snapshot({ steps: STEPS, ...defined([3, node(1, "a")], [4, node(2, "b")]) }),
    );
    const rows = columns([
      { seq: 4, node: 2, step: 1 },
      { seq: 25, node: 1, step: 3 },
    ]);
    const ran = ranIn(decodeExecutions(rows), 3);
    const marked = changes(3, ran, model);
    expect(marked.counts.skipped).toBe(1);
    expect(isNews(marked, ran)).toBe(false);
  });

  test("do not count nodes that ran between steps as skipped", () => {
    const more = defined([3, node(1, "a")], [15, node(2, "evaluation/b")]);
    const model = play(snapshot({ steps: [step(1, 1, 10), step(2, 21, 30)], ...more }));
    const rows = columns([{ seq: 25, node: 1, step: 2 }]);
    const marked = changes(2, ranIn(decodeExecutions(rows), 2), model);
    expect([...marked.marks]).toEqual([]);
  });

  test("do not include a rewiring that is undone within the step", () => {
    const again = defined([25, node(3, "loss", { inputs: [4] })]);
    expect(
      changes(3, RAN_3, play(snapshot({ steps: STEPS, ...ALL }), records(again))).rewired.size,
    ).toBe(0);
  });

  test("are counted by scope, including everything inside", () => {
    expect(countsByScope(MODEL.graph, changes(2, undefined)).get("net")).toEqual({
      new: 1,
      rewired: 0,
      skipped: 0,
    });
  });
});

describe("the step whose changes are shown", () => {
  const shown = (number: number, past = false, model = MODEL) =>
    subjectStep(model.graph, model.steps, number, past)?.step;

  test("is that of the moment; the first step has no changes", () => {
    expect(shown(3)).toBe(3);
    expect(shown(2, true)).toBe(2);
    expect(shown(1, true)).toBeUndefined();
    expect(shown(0)).toBeUndefined();
  });

  test("is the previous one while the running step has changed nothing", () => {
    const running = [...STEPS, step(4, 31, null)];
    const model = play(snapshot({ steps: running, ...ALL }));
    expect(shown(4, false, model)).toBe(3);
    const more = play(
      snapshot({ steps: running, ...ALL }),
      records(defined([33, node(5, "net/c", { inputs: [2] })])),
    );
    expect(shown(4, false, more)).toBe(4);
  });
});

describe("the history of definitions", () => {
  test("is the same live and from a snapshot", () => {
    const live = play(
      snapshot({ steps: STEPS }),
      ...ALL.nodes.map((node, i) => records({ nodes: [node], node_seqs: [ALL.node_seqs[i] ?? 0] })),
    );
    expect(live.graph.history).toEqual(MODEL.graph.history);
  });

  test("knows the last rewiring up to a moment", () => {
    const { history } = MODEL.graph;
    expect(lastRewiring(history, 3, 20)?.after).toEqual([4]);
    expect(lastRewiring(history, 3, 99)?.after).toEqual([2]);
    expect(lastRewiring(history, 3, 13)).toBeUndefined();
  });

  test("keeps a limited number of rewirings, and says since when it is complete", () => {
    const known = [undefined, node(1, "a", { inputs: [0] })];
    const many = Array.from({ length: MAX_REWIRINGS + 5 }, (_, i) =>
      node(1, "a", { inputs: [i % 2 === 0 ? 8 : 9] }),
    );
    const seqs = many.map((_, i) => 100 + i);
    const history = withDefinitions(NO_HISTORY, known, many, seqs);
    expect(history.rewirings).toHaveLength(MAX_REWIRINGS);
    expect(history.since).toBe(105);
  });
});
