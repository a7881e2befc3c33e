/**
 * Graphs for the harness and for tests: what the engine records of real training programs.
 *
 * Invariant: built by the same calls that a program makes; ids in order of first execution.
 */

import type { Family, GraphModel, GraphNode, GraphValue, Phase } from "@/render/scene/types";

const FAMILY: Readonly<Record<string, Family>> = {
  matmul: "matmul", add: "elementwise", multiply: "elementwise", subtract: "elementwise",
  divide: "elementwise", sqrt: "elementwise", square: "elementwise", negative: "elementwise",
  relu: "activation", softmax: "activation", gelu: "activation", tanh: "activation",
  exp: "activation", sum: "reduction", mean: "reduction", max: "reduction", log: "elementwise",
  transpose: "layout", reshape: "layout", broadcast_to: "layout", take: "index",
  take_along_axis: "index", scatter_add: "index", layer_norm: "norm", dropout: "random",
  cross_entropy: "loss", assign: "update", parameter: "leaf", tensor: "leaf", constant: "leaf",
};

interface Made {
  readonly value: number;
  readonly node: number;
}

export class GraphBuilder {
  readonly nodes: GraphNode[] = [];
  readonly values = new Map<number, GraphValue>();
  private readonly names = new Map<string, number>();
  scope = "";
  phase: Phase = "forward";

  within<T>(scope: string, body: () => T): T {
    const before = this.scope;
    this.scope = before === "" ? scope : `${before}/${scope}`;
    const result = body();
    this.scope = before;
    return result;
  }

  op(
    op: string, inputs: readonly Made[], shape: readonly number[], detail = "",
    forward?: number, label = op,
  ): Made {
    const id = this.nodes.length + 1;
    const base = this.scope === "" ? label : `${this.scope}/${label}`;
    const times = this.names.get(base) ?? 0;
    this.names.set(base, times + 1);
    const name = times === 0 ? base : `${base}_${times}`;
    const value = 1000 + id;
    const size = shape.reduce((a, b) => a * b, 1);
    this.values.set(value, { id: value, shape, dtype: "float32", bytes: 4 * size });
    this.nodes.push({
      id, name, label: name.slice(name.lastIndexOf("/") + 1), op, family: FAMILY[op] ?? "elementwise",
      scope: this.scope, phase: this.phase, inputs: inputs.map((input) => input.value),
      outputs: [value], detail, forward,
    });
    return { value, node: id };
  }

  leaf(kind: "parameter" | "tensor" | "constant", label: string, shape: readonly number[]): Made {
    return this.op(kind, [], shape, "", undefined, label);
  }

  model(version = 1): GraphModel {
    return { nodes: this.nodes, values: this.values, version };
  }
}

/** Two hidden layers on the digits, softmax cross-entropy, backward pass, Adam. */
export function digitsMlp(): GraphModel {
  const g = new GraphBuilder();
  const sizes = [64, 128, 64, 10];
  const names = ["hidden_1", "hidden_2", "output"];
  const batch = 32;
  const parameters: { w: Made; b: Made }[] = [];
  names.forEach((name, k) => g.within(name, () => {
    parameters.push({
      w: g.leaf("parameter", "w", [sizes[k]!, sizes[k + 1]!]),
      b: g.leaf("parameter", "b", [sizes[k + 1]!]),
    });
  }));
  const x = g.leaf("tensor", "images", [batch, 64]);
  const y = g.leaf("tensor", "labels", [batch]);
  let h = x;
  const tape: { layer: number; matmul: Made; add: Made; relu: Made | undefined; input: Made }[] = [];
  names.forEach((name, k) => g.within(name, () => {
    const input = h;
    const matmul = g.op("matmul", [h, parameters[k]!.w], [batch, sizes[k + 1]!]);
    const add = g.op("add", [matmul, parameters[k]!.b], [batch, sizes[k + 1]!]);
    const relu = k < 2 ? g.op("relu", [add], [batch, sizes[k + 1]!]) : undefined;
    h = relu ?? add;
    tape.push({ layer: k, matmul, add, relu, input });
  }));
  const logits = h;
  const loss: Record<string, Made> = {};
  g.within("loss", () => {
    loss.max = g.op("max", [logits], [batch, 1], "axis −1, keepdims");
    loss.shifted = g.op("subtract", [logits, loss.max], [batch, 10]);
    loss.exp = g.op("exp", [loss.shifted], [batch, 10]);
    loss.sum = g.op("sum", [loss.exp], [batch, 1], "axis −1, keepdims");
    loss.log = g.op("log", [loss.sum], [batch, 1]);
    loss.logp = g.op("subtract", [loss.shifted, loss.log], [batch, 10]);
    loss.picked = g.op("take_along_axis", [loss.logp, y], [batch, 1], "axis −1");
    loss.mean = g.op("mean", [loss.picked], []);
    loss.loss = g.op("negative", [loss.mean], []);
  });
  g.phase = "backward";
  g.scope = "backward";
  let ct = g.within("loss", () => {
    const seed = g.leaf("constant", "one", []);
    const a = g.op("negative", [seed], [], "", loss.loss!.node);
    const b = g.op("broadcast_to", [a], [batch, 1], "", loss.mean!.node);
    const c = g.op("scatter_add", [b, y], [batch, 10], "", loss.picked!.node);
    const d = g.op("sum", [c], [batch, 1], "axis −1, keepdims", loss.logp!.node);
    const e = g.op("divide", [d, loss.sum!], [batch, 1], "", loss.log!.node);
    const f = g.op("broadcast_to", [e], [batch, 10], "", loss.sum!.node);
    const m = g.op("multiply", [f, loss.exp!], [batch, 10], "", loss.exp!.node);
    return g.op("add", [c, m], [batch, 10], "", loss.shifted!.node);
  });
  const gradients: { w: Made; b: Made }[] = [];
  for (const { layer, matmul, add, relu, input } of [...tape].reverse()) {
    g.within(names[layer]!, () => {
      if (relu !== undefined) {
        ct = g.op("multiply", [ct, relu], [batch, sizes[layer + 1]!], "where x > 0", relu.node);
      }
      const b = g.op("sum", [ct], [sizes[layer + 1]!], "axis 0", add.node);
      const t = g.op("transpose", [input], [sizes[layer]!, batch], "", matmul.node);
      const w = g.op("matmul", [t, ct], [sizes[layer]!, sizes[layer + 1]!], "xᵀ·∇", matmul.node);
      gradients[layer] = { w, b };
      if (layer > 0) {
        const wt = g.op("transpose", [parameters[layer]!.w], [sizes[layer + 1]!, sizes[layer]!], "",
          matmul.node);
        ct = g.op("matmul", [ct, wt], [batch, sizes[layer]!], "∇·wᵀ", matmul.node);
      }
    });
  }
  g.phase = "optimizer";
  g.scope = "optimizer";
  names.forEach((name, k) => g.within(name, () => {
    for (const which of ["w", "b"] as const) {
      const shape = which === "w" ? [sizes[k]!, sizes[k + 1]!] : [sizes[k + 1]!];
      const gradient = gradients[k]![which];
      const m = g.op("multiply", [gradient], shape, "0.9 m + 0.1 ∇", undefined, `${which}_m`);
      const sq = g.op("square", [gradient], shape);
      const v = g.op("multiply", [sq], shape, "0.999 v", undefined, `${which}_v`);
      const r = g.op("sqrt", [v], shape);
      const e = g.op("add", [r], shape, "+ 1e-8");
      const q = g.op("divide", [m, e], shape);
      const s = g.op("multiply", [q], shape, "× 0.001");
      g.op("assign", [parameters[k]![which], s], shape, "", undefined, `update_${which}`);
    }
  }));
  return g.model();
}

/** Blocks of attention and MLP with residuals, forward only; some 25 nodes a block. */
export function transformer(blocks: number): GraphModel {
  const g = new GraphBuilder();
  const [b, h, t, d] = [16, 8, 64, 256];
  const ids = g.leaf("tensor", "tokens", [b, t]);
  const mask = g.leaf("tensor", "mask", [1, 1, t, t]);
  const linear = (label: string, x: Made, from: number, to: number): Made => {
    const w = g.leaf("parameter", `${label}_w`, [from, to]);
    const bias = g.leaf("parameter", `${label}_b`, [to]);
    return g.op("add", [g.op("matmul", [x, w], [b, t, to], "x·W"), bias], [b, t, to], "+ b");
  };
  let x = g.within("embed", () => {
    const table = g.leaf("parameter", "table", [4096, d]);
    const taken = g.op("take", [table, ids], [b, t, d], "axis 0");
    return g.op("add", [taken, g.leaf("parameter", "position", [t, d])], [b, t, d]);
  });
  g.within("encoder", () => {
    for (let k = 0; k < blocks; k++) {
      g.within(`layer_${k}`, () => {
        const n = g.op("layer_norm", [x], [b, t, d], "axis −1", undefined, "ln_1");
        const a = g.within("attention", () => {
          const [q, key, v] = ["q", "k", "v"].map((name) => g.within(name, () => {
            const y = linear(name, n, d, d);
            return g.op("transpose", [g.op("reshape", [y], [b, t, h, 32])], [b, h, t, 32]);
          })) as [Made, Made, Made];
          const s = g.op("matmul", [q, key], [b, h, t, t], "q·kᵀ", undefined, "scores");
          const scaled = g.op("multiply", [s], [b, h, t, t], "× 0.177");
          const masked = g.op("add", [scaled, mask], [b, h, t, t], "+ mask");
          const p = g.op("softmax", [masked], [b, h, t, t], "axis −1");
          const c = g.op("matmul", [p, v], [b, h, t, 32], "p·v", undefined, "context");
          const merged = g.op("reshape", [g.op("transpose", [c], [b, t, h, 32])], [b, t, d]);
          return linear("out", merged, d, d);
        });
        const r = g.op("add", [x, a], [b, t, d]);
        const n2 = g.op("layer_norm", [r], [b, t, d], "axis −1", undefined, "ln_2");
        const m = g.within("mlp", () => {
          const up = linear("up", n2, d, 4 * d);
          return linear("down", g.op("gelu", [up], [b, t, 4 * d]), 4 * d, d);
        });
        x = g.op("add", [r, m], [b, t, d]);
      });
    }
    x = g.op("layer_norm", [x], [b, t, d], "", undefined, "ln_f");
  });
  g.within("head", () => g.op("softmax", [linear("logits", x, d, 4096)], [b, t, 4096]));
  return g.model();
}
