/**
 * Small parts of the comparison's panels: a name, a fact, a ratio of times in words.
 *
 * Invariant: a number never appears without its subject; a name takes one line, cut where there
 * is no room, and the whole of it is its title.
 */

import type { JSX } from "solid-js";
import { formatNumber } from "@/base/numbers";
import { printable } from "@/base/printable";

const MOST_TITLE = 10_000;

export function Name(props: {
  readonly text: string;
  /** Shown if the text is empty. */
  readonly none?: string;
  readonly class?: string;
  readonly role?: "cell";
}): JSX.Element {
  return (
    <span
      class={`ell ${props.class ?? "m"}`}
      role={props.role}
      title={printable(props.text, MOST_TITLE)}
    >
      <bdi dir="ltr">{printable(props.text) || props.none}</bdi>
    </span>
  );
}

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
  if (times > 0.95 && times < 1.05) return "About the same speed";
  return times >= 1
    ? `${formatNumber(times, 3)}× faster compiled`
    : `${formatNumber(1 / times, 3)}× slower compiled`;
}
