/**
 * Advice for a run with nothing to show.
 *
 * Invariant: the user's own lines are shown as text, the current one and its replacement.
 */

import { For, type JSX, Show } from "solid-js";
import { printable } from "@/base/printable";
import type { Advice } from "@/wire/types.gen";

export function AdviceCard(props: { readonly advice: Advice }): JSX.Element {
  return (
    <div class="advice" data-testid="advice">
      <h3>{sentence(props.advice.headline)}</h3>
      <Show when={props.advice.found}>
        <p class="t3">Found: {printable(props.advice.found)}</p>
      </Show>
      <For each={props.advice.steps}>{(step) => <p>{printable(step, 1000)}</p>}</For>
      <Show when={props.advice.changes.length > 0}>
        <div class="advice-lines">
          <For each={props.advice.changes}>
            {(change) => (
              <div class="advice-line">
                <span class="mi t3 ell">
                  {change.line > 0 ? `${printable(change.file, 60)}:${change.line}` : "for example"}
                </span>
                <Show when={change.before}>
                  <del class="m">{printable(change.before, 300)}</del>
                </Show>
                <ins class="m">{printable(change.after, 300)}</ins>
              </div>
            )}
          </For>
        </div>
      </Show>
      <p class="t3">
        What nodescope can show, and what it cannot yet: <code>nodescope docs supported</code>
      </p>
    </div>
  );
}

function sentence(text: string): string {
  return text.replace(/^nodescope has nothing to show: /, "Nothing to show: ");
}
