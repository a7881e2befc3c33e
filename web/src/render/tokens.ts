/**
 * The names of the tokens that the canvas draws with.
 *
 * Invariant: each is a CSS variable of both themes.
 */

export const TOKENS = [
  "bg-well",
  "bg-canvas",
  "bg-panel",
  "bg-raised",
  "bg-hover",
  "bg-active",
  "bg-overlay",
  "scope-1",
  "scope-2",
  "scope-3",
  "line",
  "line-strong",
  "line-node",
  "text",
  "text-2",
  "text-3",
  "text-off",
  "now",
  "now-text",
  "now-wash",
  "now-ring",
  "select",
  "select-text",
  "select-wash",
  "nan",
  "nan-text",
  "nan-wash",
  "inf",
  "inf-text",
  "inf-wash",
  "break",
  "break-text",
  "ok",
  "warn",
  "op-matmul",
  "op-elementwise",
  "op-activation",
  "op-reduction",
  "op-norm",
  "op-layout",
  "op-index",
  "op-random",
  "op-loss",
  "op-update",
  "seq-0",
  "seq-1",
  "seq-2",
  "seq-3",
  "seq-4",
  "seq-5",
  "seq-6",
] as const;

export type Token = (typeof TOKENS)[number];
export type Palette = Readonly<Record<Token, string>>;
export type Theme = "light" | "dark";
