import { describe, expect, it } from "vitest";
import {
  type CompareAddress,
  counterparts,
  errorBars,
  errorWords,
  kernelsOf,
  linksOf,
  measureWords,
  readCompare,
  ruleWords,
  worseFirst,
  writeCompare,
} from "@/store/history/compare";
import { node, tensor } from "@/wire/fixtures";
import type { ComparedFunction, ComparedNode, Kernel, Measure } from "@/wire/types.gen";

const MEASURE: Measure = {
  source: "arrays",
  equal: false,
  elements: 6,
  max_abs: 3e-8,
  max_rel: 1e-7,
  ulp: 1,
  mismatched: 0,
  nan: [0, 0],
  inf: [0, 0],
  why: "",
};

function compared(id: number, change: Partial<ComparedNode> = {}): ComparedNode {
  return {
    id,
    name: `n${id}`,
    op: "add",
    family: "elementwise",
    role: "op",
    phase: "forward",
    fate: "kept",
    by: [],
    into: [id],
    eager: id + 100,
    matched: "name",
    eager_ns: 10,
    values: [],
    ...change,
  };
}

function kernel(id: number, covers: readonly number[]): Kernel {
  return {
    id,
    name: `k${id}`,
    op: "fused",
    pattern: "elementwise",
    covers,
    run: 7,
    times: 3,
    ns: 5,
    eager_ns: 20,
    cost: null,
  };
}

// Nodes 1 and 2 became kernel 9, node 3 vanished, node 4 stayed.
const FUNCTION: ComparedFunction = {
  owner: "step#1",
  base: "",
  backend: "numpy",
  fallback: "",
  compile_ns: 1e6,
  steps: [1],
  stages: [],
  nodes: [
    compared(1, { fate: "fused", into: [9] }),
    compared(2, { fate: "fused", into: [9] }),
    compared(3, { fate: "eliminated", into: [] }),
    compared(4),
  ],
  kernels: [kernel(9, [1, 2]), kernel(4, [4])],
  fates: { fused: 2, eliminated: 1, kept: 1 },
  beside: [101, 102, 103, 104],
  unmatched: [],
  eager_ns: 40,
  compiled_ns: 10,
  unfused: [],
  memory: null,
};
const STAGE = [node(9, "k9", { origin: [1, 2] }), node(4, "n4", { origin: [4] })];

describe("links", () => {
  const links = linksOf(FUNCTION, STAGE);

  it("lead from an eager node to its kernel, and back to all nodes that the kernel covers", () => {
    expect(counterparts(links, { side: "eager", id: 101 }, "compiled")).toEqual(new Set([9]));
    expect(counterparts(links, { side: "compiled", id: 9 }, "eager")).toEqual(new Set([101, 102]));
  });

  it("lead nowhere from an eliminated node, nor to the same side", () => {
    expect(counterparts(links, { side: "eager", id: 103 }, "compiled").size).toBe(0);
    expect(counterparts(links, { side: "eager", id: 101 }, "eager").size).toBe(0);
    expect(counterparts(links, undefined, "eager").size).toBe(0);
  });

  it("name each kernel once", () => {
    expect(kernelsOf(links, FUNCTION.nodes).map((node) => node.id)).toEqual([9, 4]);
  });
});

it("errors are sorted by NaN and Inf, mismatches, then size", () => {
  const measure = (mismatched: number, max_abs: number, nan = 0) =>
    ({ nan: [0, nan], inf: [0, 0], mismatched, max_abs }) as unknown as Measure;
  const sorted = [measure(1, 6.58), measure(0, 90), measure(1, 51.4), measure(0, 0, 1)];
  expect(sorted.sort(worseFirst).map((error) => error.max_abs)).toEqual([0, 51.4, 6.58, 90]);
});

describe("words", () => {
  const spec = tensor([2, 3]);
  const value = { port: 0, eager: 1, compiled: 2, spec, steps: [1], why: "" };

  it("name an error, equality, or the reason for a missing value", () => {
    const errorText = (worst: Measure | null, why = ""): string =>
      errorWords(compared(1, { values: [{ ...value, worst, why }] }));
    expect(errorText(MEASURE)).toBe("3e−8 · 1 ulp");
    expect(errorText({ ...MEASURE, equal: true })).toBe("bit-equal");
    expect(errorText({ ...MEASURE, equal: true, source: "summaries" })).toBe("equal statistics");
    expect(errorText(null, "inside a kernel")).toBe("inside a kernel");
  });

  it("name differing NaN and Inf, even if all finite values agree", () => {
    const exact = { ...MEASURE, max_abs: 0, max_rel: 0, ulp: 0 };
    const nan = { ...exact, mismatched: 0.5, nan: [0, 3] as [number, number] };
    expect(measureWords(nan)).toBe("NaN 0 → 3");
    expect(measureWords({ ...MEASURE, inf: [1, 2000] })).toBe("Inf 1 → 2,000 · 3e−8 · 1 ulp");
    expect(measureWords({ ...exact, max_abs: null, mismatched: 0.5 })).toBe(
      "NaN or Inf at different positions",
    );
    expect(measureWords(exact)).toBe("zeros differ in sign");
    expect(measureWords({ ...exact, source: "summaries", mismatched: null })).toBe(
      "different statistics",
    );
    expect(measureWords({ ...exact, equal: true, nan: [2, 2] })).toBe("bit-equal");
  });

  it("become bars by step for the measured errors", () => {
    const none: Measure = { ...MEASURE, source: "none", max_abs: null, why: "no value" };
    const equal = { ...MEASURE, equal: true, max_abs: 0 };
    const nan: Measure = { ...MEASURE, max_abs: null, nan: [0, 1] };
    const half = { ...MEASURE, max_abs: 1.5e-8 };
    const bars = errorBars({
      node: 1,
      steps: [1, 2, 3, 4, 5],
      measures: [none, equal, nan, MEASURE, half],
    });
    expect(bars.map((bar) => [bar.step, bar.part, bar.odd])).toEqual([
      [2, 0, false],
      [3, 1, true],
      [4, 1, false],
      [5, 0.5, false],
    ]);
    expect(bars[1]?.words).toBe("NaN 0 → 1");
    // values that differ without a finite error are drawn as well
    const signs = { ...MEASURE, max_abs: 0, ulp: 0 };
    expect(errorBars({ node: 1, steps: [1], measures: [signs] })[0]?.part).toBeGreaterThan(0);
  });

  it("name rules without underscores", () => {
    expect(ruleWords("fuse/multiply_one")).toBe("fuse: multiply one");
    expect(ruleWords("dce")).toBe("dce");
  });
});

describe("the address", () => {
  const address: CompareAddress = {
    eager: "0123456789abcdef",
    compiled: "fedcba9876543210",
    owner: "step#1",
    stage: 2,
    picked: { side: "compiled", id: 9 },
    fate: "fused",
    tab: "nodes",
  };

  it("gives back what was written", () => {
    expect(readCompare(`#${writeCompare(address)}`)).toEqual(address);
    const plain = { ...address, owner: undefined, stage: undefined, picked: undefined };
    const bare = { ...plain, fate: undefined, tab: undefined };
    expect(writeCompare(bare)).toBe("compare=0123456789abcdef,fedcba9876543210");
    expect(readCompare(writeCompare(bare))).toEqual(bare);
  });

  it("ignores invalid parts", () => {
    expect(readCompare("#run=0123456789abcdef")).toBeUndefined();
    expect(readCompare("#compare=x,y")).toBeUndefined();
    const odd = readCompare("#compare=0123456789abcdef,fedcba9876543210&fate=<b>&stage=-1&left=x");
    expect(odd?.fate).toBeUndefined();
    expect(odd?.stage).toBeUndefined();
    expect(odd?.picked).toBeUndefined();
  });
});
