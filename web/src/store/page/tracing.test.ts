import { createRoot } from "solid-js";
import { beforeEach, describe, expect, test } from "vitest";
import { Store } from "@/store/page/store";
import { createTracing, type Tracing } from "@/store/page/tracing";
import type { Item } from "@/store/page/url";
import { node, produced, RUN, runInfo, snapshot } from "@/wire/fixtures";

// w, x -> net/matmul -> net/tanh -> loss/mean;  y has no edges
const NODES = [
  node(1, "w", { role: "parameter" }),
  node(2, "x", { role: "input" }),
  node(3, "net/matmul", { inputs: [1, 2] }),
  node(4, "net/tanh", { inputs: [3] }),
  node(5, "loss/mean", { inputs: [4] }),
  node(6, "y"),
];
let store: Store;
let tracing: Tracing;

beforeEach(() =>
  createRoot(() => {
    store = new Store();
    tracing = createTracing(store);
    store.runsChanged([runInfo(), runInfo({ id: "ff".repeat(8) })]);
    const values = NODES.map(({ id, name }) => produced(id, name));
    store.receive([snapshot({ run: runInfo({ id: RUN }), nodes: NODES, values })]);
  }),
);

const at = (item: number | string): void => {
  const wanted: Item =
    typeof item === "number" ? { kind: "node", id: item } : { kind: "scope", path: item };
  store.select(wanted);
};
const shown = () => tracing.shown();
const said = () => store.notices().at(-1)?.text;

describe("inputs and outputs", () => {
  test("go one step further each time, up to the end", () => {
    at(5);
    tracing.trace("inputs");
    expect(shown()).toMatchObject({ from: "loss/mean", depth: 1, more: true });
    expect(shown()?.words).toBe("1 operation");
    tracing.trace("inputs");
    tracing.trace("inputs");
    expect(shown()?.words).toBe("2 operations, 1 parameter and 1 input");
    expect([...(shown()?.path.nodes ?? [])]).toEqual([
      [4, "1"],
      [3, "2"],
      [1, "3"],
      [2, "3"],
    ]);
    tracing.trace("inputs");
    expect(shown()).toMatchObject({ depth: 3, more: false });
  });

  test("start again for another item or direction", () => {
    at(5);
    tracing.trace("inputs");
    tracing.trace("inputs");
    at(3);
    tracing.trace("inputs");
    expect(shown()?.depth).toBe(1);
    tracing.trace("outputs");
    expect(shown()).toMatchObject({ kind: "outputs", depth: 1, words: "1 operation" });
  });

  test("of a scope are those of all nodes inside", () => {
    at("net");
    tracing.trace("outputs", Number.POSITIVE_INFINITY);
    expect(shown()?.words).toBe("1 operation");
    expect([...(shown()?.ids ?? [])].sort()).toEqual([3, 4, 5]);
    tracing.trace("inputs");
    expect(shown()?.words).toBe("1 parameter and 1 input");
  });

  test("have a depth of at least one", () => {
    at(5);
    tracing.trace("inputs");
    tracing.setDepth(0);
    expect(shown()?.depth).toBe(1);
  });

  test("without a selection ask the user to select something", () => {
    tracing.trace("inputs");
    expect(shown()).toBeUndefined();
    expect(said()).toBe("Select a node or a scope to trace from.");
  });

  test("say so if there are none", () => {
    at(6);
    tracing.trace("inputs");
    expect(shown()).toMatchObject({ words: "none", more: false });
  });
});

describe("paths", () => {
  const between = (a: number | string, b: number | string): void => {
    at(a);
    tracing.join();
    at(b);
    tracing.join();
  };

  test("are requested at one end and then at the other", () => {
    at(1);
    tracing.join();
    expect(shown()).toMatchObject({ from: "w", to: undefined });
    expect(shown()?.ids.size).toBe(0);
    at(5);
    tracing.join();
    expect(shown()).toMatchObject({ from: "w", to: "loss/mean" });
    expect(shown()?.words).toBe("2 operations; the shortest path has 3 edges");
  });

  test("are found in the other direction too", () => {
    between(5, "net");
    expect(shown()).toMatchObject({ from: "net", to: "loss/mean" });
    expect(shown()?.words).toBe("nothing between; the shortest path has 1 edge");
  });

  test("that do not exist are reported", () => {
    between(6, 5);
    expect(shown()?.words).toBe("no path, in either direction");
  });

  test("need another node as their end", () => {
    between("net", 3);
    expect(shown()?.to).toBeUndefined();
    expect(said()).toMatch("select another one");
    at(5);
    tracing.join();
    expect(shown()?.to).toBe("loss/mean");
  });
});

test("traced nodes are visited in the graph's order, wrapping around", () => {
  at(5);
  tracing.trace("inputs", 2);
  const walk = (direction: 1 | -1): number | undefined => {
    const id = tracing.next(direction);
    if (id !== undefined) at(id);
    return id;
  };
  expect([walk(1), walk(1), walk(1), walk(-1)]).toEqual([3, 4, 5, 4]);
});

test("a trace ends on request, or with its run", () => {
  at(5);
  tracing.trace("inputs");
  tracing.end();
  expect(shown()).toBeUndefined();
  tracing.trace("inputs");
  store.openRun("ff".repeat(8));
  expect(shown()).toBeUndefined();
});
