/**
 * The roofline overlay: how close a node comes to the best performance seen in this run. The roofs
 * are the most arithmetic and the most memory traffic per second that any node of the run reached.
 *
 * Invariant: shares are between 0 and 1; nodes without known times, shapes or operations have none.
 */

import { tensorBytes } from "@/base/dtypes";
import { formatBytes, formatNumber } from "@/base/numbers";
import { flopsOf, formatFlops } from "@/store/overlays/flops";
import type { Moment, NumberOverlay } from "@/store/overlays/overlay";
import { selfTimes } from "@/store/overlays/self_time";
import type { RunGraph } from "@/store/run/run_model";
import type { Node } from "@/wire/types.gen";

const NS = 1e9;

export function rooflineOverlay({ model, columns }: Moment): NumberOverlay {
  const flops = flopsOf(model.graph);
  const times = selfTimes(columns);
  const measured = new Map<number, Measured>();
  let [arithmetic, traffic] = [0, 0];
  for (const [id, count] of flops) {
    const seconds = (times.get(id) ?? 0) / NS;
    const node = model.graph.nodes[id];
    const bytes = node && bytesOf(node, model.graph);
    if (seconds === 0 || count === 0 || !bytes) continue;
    measured.set(id, { seconds, flops: count, bytes });
    arithmetic = Math.max(arithmetic, count / seconds);
    traffic = Math.max(traffic, bytes / seconds);
  }
  const values = new Map<number, number>();
  const weights = new Map<number, number>();
  for (const [id, { seconds, flops: count, bytes }] of measured) {
    const roof = Math.min(arithmetic, (count / bytes) * traffic);
    values.set(id, count / seconds / roof);
    weights.set(id, seconds);
  }
  const roofs = `Roofs: ${formatFlops(arithmetic)}/s, ${formatBytes(Math.round(traffic))}/s, the most of any node`;
  return {
    title: "Share of the roofline",
    numbers: { values, weights, join: "mean", least: 0, most: 1 },
    folded: "the mean by time",
    note: values.size === 0 ? "No times and shapes are known." : roofs,
    format: (value) => `${formatNumber(100 * value, 3)} %`,
    words: (id) => {
      const node = measured.get(id);
      if (node === undefined) return "";
      const intensity = node.flops / node.bytes;
      const bound = intensity * traffic < arithmetic ? "memory" : "arithmetic";
      return `${formatFlops(node.flops / node.seconds)}/s, ${formatNumber(intensity, 3)} FLOP per byte, bound by ${bound}`;
    },
  };
}

interface Measured {
  readonly seconds: number;
  readonly flops: number;
  readonly bytes: number;
}

/** The least bytes that a node must read and write; undefined if a shape is not known. */
function bytesOf(node: Node, graph: RunGraph): number | undefined {
  let bytes = 0;
  for (const value of [...node.inputs, ...node.outputs]) {
    const spec = graph.values.get(value)?.value.spec;
    if (spec?.kind !== "tensor" || spec.shape.some((size) => size === null)) return undefined;
    bytes += tensorBytes(spec.shape, spec.dtype);
  }
  return bytes;
}
