/**
 * The result of evaluating a watch on the recording.
 *
 * Invariant: parts that could not be evaluated are reported beside the hits.
 */

import { For, type JSX, Show } from "solid-js";
import { formatCount, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { foundWords, ruleOf } from "@/store/debugger/watch_marks";
import type { WatchQuery } from "@/store/debugger/watches";
import { IconButton } from "@/widgets/icon";
import type { WatchAnswer } from "@/wire/types.gen";

export function AnswerPane(props: {
  readonly query: WatchQuery;
  visit(node: number, seq: number): void;
  onClose(): void;
}): JSX.Element {
  const texts = () => props.query.text.split("\n");
  return (
    <section class="watch-side" aria-label="Result from the recording" data-testid="watch-answer">
      <header class="watch-side-head">
        <span class="m ell" title={props.query.text}>
          {texts().length > 1
            ? `${formatCount(texts().length)} watches`
            : printable(props.query.text, 200)}
        </span>
        <span class="sp" />
        <span class="t2" role="status">
          {props.query.answer === undefined ? "Checking…" : words(props.query.answer)}
        </span>
        <IconButton small icon="close" label="Close the result" onClick={() => props.onClose()} />
      </header>
      <Show when={props.query.answer}>
        {(answer) => (
          <div class="watch-side-body">
            <For each={answer().caveats}>
              {(text) => <p class="watch-caveat">{printable(text, 400)}</p>}
            </For>
            <For each={answer().hits}>
              {(hit) => (
                <button
                  type="button"
                  class="watch-hit"
                  data-testid="watch-hit"
                  title={hit.text}
                  onClick={() => props.visit(hit.node, hit.seq)}
                >
                  <span class="mi t3">step {formatCount(hit.step)}</span>
                  <span class="ell">
                    <Show when={texts().length > 1}>
                      <b>{ruleOf(hit.text)}</b>{" "}
                    </Show>
                    {printable(hit.name, 120)}
                  </span>
                  <span class="ell t2">{printable(foundWords(hit.text), 300)}</span>
                </button>
              )}
            </For>
            <Show when={answer().total > answer().hits.length}>
              <p class="t3 watch-caveat">
                and {formatCount(answer().total - answer().hits.length)} more
              </p>
            </Show>
          </div>
        )}
      </Show>
    </section>
  );
}

function words(answer: WatchAnswer): string {
  if (answer.total > 0) return plural(answer.total, "hit");
  return answer.looked > 0
    ? `No hits in ${plural(answer.looked, "evaluation")}`
    : "Nothing to evaluate it on";
}
