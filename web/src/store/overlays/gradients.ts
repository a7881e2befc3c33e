/** The gradient overlay: the norm of the gradient of a node's outputs. */

import { formatNumber } from "@/base/numbers";
import type { Moment, NumberOverlay } from "@/store/overlays/overlay";
import { gradientOf } from "@/store/run/run_model";

export function gradientOverlay({ model, rows, note, seq }: Moment): NumberOverlay {
  const values = new Map<number, number>();
  let most = 0;
  for (const node of model.graph.nodes) {
    const norms = node?.outputs.flatMap(
      (value) => rows.get(gradientOf(model, value, seq) ?? -1)?.norm ?? [],
    );
    if (node === undefined || norms === undefined || norms.length === 0) continue;
    const norm = Math.hypot(...norms);
    values.set(node.id, norm);
    if (norm > most) most = norm;
  }
  return {
    title: "Norm of the gradient",
    numbers: { values, join: "norm", least: undefined, most },
    folded: "of all gradients in it",
    note: note || (values.size === 0 ? "No gradient is known at this moment." : ""),
    format: (value) => formatNumber(value, 4),
  };
}
