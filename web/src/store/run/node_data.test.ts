import { describe, expect, test } from "vitest";
import { type NodeData, readNodeData } from "@/store/run/node_data";
import { update } from "@/store/run/run_model";
import { node, snapshot } from "@/wire/fixtures";

const NODES = [node(1, "net/matmul"), node(2, "net/tanh"), node(3, "loss")];

function read(file: unknown): NodeData | string {
  const model = update(undefined, snapshot({ nodes: NODES }));
  if (model === undefined) throw new Error("a snapshot gives a model");
  return readNodeData(typeof file === "string" ? file : JSON.stringify(file), model.graph);
}

function data(file: unknown): NodeData {
  const answer = read(file);
  if (typeof answer === "string") throw new Error(answer);
  return answer;
}

test("numbers are read by the names of nodes", () => {
  const { values, unknown } = data({
    results: { "net/matmul": { value: 1.5 }, "net/tanh": { value: "2e-3" }, gone: { value: 7 } },
  });
  expect([...values]).toEqual([
    [1, 1.5],
    [2, 0.002],
  ]);
  expect(unknown).toBe(1);
});

test("numbers are read from several graphs, by id, and as bare values", () => {
  const { values } = data({
    first: { results: { "#3": { value: 1 } } },
    second: { results: { 2: 5, loss: { value: "slow" } } },
  });
  expect([...values]).toEqual([
    [3, 1],
    [2, 5],
  ]);
});

describe("colours", () => {
  const results = { "net/matmul": { value: 0 }, "net/tanh": { value: 10 } };

  test("come from the first threshold that is not below the number", () => {
    const thresholds = [
      { value: 8, bgColor: "#00ff00" },
      { value: 2, bgColor: "#f00" },
    ];
    const { colour } = data({ results, thresholds });
    expect([1, 2, 3, 9].map((value) => colour?.(value))).toEqual([
      "#f00",
      "#f00",
      "#00ff00",
      undefined,
    ]);
  });

  test("are interpolated between the stops of a gradient", () => {
    const gradient = [
      { stop: 0, bgColor: "#000000" },
      { stop: 0.5, bgColor: "#0000ff" },
      { stop: 1, bgColor: "#fff" },
    ];
    const { colour } = data({ results, gradient });
    expect([-1, 0, 2.5, 5, 10, 11].map((value) => colour?.(value))).toEqual([
      "#000000",
      "#000000",
      "#000080",
      "#0000ff",
      "#ffffff",
      "#ffffff",
    ]);
  });

  test("that are invalid are ignored", () => {
    const thresholds = [{ value: 1, bgColor: "url(https://example.com)" }, null, { value: "x" }];
    expect(data({ results, thresholds }).colour).toBeUndefined();
    expect(data({ results, gradient: [{ stop: 0, bgColor: "#fff" }] }).colour).toBeUndefined();
  });
});

test.each([
  ["{", /^This is not JSON: /],
  ["[]", /^This is not node data/],
  [{ results: 7 }, /^This is not node data/],
  [{ nodes: [] }, /^This is not node data/],
  [{ results: {} }, "It has no numbers."],
  [{ results: { loss: { value: "slow" } } }, "It has no numbers."],
  [{ results: { a: 1, b: 2 } }, "None of its 2 names is a node of this graph."],
  [{ results: { "#99": 1 } }, "None of its 1 name is a node of this graph."],
])("the error in %j is reported", (file, words) => {
  expect(read(file)).toEqual(words instanceof RegExp ? expect.stringMatching(words) : words);
});
