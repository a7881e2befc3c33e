/**
 * For a node whose inputs changed: the step, the old and the new inputs.
 *
 * Invariant: shows the last change up to the moment shown.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { printable } from "@/base/printable";
import type { Store } from "@/store/page/store";
import type { Item } from "@/store/page/url";
import { lastRewiring } from "@/store/run/graph_history";
import { stepAt } from "@/store/run/run_model";
import { ChangeSign } from "@/widgets/change_sign";
import type { Node } from "@/wire/types.gen";

const MOST = 4;

export function RewiredNote(props: {
  readonly store: Store;
  readonly node: Node;
  go(item: Item): void;
}): JSX.Element {
  const rewiring = createMemo(() => {
    const history = props.store.model()?.graph.history;
    const until = props.store.seq() ?? Number.POSITIVE_INFINITY;
    return history === undefined ? undefined : lastRewiring(history, props.node.id, until);
  });
  const step = () => stepAt(props.store.model()?.steps ?? [], rewiring()?.seq ?? 0)?.step ?? 0;
  const ports = createMemo(() => {
    const { before, after } = rewiring() ?? { before: [], after: [] };
    return Array.from({ length: Math.max(before.length, after.length) }, (_, port) => ({
      port,
      was: before[port],
      is: after[port],
    })).filter(({ was, is }) => was !== is);
  });
  const input = (value: number | undefined) => (
    <Show when={value} fallback={<span class="t3">nothing</span>}>
      {(id) => <Input store={props.store} value={id()} go={props.go} />}
    </Show>
  );
  return (
    <Show when={rewiring()}>
      <div class="rewired-note" data-testid="inspector-rewired">
        <ChangeSign kind="rewired" />
        <div class="rewired-note-text">
          Inputs changed in step {step()}
          <For each={ports().slice(0, MOST)}>
            {({ port, was, is }) => (
              <div>
                <Show when={props.node.inputs.length > 1}>
                  <span class="mi t3">{port} </span>
                </Show>
                was {input(was)}, is {input(is)}
              </div>
            )}
          </For>
          <Show when={ports().length > MOST}>
            <div class="t3">and {ports().length - MOST} more</div>
          </Show>
        </div>
      </div>
    </Show>
  );
}

/** The name of a value's producer, as a link. */
function Input(props: {
  readonly store: Store;
  readonly value: number;
  go(item: Item): void;
}): JSX.Element {
  const produced = () => props.store.model()?.graph.values.get(props.value);
  const producer = () => props.store.model()?.graph.nodes[produced()?.producer ?? -1];
  return (
    <Show
      when={producer()}
      fallback={
        <span class="m">{printable(produced()?.value.name || `value ${props.value}`)}</span>
      }
    >
      {(node) => (
        <button
          type="button"
          class="link"
          onClick={() => props.go({ kind: "node", id: node().id })}
        >
          {printable(node().name)}
        </button>
      )}
    </Show>
  );
}
