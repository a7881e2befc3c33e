/** The zeros overlay: the share of zeros among the elements of a node's outputs. */

import { formatNumber } from "@/base/numbers";
import type { Moment, NumberOverlay } from "@/store/overlays/overlay";

export function zerosOverlay({ model, rows, note }: Moment): NumberOverlay {
  const values = new Map<number, number>();
  const weights = new Map<number, number>();
  for (const node of model.graph.nodes) {
    const outputs = node?.outputs.flatMap((value) => rows.get(value) ?? []) ?? [];
    const elements = outputs.reduce((sum, row) => sum + row.elements, 0);
    if (node === undefined || elements === 0) continue;
    values.set(node.id, outputs.reduce((sum, row) => sum + row.zeros, 0) / elements);
    weights.set(node.id, elements);
  }
  return {
    title: "Zeros in the outputs",
    numbers: { values, weights, join: "mean", least: 0, most: 1 },
    folded: "of all elements in it",
    note: note || (values.size === 0 ? "No statistics are kept." : ""),
    format: (value) => `${formatNumber(100 * value, 3)} %`,
  };
}
