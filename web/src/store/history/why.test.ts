import { createRoot, createSignal } from "solid-js";
import { beforeEach, describe, expect, test } from "vitest";
import {
  createWhy,
  inWords,
  linesOf,
  pathOf,
  shortened,
  spelled,
  type Why,
} from "@/store/history/why";
import { type Requests, Store } from "@/store/page/store";
import { createUi, type Ui } from "@/store/page/ui";
import { node, produced, RUN, records, runInfo, session, snapshot, stopAt } from "@/wire/fixtures";
import type { AskWhy, RequestBody, WhyGroup, WhyLink } from "@/wire/types.gen";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function link(id: number, change: Partial<WhyLink> = {}): WhyLink {
  return {
    kind: "passed",
    name: `n${id}`,
    op: "add",
    phase: "forward",
    node: id,
    value: id,
    seq: 10 + id,
    step: 1,
    at: [0],
    number: "nan",
    state: "nan",
    how: "recorded",
    words: "",
    operands: [],
    others: 0,
    birth: "",
    ranges: [],
    file: "/home/me/nan.py",
    line: id,
    code: "",
    culprit: false,
    error: "",
    recorded: "",
    ...change,
  };
}

const GROUP: WhyGroup = {
  count: 1,
  text: "n3 is nan (/home/me/nan.py:3), born of 1 (/home/me/nan.py:1)",
  links: [link(3), link(2), link(1, { kind: "birth", culprit: true })],
};

let questions: AskWhy[];
let setBranch: (branch: number) => void;
let store: Store;
let ui: Ui;
let why: Why;

beforeEach(async () => {
  questions = [];
  createRoot(() => {
    store = new Store();
    ui = createUi(undefined);
    const [branch, put] = createSignal(0);
    setBranch = (id) => void put(id);
    why = createWhy(store, ui, branch);
  });
  store.attach({
    request: ((body: RequestBody) => {
      if (body.type !== "ask_why") return Promise.resolve({ type: "done" });
      questions.push(body);
      return Promise.resolve({
        type: "why",
        value: body.value,
        seq: 13,
        elements: 1,
        followed: 1,
        groups: [GROUP],
        branch: body.branch,
      });
    }) as Requests["request"],
  });
  store.runsChanged([runInfo()]);
  store.receive([
    snapshot({
      seq: 20,
      nodes: [1, 2, 3, 9].map((id) => node(id, `n${id}`)),
      node_seqs: [1, 2, 3, 4],
      values: [1, 2, 3, 9].map((id) => produced(id, `n${id}`)),
    }),
    stop(1),
  ]);
  await settled();
});

const stop = (version: number) =>
  ({
    type: "session",
    run: RUN,
    info: session({ phase: "stopped", version, stop: stopAt(3, "n3", { seq: 19 + version }) }),
  }) as const;

describe("a question", () => {
  test("is about the selected node at the stop, and opens the tab", async () => {
    why.askSelected();
    await settled();
    expect(ui.inspectorTab()).toBe("why");
    expect(questions).toEqual([
      { type: "ask_why", run: RUN, value: 3, index: null, which: "", seq: 20, branch: 0 },
    ]);
    expect(why.group()).toEqual(GROUP);
  });

  test("stays for nodes on the chain, and is replaced for a node outside it", async () => {
    ui.setInspectorTab("why");
    await settled();
    store.select({ kind: "node", id: 1 });
    await settled();
    expect(questions.map((question) => question.value)).toEqual([3]);
    store.select({ kind: "node", id: 9 });
    await settled();
    expect(questions.map((question) => question.value)).toEqual([3, 9]);
  });

  test("is asked again when the program has stopped again", async () => {
    ui.setInspectorTab("why");
    await settled();
    store.receive([stop(2)]);
    await settled();
    expect(questions.map((question) => question.seq)).toEqual([20, 21]);
  });

  test("is about the branch shown, and follows a switch to the recorded values", async () => {
    setBranch(2);
    why.askSelected();
    await settled();
    setBranch(0);
    await settled();
    expect(questions.map(({ value, branch }) => [value, branch])).toEqual([
      [3, 2],
      [3, 0],
    ]);
  });

  test("is asked again about the edited value after an edit at the stop", async () => {
    why.ask(3, [1, 2]);
    await settled();
    const edited = stopAt(3, "n3", { seq: 20, edits: ["n3[1, 2] set to 7"] });
    store.receive([
      records({ seq: 21 }),
      { type: "session", run: RUN, info: session({ phase: "stopped", version: 2, stop: edited }) },
    ]);
    await settled();
    expect(questions.map((question) => question.seq)).toEqual([20, 21]);
    expect(why.question()).toMatchObject({ value: 3, index: [1, 2] });
  });

  test("about an operand can be left for the previous question", async () => {
    why.ask(3, [1, 2]);
    expect(why.canGoBack()).toBe(false);
    why.ask(2, [0], 12);
    await settled();
    expect(why.question()).toMatchObject({ value: 2, index: [0], seq: 12 });
    why.back();
    expect(why.question()).toMatchObject({ value: 3, index: [1, 2] });
    expect(why.canGoBack()).toBe(false);
  });

  test("is not asked, and marks nothing, while the tab is closed", async () => {
    why.ask(3);
    await settled();
    expect(why.path()?.culprit).toBe(1);
    ui.setInspectorTab("value");
    store.select({ kind: "node", id: 9 });
    await settled();
    expect(why.path()).toBeUndefined();
    expect(questions).toHaveLength(1);
  });

  test("marks nothing in another run", async () => {
    why.ask(3);
    why.ask(2);
    await settled();
    expect(why.path()?.culprit).toBe(1);
    store.openRun("another run");
    await settled();
    expect(why.question()).toBeUndefined();
    expect(why.path()).toBeUndefined();
    expect(why.canGoBack()).toBe(false);
  });
});

test("the path is numbered from the value in question", () => {
  const path = pathOf(GROUP);
  expect([...(path?.nodes ?? [])]).toEqual([
    [3, "1"],
    [2, "2"],
    [1, "3"],
  ]);
  expect(path?.edges).toEqual([
    [2, 3],
    [1, 2],
  ]);
  expect(path?.tone).toBe("nan");
  expect(pathOf({ ...GROUP, links: [link(1, { state: "finite" })] })?.tone).toBe("select");
  expect(pathOf(undefined)).toBeUndefined();
  // A finite number that led to a NaN is not marked as NaN, here as in the list.
  const mixed = { ...GROUP, links: [link(3), link(2), link(1, { state: "finite" })] };
  expect([...(pathOf(mixed)?.tones ?? [])].sort()).toEqual([
    [1, "select"],
    [2, "nan"],
    [3, "nan"],
  ]);
});

test("long rows of links that pass a number on are one line until unfolded", () => {
  const row = [...Array.from({ length: 7 }, (_, i) => link(20 - i)), link(1, { culprit: true })];
  const kinds = (unfolded: readonly number[]) =>
    linesOf(row, new Set(unfolded)).map((line) =>
      line.kind === "link" ? line.at : `${line.count} from ${line.from}`,
    );
  expect(kinds([])).toEqual([0, "5 from 1", 6, 7]);
  expect(kinds([1])).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(linesOf(GROUP.links, new Set())).toHaveLength(3);
});

test("numbers and files have the page's spelling", () => {
  expect(spelled("nan", "nan")).toBe("NaN");
  expect(spelled("-inf", "inf")).toBe("−Inf");
  expect(spelled("-1.5e-07", "finite")).toBe("−1.5e−07");
  expect(spelled("", "unknown")).toBe("?");
  expect(shortened(GROUP)).toBe("n3 is NaN (nan.py:3), born of 1 (nan.py:1)");
  expect(inWords("nan of nan/nan_1, nancy: nan.")).toBe("NaN of nan/nan_1, nancy: NaN.");
});
