/**
 * What an op was given, and where it belongs.
 *
 * Invariant: shows the node as it was defined last; values over time are elsewhere.
 */

import { For, type JSX, Show } from "solid-js";
import { attributeText } from "@/store/node_words";
import type { Store } from "@/store/store";
import type { Item } from "@/store/url";
import type { Node } from "@/wire/types.gen";

export function Attributes(props: {
  readonly node: Node;
  readonly store: Store;
  go(item: Item): void;
}): JSX.Element {
  const rows = () => [
    ...Object.entries(props.node.attrs).map(
      ([name, value]) => [name, attributeText(value)] as const,
    ),
    ["phase", props.node.phase] as const,
    ["device", props.node.device] as const,
    ["node", `#${props.node.id}`] as const,
  ];
  const forward = () => props.store.model()?.graph.nodes[props.node.forward ?? -1];
  return (
    <section class="sec">
      <div class="h">
        <span class="lab">Attributes</span>
      </div>
      <dl class="kv wide2">
        <For each={rows()}>
          {([name, text]) => (
            <div>
              <dt>{name}</dt>
              <dd class="ell" title={text}>
                {text}
              </dd>
            </div>
          )}
        </For>
      </dl>
      <Show when={forward()}>
        {(of) => (
          <p class="t3 small">
            Gradient of{" "}
            <button
              type="button"
              class="link"
              onClick={() => props.go({ kind: "node", id: of().id })}
            >
              {of().name}
            </button>
          </p>
        )}
      </Show>
    </section>
  );
}
