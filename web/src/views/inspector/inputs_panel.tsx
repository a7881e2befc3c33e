/**
 * The inputs of a node: each with its name and statistics, and a link to its producer.
 *
 * Invariant: an input is shown as of when the node took it; for a node that has not run yet, as of
 * now.
 */

import { type Accessor, For, type JSX, Show } from "solid-js";
import { elementCount } from "@/base/dtypes";
import { formatNumber, formatShape } from "@/base/numbers";
import type { Branches } from "@/store/debugger/what_if";
import { answered, createQuery } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import { valueShown } from "@/store/run/past_values";
import { Icon } from "@/widgets/icon";
import { shapeOf, typeOf } from "@/wire/spec";
import type { GetValue, Node, TensorSummary } from "@/wire/types.gen";

const MOST = 48;

export function InputsPanel(props: {
  readonly store: Store;
  readonly node: Node;
  /** The moment at which the node takes them; null for now. */
  readonly seq: number | null;
  readonly refresh: Accessor<unknown>;
  readonly branches: Branches;
  onJump(node: number): void;
}): JSX.Element {
  return (
    <div class="inputs">
      <Show when={props.node.inputs.length === 0}>
        <p class="empty">No inputs.</p>
      </Show>
      <For each={props.node.inputs.slice(0, MOST)}>
        {(value, port) => <Input {...props} value={value} port={port()} />}
      </For>
      <Show when={props.node.inputs.length > MOST}>
        <p class="empty">and {props.node.inputs.length - MOST} more</p>
      </Show>
    </div>
  );
}

function Input(props: {
  readonly store: Store;
  readonly value: number;
  readonly port: number;
  readonly seq: number | null;
  readonly refresh: Accessor<unknown>;
  readonly branches: Branches;
  onJump(node: number): void;
}): JSX.Element {
  const produced = () => valueShown(props.store, props.value);
  const answer = createQuery(
    props.store,
    "value_slice",
    (): GetValue | undefined => {
      const run = props.store.runId();
      return run === undefined
        ? undefined
        : {
            type: "get_value",
            run,
            value: props.value,
            seq: props.seq,
            branch: props.branches.valuesOf(),
            rows: 1,
            cols: 1,
          };
    },
    props.refresh,
  );
  const slice = () => answered(answer());
  const shapeWords = (): string => {
    const spec = slice()?.spec ?? produced()?.value.spec;
    if (spec?.kind === "opaque") return "";
    return formatShape((slice()?.found ? slice()?.shape : shapeOf(spec)) ?? []);
  };
  const jump = (): void => {
    const producer = produced()?.producer;
    if (producer !== null && producer !== undefined) props.onJump(producer);
  };
  return (
    <button
      type="button"
      class="input"
      disabled={produced()?.producer == null}
      onClick={jump}
      title={produced()?.producer == null ? "External input" : "Go to the node that produced it"}
    >
      <span class="input-port mi t3">{props.port}</span>
      <span class="ell input-name">{produced()?.value.name || `value ${props.value}`}</span>
      <span class="mi t2">
        {typeOf(slice()?.spec ?? produced()?.value.spec)} {shapeWords()}
      </span>
      <Icon name="right" size={12} />
      <span class="input-more mi t3">
        <Show when={(slice()?.branch ?? 0) > 0}>
          <span class="branch-mark" title={`In the branch ${props.branches.shown()?.name ?? ""}`}>
            ≠
          </span>{" "}
        </Show>
        {slice()?.found === false ? "not computed yet" : line(slice()?.summary ?? null)}
      </span>
    </button>
  );
}

function line(summary: TensorSummary | null): string {
  if (summary === null) return "";
  const bad = [
    summary.nan_count > 0 ? `${summary.nan_count} NaN` : "",
    summary.inf_count > 0 ? `${summary.inf_count} Inf` : "",
  ]
    .filter(Boolean)
    .join(", ");
  const text =
    elementCount(summary.spec.shape) === 1
      ? formatNumber(summary.preview[0] ?? summary.mean)
      : `${formatNumber(summary.min, 4)} … ${formatNumber(summary.max, 4)}, norm ${formatNumber(
          summary.norm,
          4,
        )}`;
  return bad === "" ? text : `${text} · ${bad}`;
}
