/**
 * The logo of nodescope: a target with a point in focus.
 *
 * Invariant: decorative; the name is always beside it.
 */

import type { JSX } from "solid-js";

export function Logo(): JSX.Element {
  return (
    <svg class="logo" width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
      <circle cx="10" cy="10" r="6.8" />
      <path d="M10 .8v4.4M10 14.8v4.4M.8 10h4.4M14.8 10h4.4" />
      <circle class="logo-dot" cx="10" cy="10" r="2.3" />
    </svg>
  );
}
