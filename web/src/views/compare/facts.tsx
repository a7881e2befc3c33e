/**
 * Small parts of the comparison's panels: a fact, a ratio of times in words.
 *
 * Invariant: a number never stands without what it is of.
 */

import type { JSX } from "solid-js";
import { formatNumber } from "@/base/numbers";

export function Fact(props: { readonly name: string; readonly value: string }): JSX.Element {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd class="m">{props.value}</dd>
    </div>
  );
}

export function ratio(was: number, now: number): string {
  if (!(was > 0) || !(now > 0)) return "";
  const times = was / now;
  if (times > 0.95 && times < 1.05) return "about as fast";
  return times >= 1
    ? `${formatNumber(times, 3)}× faster compiled`
    : `${formatNumber(1 / times, 3)}× slower compiled`;
}
