/**
 * Hits of watches at this node: the newest few, with a link to all of them.
 *
 * Invariant: one line per hit; a click goes to its moment.
 */

import { For, type JSX, Show } from "solid-js";
import { formatCount } from "@/base/numbers";
import { printable } from "@/base/printable";
import { foundWords, type Marked, ruleOf } from "@/store/debugger/watch_marks";

const SHOWN = 3;

export function MarkedNote(props: {
  readonly node: number;
  readonly marked: Marked | undefined;
  visit(node: number, seq: number): void;
  /** Queries the recording for all hits of a watch. */
  ask(watch: string): void;
}): JSX.Element {
  return (
    <Show when={props.marked}>
      {(marked) => (
        <div class="marked-note" data-testid="inspector-marked">
          <For each={marked().hits.slice(0, SHOWN)}>
            {(hit) => (
              <button
                type="button"
                class="marked-hit"
                title={hit.text}
                onClick={() => props.visit(props.node, hit.seq)}
              >
                <span class="wmark" />
                <span class="mi t3">step {formatCount(hit.step)}</span>
                <b>{ruleOf(hit.text)}</b>
                <span class="ell t2">{printable(foundWords(hit.text), 300)}</span>
              </button>
            )}
          </For>
          <div class="marked-more t3 small">
            <Show when={marked().hits.length > SHOWN}>
              <span>and {formatCount(marked().hits.length - SHOWN)} more here</span>
            </Show>
            <For each={[...new Set(marked().hits.map((hit) => hit.watch))].slice(0, 4)}>
              {(watch) => (
                <button
                  type="button"
                  class="link ell"
                  data-testid="marked-all"
                  title={`Check the recording: ${watch}`}
                  onClick={() => props.ask(watch)}
                >
                  all hits of {printable(watch.split(/[ (]/)[0] ?? "", 60)}
                </button>
              )}
            </For>
          </div>
        </div>
      )}
    </Show>
  );
}
