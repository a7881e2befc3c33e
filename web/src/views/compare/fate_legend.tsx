/**
 * The legend of fates with their counts; one of them can be singled out.
 *
 * Invariant: each colour is beside its word; fates that do not occur are not listed.
 */

import { For, type JSX } from "solid-js";
import { formatCount } from "@/base/numbers";
import { FATE_WORDS } from "@/store/history/compare";
import { type ComparedFunction, FATES, type FateKind } from "@/wire/types.gen";

export function FateLegend(props: {
  readonly fn: ComparedFunction;
  readonly active: FateKind | undefined;
  onSelect(fate: FateKind | undefined): void;
}): JSX.Element {
  return (
    <div class="cmp-fates" role="group" aria-label="Fates of the traced nodes" data-testid="fates">
      <For each={FATES.filter((fate) => (props.fn.fates[fate] ?? 0) > 0)}>
        {(fate) => (
          <button
            type="button"
            class="cmp-fate"
            classList={{ on: props.active === fate, off: (props.active ?? fate) !== fate }}
            aria-pressed={props.active === fate}
            title={`${fate}: ${FATE_WORDS[fate]}. Click to show only these`}
            data-testid={`fate-${fate}`}
            onClick={() => props.onSelect(props.active === fate ? undefined : fate)}
          >
            <FateSwatch fate={fate} />
            {fate}
            <b class="m">{formatCount(props.fn.fates[fate] ?? 0)}</b>
          </button>
        )}
      </For>
    </div>
  );
}

export function FateSwatch(props: { readonly fate: FateKind }): JSX.Element {
  return (
    <span
      class="sw"
      classList={{ dashed: props.fate === "eliminated" }}
      style={{ "--fate": `var(--fate-${props.fate})` }}
      aria-hidden="true"
    />
  );
}
