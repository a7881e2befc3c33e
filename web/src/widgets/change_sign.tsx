/**
 * The signs of a graph's changes: `+` new, a wave rewired, `−` skipped.
 *
 * Invariant: each has its own shape, so that colour is never needed to distinguish them.
 */

import type { JSX } from "solid-js";

const PATHS = {
  new: "M2 5h6M5 2v6",
  rewired: "M1.5 6.5l2.4-3 2.2 3 2.4-3",
  skipped: "M2 5h6",
} as const;

export function ChangeSign(props: {
  readonly kind: keyof typeof PATHS;
  readonly title?: string;
}): JSX.Element {
  return (
    <svg
      class={`change-sign ${props.kind}`}
      width="10"
      height="10"
      viewBox="0 0 10 10"
      role={props.title === undefined ? "presentation" : "img"}
      aria-label={props.title}
    >
      <path d={PATHS[props.kind]} />
    </svg>
  );
}
