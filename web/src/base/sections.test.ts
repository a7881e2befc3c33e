import { describe, expect, it } from "vitest";
import { findRepeats } from "@/base/repeats";
import { type FamilyNode, FEWEST_OPERATIONS, isSection, sectionScopes } from "@/base/sections";

function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state >>> 0) / 2 ** 32;
  };
}

const op = (name: string, inputs: readonly number[], output: number): FamilyNode => ({
  op: name,
  scope: "",
  family: name === "matmul" ? "matmul" : name === "parameter" ? "leaf" : "elementwise",
  inputs,
  outputs: [output],
});

const held = (nodes: readonly FamilyNode[]) => (index: number) =>
  nodes[index]!.family === "leaf" ? ("parameter" as const) : undefined;

const sectionsOf = (nodes: readonly FamilyNode[]) => sectionScopes(nodes, held(nodes));

/** Layers of six operations with a skip, after a few others. */
function layers(count: number): FamilyNode[] {
  const nodes = [
    op("parameter", [], 0),
    op("cast", [], 1),
    op("scale", [1], 2),
    op("shift", [2], 3),
  ];
  const add = (name: string, inputs: readonly number[]): number => {
    nodes.push(op(name, inputs, nodes.length));
    return nodes.length - 1;
  };
  for (let layer = 0; layer < count; layer++) {
    const x = nodes.length - 1;
    const weight = add("parameter", []);
    const a = add("norm", [x]);
    const b = add("matmul", [a, weight]);
    const c = add("tanh", [b]);
    const d = add("square", [c]);
    const e = add("mul", [d, c]);
    add("add", [e, x]);
  }
  return nodes;
}

describe("sections", () => {
  it("are the repetitions of a graph without scopes, which make a stack", () => {
    const nodes = layers(40);
    const scopes = sectionsOf(nodes);
    const scoped = nodes.map((node, at) => ({ ...node, scope: scopes[at]! }));
    const { stacks } = findRepeats(scoped, held(nodes));
    expect(stacks).toHaveLength(1);
    expect(stacks[0]!.members.length).toBeGreaterThanOrEqual(19);
    expect(stacks[0]!.name).toMatch(/^‹matmul 1–\d+›$/);
    expect(isSection(stacks[0]!.first)).toBe(true);
  });

  describe("of twins", () => {
    /** Rows of a batch taken one by one, then put together; and a chain of `rest` operations. */
    function batch(rows: number, rest: number): FamilyNode[] {
      const taken = Array.from({ length: rows }, (_, row) => op("slice", [0], 1 + row));
      const stack = op(
        "stack",
        taken.map(({ outputs }) => outputs[0]!),
        rows + 1,
      );
      const chain = Array.from({ length: rest }, (_, at) =>
        op("tanh", [rows + 1 + at], rows + 2 + at),
      );
      return [op("parameter", [], 0), ...taken, stack, ...chain];
    }

    it("are one section, and the other operations are in none", () => {
      const scopes = sectionsOf(batch(16, 8));
      expect(scopes.slice(0, 18)).toEqual(["", ...Array(16).fill("‹slice 1›"), ""]);
      expect(new Set(scopes.slice(18))).toEqual(new Set([""]));
    });

    it("are not made if twins are few, are most of their scope, or differ in readers", () => {
      expect(new Set(sectionsOf(batch(7, 8)))).toEqual(new Set([""]));
      expect(new Set(sectionsOf(batch(16, 2)))).toEqual(new Set([""]));
      const readers = Array.from({ length: 16 }, (_, row) => op("exp", [1 + row], 100 + row));
      expect(new Set(sectionsOf([...batch(16, 8), ...readers]))).toEqual(new Set([""]));
    });
  });

  it("are not made of small scopes", () => {
    const nodes = layers(Math.floor(FEWEST_OPERATIONS / 6) - 1);
    expect(sectionsOf(nodes)).toEqual(nodes.map(() => ""));
  });

  it("hold the parameters that only they read", () => {
    const nodes = layers(40);
    const scopes = sectionsOf(nodes);
    nodes.forEach((node, at) => {
      const reader = nodes.findIndex(({ inputs }) => inputs.includes(at));
      if (node.family === "leaf" && reader >= 0) expect(scopes[at]).toBe(scopes[reader]);
    });
  });

  it("hold the inputs that only they read where there are many, as the arguments of tasks", () => {
    const scopesOfInputs = (count: number) => {
      const tasks = Array.from({ length: 400 }, (_, at) => [
        op("argument", [], 3 * at),
        op("task", at < count ? [3 * at] : [], 3 * at + 1),
        op("add", [3 * at + 1], 3 * at + 2),
      ]).flat();
      const scopes = sectionScopes(tasks, (index) =>
        tasks[index]!.op === "argument" ? "data" : undefined,
      );
      return {
        inputs: scopes.filter((_, at) => at % 3 === 0),
        readers: scopes.filter((_, at) => at % 3 === 1),
      };
    };
    const few = scopesOfInputs(4);
    expect(new Set(few.inputs)).toEqual(new Set([""]));
    const many = scopesOfInputs(400);
    expect(many.inputs).toEqual(many.readers);
    expect(many.readers.every((scope) => isSection(scope!))).toBe(true);
  });

  it("drawn as boxes make a graph without cycles, whatever the order of the nodes", () => {
    for (let seed = 0; seed < 40; seed++) {
      const random = randomFrom(seed);
      const count = FEWEST_OPERATIONS + Math.floor(random() * 200);
      const plain = Array.from({ length: count }, (_, at) => {
        const inputs = [0, 1].flatMap(() =>
          at === 0 ? [] : [Math.max(0, at - 1 - Math.floor(random() ** 3 * 40))],
        );
        return op(["matmul", "add", "tanh"][Math.floor(random() * 3)]!, inputs, at);
      });
      const keys = plain.map(() => random());
      const nodes =
        seed % 2 === 0
          ? plain
          : plain.toSorted((a, b) => keys[a.outputs[0]!]! - keys[b.outputs[0]!]!);
      const scopes = sectionsOf(nodes);
      const sectioned = scopes.filter((scope) => isSection(scope!));
      expect(sectioned.length).toBeGreaterThan(0.9 * count);
      // A node in no section is a box of its own.
      const boxes = nodes.map(({ outputs }, at) => scopes[at] || `node ${outputs[0]}`);
      const scopeOf = new Map(nodes.map(({ outputs }, at) => [outputs[0]!, boxes[at]!]));
      const below = new Map<string, Set<string>>();
      nodes.forEach(({ inputs }, at) => {
        for (const input of inputs) {
          const from = scopeOf.get(input)!;
          if (from === boxes[at]) continue;
          below.set(from, (below.get(from) ?? new Set()).add(boxes[at]!));
        }
      });
      const done = new Set<string>();
      const visit = (scope: string, path: ReadonlySet<string>): void => {
        expect(path.has(scope)).toBe(false);
        if (done.has(scope)) return;
        for (const next of below.get(scope) ?? []) visit(next, new Set(path).add(scope));
        done.add(scope);
      };
      for (const scope of below.keys()) visit(scope, new Set());
    }
  });

  it("have a readable size, and a name that says what is in them", () => {
    const chain = Array.from({ length: 400 }, (_, at) =>
      op(["tanh", "sin", "exp", "abs", "mul"][(at * at + (at >> 3)) % 5]!, at ? [at - 1] : [], at),
    );
    const sizes = new Map<string, number>();
    for (const scope of sectionsOf(chain)) sizes.set(scope!, (sizes.get(scope!) ?? 0) + 1);
    expect(sizes.size).toBeGreaterThan(5);
    expect(Math.max(...sizes.values())).toBeLessThanOrEqual(60);
    sizes.delete("");
    for (const name of sizes.keys()) expect(name).toMatch(/^‹\w+(…\w+)? \d+›$/);
  });

  it("have short names, so that their numbers stay visible", () => {
    const norms = Array.from({ length: 400 }, (_, at) =>
      op(at % 4 === 0 ? "BatchNormalization" : "conv2d", at ? [at - 1] : [], at),
    );
    const names = new Set(sectionsOf(norms).filter((name) => name !== ""));
    expect([...names].some((name) => name!.includes("BatchNorm "))).toBe(true);
    for (const name of names) expect(name).not.toContain("ormalization");
  });
});
