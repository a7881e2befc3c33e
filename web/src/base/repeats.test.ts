import { describe, expect, it } from "vitest";
import { acyclicRuns, FEWEST, findRepeats, type ScopedNode, stackName } from "@/base/repeats";

/** Seeded (mulberry32), so that a failure can be reproduced. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface TestNode extends ScopedNode {
  readonly held?: "parameter" | "data";
}

/** A program that calls a few modules, each several times, with what it has computed so far. */
function randomProgram(seed: number): TestNode[] {
  const random = randomFrom(seed);
  const upTo = (n: number): number => Math.floor(random() * n);
  const nodes: TestNode[] = [];
  const add = (
    op: string,
    scope: string,
    inputs: readonly number[],
    held?: "parameter",
  ): number => {
    nodes.push({ op, scope, inputs, outputs: [nodes.length], ...(held && { held }) });
    return nodes.length - 1;
  };
  const values = [add("input", "", [])];
  const shapes = [upTo(3), upTo(3), upTo(3)];
  const call = (scope: string, kind: number, depth: number): void => {
    let inner = values[upTo(values.length)]!;
    const outer = values[upTo(values.length)]!;
    for (let k = 0; k < 1 + shapes[kind]!; k++) {
      if (depth < 2 && kind > 0 && k === 1) {
        call(`${scope}/part_${k}`, kind - 1, depth + 1);
        inner = values.at(-1)!;
      }
      const weight = kind === 2 ? [add("weight", scope, [], "parameter")] : [];
      const second = random() < 0.2 ? outer : inner;
      inner = add(["mul", "tanh"][random() < 0.9 ? 0 : 1]!, scope, [inner, second, ...weight]);
    }
    values.push(inner);
  };
  const calls = 3 + upTo(9);
  for (let k = 0; k < calls; k++) call(`call_${k}`, upTo(3), 0);
  return nodes;
}

function repeatsOf(nodes: readonly TestNode[]) {
  return findRepeats(nodes, (index) => nodes[index]!.held);
}

/** Whether two scopes are alike, by walking through both at once. */
function alike(nodes: readonly TestNode[], a: string, b: string): boolean {
  const inside = (scope: string) =>
    nodes.flatMap((node, at) =>
      node.held === undefined && (node.scope === scope || node.scope.startsWith(`${scope}/`))
        ? [at]
        : [],
    );
  const items = (scope: string): (number | string)[] => [
    ...new Set(
      inside(scope).map((at) => {
        const rest = nodes[at]!.scope.slice(scope.length + 1);
        return rest === "" ? at : `${scope}/${rest.split("/")[0]}`;
      }),
    ),
  ];
  const there = new Map<number, number>();
  const back = new Map<number, number>();
  const match = (x: number, y: number): boolean => {
    if ((there.get(x) ?? y) !== y || (back.get(y) ?? x) !== x) return false;
    there.set(x, y);
    back.set(y, x);
    return true;
  };
  const walk = (x: string, y: string): boolean => {
    const left = items(x);
    const right = items(y);
    return (
      left.length === right.length &&
      left.every((item, at) => {
        const other = right[at]!;
        if (typeof item === "string") return typeof other === "string" && walk(item, other);
        if (typeof other === "string") return false;
        const [one, two] = [nodes[item]!, nodes[other]!];
        return (
          one.op === two.op &&
          one.inputs.length === two.inputs.length &&
          one.inputs.every((input, port) => {
            const twin = two.inputs[port]!;
            return nodes[input]!.held === nodes[twin]!.held && match(input, twin);
          }) &&
          match(item, other)
        );
      })
    );
  };
  const insideA = new Set(inside(a));
  const insideB = new Set(inside(b));
  return walk(a, b) && [...there].every(([x, y]) => insideA.has(x) === insideB.has(y));
}

const SEEDS = Array.from({ length: 300 }, (_, seed) => seed);

describe("stacks of random programs", () => {
  it("hold only scopes that are alike", () => {
    let pairs = 0;
    for (const seed of SEEDS) {
      const nodes = randomProgram(seed);
      const { stackOf } = repeatsOf(nodes);
      const scopes = [...new Set(nodes.map(({ scope }) => scope).filter(Boolean))].filter(
        (scope) => !scope.includes("/"),
      );
      for (const a of scopes) {
        for (const b of scopes) {
          const stack = stackOf.get(a);
          if (stack !== undefined && stack === stackOf.get(b)) {
            expect(alike(nodes, a, b)).toBe(true);
            pairs++;
          }
        }
      }
    }
    expect(pairs).toBeGreaterThan(300);
  });

  it("hold all scopes that are alike, unless a cycle forbids it", () => {
    for (const seed of SEEDS) {
      // The calls read only the input: none reaches another.
      const program = randomProgram(seed);
      const own = (reader: TestNode, input: number) =>
        program[input]!.scope.split("/")[0] === reader.scope.split("/")[0];
      const nodes = program.map((node) => ({
        ...node,
        inputs: node.inputs.map((input) => (own(node, input) ? input : 0)),
      }));
      const { stackOf } = repeatsOf(nodes);
      const calls = [...new Set(nodes.map(({ scope }) => scope.split("/")[0]!).filter(Boolean))];
      for (const call of calls) {
        const same = calls.filter((other) => alike(nodes, call, other));
        expect(stackOf.get(call)?.members ?? [call]).toEqual(same.length >= FEWEST ? same : [call]);
      }
    }
  });

  it.each(["found", "known", "known, with spans"])(
    "map each part of a member to its counterpart in another: %s",
    (how) => {
      for (const seed of SEEDS) {
        const nodes = randomProgram(seed);
        const first = repeatsOf(nodes);
        const spans = how === "known" ? undefined : first.spans();
        const again =
          how === "found" ? first : findRepeats(nodes, () => undefined, first.stacks, spans);
        const { stacks, operations, twinValue, twinScope } = again;
        expect(stacks).toBe(first.stacks);
        for (const { members } of stacks) {
          const [a, b] = [members[0]!, members.at(-1)!];
          operations(a).forEach((node, at) => {
            const twin = operations(b)[at]!;
            expect(nodes[twin]!.op).toBe(nodes[node]!.op);
            expect(twinScope(nodes[node]!.scope, a, b)).toBe(nodes[twin]!.scope);
            expect(twinValue(nodes[node]!.outputs[0]!, a, b)).toBe(nodes[twin]!.outputs[0]);
            nodes[node]!.inputs.forEach((value, port) => {
              expect(twinValue(value, a, b)).toBe(nodes[twin]!.inputs[port]);
            });
          });
        }
      }
    },
  );
});

describe("runs", () => {
  it("add no cycle", () => {
    const random = randomFrom(7);
    for (let round = 0; round < 400; round++) {
      const count = 4 + Math.floor(random() * 14);
      const edges = Array.from({ length: count }, (_, at) =>
        Array.from({ length: at }, (_, before) => before).filter(() => random() < 1.6 / count),
      );
      const kinds = edges.map(() => ["", "a", "b", "c"][Math.floor(random() * 4)]!);
      const runs = acyclicRuns(edges, kinds);
      const box = edges.map((_, at) => runs.findIndex((run) => run.includes(at)));
      const name = (at: number) => (box[at]! < 0 ? `node ${at}` : `run ${box[at]}`);
      const below = new Map<string, Set<string>>();
      edges.forEach((befores, at) => {
        for (const before of befores) {
          if (name(before) === name(at)) continue;
          below.set(name(before), (below.get(name(before)) ?? new Set()).add(name(at)));
        }
      });
      const reaches = (from: string, to: string, seen = new Set<string>()): boolean =>
        [...(below.get(from) ?? [])].some((next) => {
          if (next === to) return true;
          if (seen.has(next)) return false;
          seen.add(next);
          return reaches(next, to, seen);
        });
      for (const start of below.keys()) expect(reaches(start, start)).toBe(false);
      for (const run of runs) expect(new Set(run.map((at) => kinds[at])).size).toBe(1);
    }
  });

  it("end where an item in between reads one and is read by another", () => {
    const chain = (kinds: string) =>
      acyclicRuns(
        [...kinds].map((_, at) => (at ? [at - 1] : [])),
        [...kinds],
      );
    expect(chain("aaa")).toEqual([[0, 1, 2]]);
    expect(chain("aabaa").filter((run) => run.length > 1)).toEqual([
      [0, 1],
      [3, 4],
    ]);
  });
});

describe("the name of a stack", () => {
  it("is a range, or the first and the last name", () => {
    expect(stackName(["block_0", "block_1", "block_2"])).toBe("block_0–2");
    expect(stackName(["11", "10", "9"])).toBe("11–9");
    expect(stackName(["h2_conv", "h3_conv"])).toBe("h2–3_conv");
    expect(stackName(["block_0", "block_2", "block_4"])).toBe("block_0 … block_4");
    expect(stackName(["weight", "bias"])).toBe("weight … bias");
  });
});

describe("stacks", () => {
  const block = (name: string, at: number, op = "mul"): ScopedNode => ({
    op,
    scope: name,
    inputs: [at],
    outputs: [at + 1],
  });
  const namesOf = (nodes: readonly ScopedNode[]) =>
    findRepeats(nodes, () => undefined).stacks.map(({ name }) => name);

  it("need three scopes of one structure, with names that differ only in numbers", () => {
    expect(namesOf([block("a_0", 0), block("a_1", 1)])).toEqual([]);
    expect(namesOf([block("a_0", 0), block("a_1", 1), block("a_2", 2)])).toEqual(["a_0–2"]);
    expect(namesOf([block("query", 0), block("key", 0), block("value", 0)])).toEqual([]);
    expect(namesOf([block("a_0", 0), block("a_1", 1, "add"), block("a_2", 2)])).toEqual([]);
  });

  it("may have any names where scopes are named after parameters", () => {
    const updates = ["w", "b", "scale"].map((name) => block(`optimizer/${name}`, 0, "assign"));
    expect(namesOf(updates)).toEqual(["w … scale"]);
  });
});
