/**
 * All rules by kind, and above them the watches recommended for the program.
 *
 * Invariant: choosing a rule only fills the text field; only the Add buttons set watches.
 */

import { createMemo, createSignal, For, type JSX, Show } from "solid-js";
import { keepKey } from "@/base/keys";
import { printable } from "@/base/printable";
import { rulesFound, shortText, switched, type Watches } from "@/store/debugger/watches";
import { takeFocus } from "@/widgets/focus";
import { IconButton } from "@/widgets/icon";
import type { RuleInfo, RuleParameter } from "@/wire/types.gen";

const WHOLE =
  "While watches are set, every step is observed whole, which can make the program many times " +
  "slower";

export function Gallery(props: { readonly watches: Watches }): JSX.Element {
  let side!: HTMLElement;
  takeFocus(() => side);
  const [search, setSearch] = createSignal("");
  const [fault, setFault] = createSignal("");
  const known = createMemo(
    () => new Set(props.watches.statuses().map((status) => switched(status.text, true))),
  );
  const recommended = () => props.watches.rules()?.recommended ?? [];
  const missing = () => recommended().filter((recommendation) => !known().has(recommendation.text));
  const kinds = createMemo(() => rulesFound(props.watches.rules()?.rules ?? [], search()));
  const take = (texts: readonly string[]): void => {
    void props.watches.addAll(texts).then(setFault);
  };
  return (
    <section
      ref={side}
      class="watch-side"
      aria-label="Rules"
      data-testid="watch-gallery"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        props.watches.setGallery(false);
        event.stopPropagation();
      }}
    >
      <header class="watch-side-head">
        <input
          class="m"
          type="search"
          placeholder="Find a rule: vanishing, relu, loss"
          aria-label="Find a rule"
          spellcheck={false}
          value={search()}
          onKeyDown={(event) => {
            if (event.key !== "Escape") keepKey(event);
          }}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <span class="sp" />
        <IconButton
          small
          icon="close"
          label="Close the rules"
          onClick={() => props.watches.setGallery(false)}
        />
      </header>
      <div class="watch-side-body">
        <Show when={props.watches.rules() === undefined}>
          <p class="empty">Loading the rules…</p>
        </Show>
        <Show when={search() === "" && recommended().length > 0}>
          <div class="rule-kind">
            <b>Recommended for this program</b>
            <span class="sp" />
            <button
              type="button"
              class="btn"
              data-testid="watch-take-all"
              title={WHOLE}
              disabled={!props.watches.live() || missing().length === 0}
              onClick={() => take(missing().map((recommendation) => recommendation.text))}
            >
              {missing().length === 0 ? "All added" : `Add all ${missing().length}`}
            </button>
          </div>
          <Show when={fault() !== ""}>
            <p class="field-error">{fault()}</p>
          </Show>
          <For each={recommended()}>
            {(recommendation) => (
              <div class="rule" data-testid="watch-recommended">
                <button
                  type="button"
                  class="rule-name m ell"
                  title={recommendation.text}
                  onClick={() => props.watches.setDraft(shortText(recommendation.text))}
                >
                  {shortText(recommendation.text)}
                </button>
                <span class="rule-about">{printable(recommendation.reason, 200)}</span>
                <button
                  type="button"
                  class="link"
                  title={WHOLE}
                  disabled={!props.watches.live() || known().has(recommendation.text)}
                  onClick={() => take([recommendation.text])}
                >
                  {known().has(recommendation.text) ? "added" : "Add"}
                </button>
              </div>
            )}
          </For>
        </Show>
        <For each={kinds()}>
          {([origin, rules]) => (
            <>
              <div class="rule-kind">
                <b>{origin === "nodescope" ? "nodescope's own" : origin}</b>
                <span class="t3">{rules.length}</span>
              </div>
              <For each={rules}>{(rule) => <Rule rule={rule} watches={props.watches} />}</For>
            </>
          )}
        </For>
        <Show when={props.watches.rules() !== undefined && kinds().length === 0}>
          <p class="empty">No rule matches.</p>
        </Show>
      </div>
    </section>
  );
}

function Rule(props: { readonly rule: RuleInfo; readonly watches: Watches }): JSX.Element {
  const rule = () => props.rule;
  return (
    <button
      type="button"
      class="rule"
      data-testid="watch-rule"
      title={`Evaluated on ${rule().asked || "the nodes in its settings"}${rule().whole ? "; needs whole arrays" : ""}`}
      onClick={() => props.watches.setDraft(shortText(rule().text))}
    >
      <span class="rule-name m">
        {rule().name}
        <Show when={rule().aliases[0]}>{(alias) => <span class="t3"> {alias()}</span>}</Show>
      </span>
      <span class="rule-about">
        {rule().about}
        <Show when={rule().parameters.length > 0}>
          <span class="t3 rule-params">{rule().parameters.map(parameterText).join(" · ")}</span>
        </Show>
      </span>
    </button>
  );
}

/** A parameter with its default, or the note that it must be set. */
export function parameterText(parameter: RuleParameter): string {
  const unit = parameter.unit === "" ? "" : ` ${parameter.unit}`;
  if (parameter.default !== "") return `${parameter.name} ${parameter.default}${unit}`;
  if (parameter.required) return `${parameter.name} (needed)`;
  return `${parameter.name}${parameter.choice ? " (one of these)" : ""}`;
}
