/**
 * What the check of the calls found for a node: the verdict's own numbers, above those recorded.
 *
 * Invariant: nothing is shown for nodes that the verdict does not name.
 */

import { type JSX, Show } from "solid-js";
import { formatCount, formatIndex, formatNumber, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { Fact } from "@/views/compare/facts";
import type { CompareState } from "@/views/compare/state";
import type { Amount, ComparedNode, Verdict } from "@/wire/types.gen";

/** The amount of the verdict, if it is about this node. */
export function amountOf(
  verdict: Verdict | null | undefined,
  owner: string | undefined,
  node: number,
): Amount | undefined {
  if (!verdict || verdict.function !== owner || verdict.node !== node) return undefined;
  return verdict.amount ?? undefined;
}

export function CheckFacts(props: {
  readonly state: CompareState;
  readonly node: ComparedNode;
}): JSX.Element {
  const verdict = () => props.state.comparison()?.verdict;
  const amount = () => amountOf(verdict(), props.state.fn()?.owner, props.node.id);
  return (
    <Show when={amount()}>
      {(differing) => (
        <div data-testid="check-facts">
          <p class="cmp-verdict">
            {formatCount(differing().differing)} of {plural(differing().elements, "element")} differ
          </p>
          <dl class="cmp-facts">
            <Fact name="as traced" value={printable(differing().expected, 40)} />
            <Fact name="as compiled" value={printable(differing().actual, 40)} />
            <Show when={differing().at.length > 0}>
              <Fact name="first at" value={formatIndex(differing().at)} />
            </Show>
            <Show when={differing().max_abs !== null}>
              <Fact name="max abs error" value={formatNumber(differing().max_abs)} />
            </Show>
          </dl>
          <p class="t3 small">
            in the check of step {formatCount(verdict()?.step ?? 0)}
            <Show when={verdict()?.detail}>: {printable(verdict()?.detail ?? "", 200)}</Show>
          </p>
          <h3 class="lab cmp-apart">As recorded</h3>
        </div>
      )}
    </Show>
  );
}
