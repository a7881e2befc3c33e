/**
 * Hits of watches at the node under the pointer.
 *
 * Invariant: shown beside the node, and transparent to the pointer.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { formatCount } from "@/base/numbers";
import { printable } from "@/base/printable";
import type { GraphView } from "@/render/scene/types";
import { foundWords, type MarkedNodes, ruleOf } from "@/store/debugger/watch_marks";

const SHOWN = 3;

export function MarkTip(props: {
  readonly view: GraphView;
  readonly node: number | undefined;
  readonly marked: MarkedNodes;
}): JSX.Element {
  const shown = createMemo(() => {
    const marked = props.marked.get(props.node ?? -1);
    const place =
      props.node === undefined ? undefined : props.view.boundsOf({ kind: "node", id: props.node });
    return marked === undefined || place === undefined ? undefined : { marked, place };
  });
  return (
    <Show when={shown()}>
      {(now) => (
        <div
          class="tip mark-tip"
          role="tooltip"
          data-testid="mark-tip"
          style={{
            left: `clamp(4px, ${now().place.x}px, calc(100% - 304px))`,
            top: `${now().place.y + now().place.height + 6}px`,
          }}
        >
          <For each={now().marked.hits.slice(0, SHOWN)}>
            {(hit) => (
              <span class="mark-tip-line">
                <span class="wmark" />
                <span>
                  <b>{ruleOf(hit.text)}</b> step {formatCount(hit.step)}:{" "}
                  {printable(foundWords(hit.text), 200)}
                </span>
              </span>
            )}
          </For>
          <Show when={now().marked.hits.length > SHOWN}>
            <span>and {formatCount(now().marked.hits.length - SHOWN)} more; click the node</span>
          </Show>
        </div>
      )}
    </Show>
  );
}
