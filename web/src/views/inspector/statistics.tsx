/**
 * A tensor in eight numbers.
 *
 * Invariant: counts of NaN and Inf are always shown, and coloured only if there are any.
 */

import { For, type JSX } from "solid-js";
import { formatCount, formatNumber } from "@/base/numbers";
import type { TensorSummary } from "@/wire/types.gen";

export function Statistics(props: {
  readonly summary: TensorSummary | null;
  readonly wide: boolean;
}): JSX.Element {
  const rows = () => {
    const s = props.summary;
    if (s === null) return [];
    return [
      { name: "min", text: formatNumber(s.min), tone: "" },
      { name: "max", text: formatNumber(s.max), tone: "" },
      { name: "mean", text: formatNumber(s.mean), tone: "" },
      { name: "std", text: formatNumber(s.std), tone: "" },
      { name: "norm", text: formatNumber(s.norm), tone: "" },
      { name: "zero", text: formatCount(s.zero_count), tone: "" },
      { name: "NaN", text: formatCount(s.nan_count), tone: s.nan_count > 0 ? "nan" : "" },
      { name: "Inf", text: formatCount(s.inf_count), tone: s.inf_count > 0 ? "inf" : "" },
    ];
  };
  return (
    <dl class="kv" classList={{ wide2: props.wide }}>
      <For each={rows()}>
        {(row) => (
          <div class={row.tone}>
            <dt>{row.name}</dt>
            <dd>{row.text}</dd>
          </div>
        )}
      </For>
    </dl>
  );
}
