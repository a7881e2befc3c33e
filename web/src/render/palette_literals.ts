/**
 * The tokens of both themes as literals, for pictures made without a page. Generated from the
 * tokens' CSS file; a test compares the two.
 *
 * Invariant: holds exactly the names in `TOKENS`.
 */

import type { Palette, Theme } from "@/render/palette";

export const LITERALS: Readonly<Record<Theme, Palette>> = {
  dark: {
    "bg-well": "#0b0d10", "bg-canvas": "#0e1114", "bg-panel": "#14181c", "bg-raised": "#1a1f24",
    "bg-hover": "#20262c", "bg-active": "#283038", "bg-overlay": "#1d2228", "scope-1": "#11151a",
    "scope-2": "#151a20", "scope-3": "#1a2027", "line": "#242a31", "line-strong": "#343c45",
    "line-node": "#3a434d", "text": "#e8ebee", "text-2": "#aab3bd", "text-3": "#87919d",
    "text-off": "#5a636e", "now": "#ffb52e", "now-text": "#ffc55c", "now-wash": "#ffb52e1c",
    "now-ring": "#ffb52e40", "select": "#5aa2ff", "select-text": "#86bcff",
    "select-wash": "#5aa2ff1f", "nan": "#ff5fb4", "nan-text": "#ff8ac8", "nan-wash": "#ff5fb41c",
    "inf": "#c68bff", "inf-text": "#d3a6ff", "inf-wash": "#c68bff1c", "break": "#f2555a",
    "break-text": "#ff8f91", "ok": "#3fbf8f", "warn": "#e0a43a", "op-matmul": "#5b9df5",
    "op-elementwise": "#93a0ae", "op-activation": "#35b8a6", "op-reduction": "#a78df2",
    "op-norm": "#62c8ea", "op-layout": "#b7a88c", "op-index": "#84b95c", "op-random": "#d68fc0",
    "op-loss": "#d2c14e", "op-update": "#d08a5b", "seq-0": "#10151c", "seq-1": "#173048",
    "seq-2": "#1d5573", "seq-3": "#2b8090", "seq-4": "#62ab92", "seq-5": "#b4cf92",
    "seq-6": "#f6f0b2",
  },
  light: {
    "bg-well": "#e9ecef", "bg-canvas": "#f6f7f8", "bg-panel": "#fcfcfd", "bg-raised": "#ffffff",
    "bg-hover": "#f0f2f4", "bg-active": "#e4e8ec", "bg-overlay": "#ffffff", "scope-1": "#f1f3f5",
    "scope-2": "#eaedf0", "scope-3": "#e2e7eb", "line": "#dfe3e7", "line-strong": "#c7cdd4",
    "line-node": "#b6bec7", "text": "#14181d", "text-2": "#414a54", "text-3": "#5b6570",
    "text-off": "#98a1ab", "now": "#d98200", "now-text": "#875000", "now-wash": "#ffb52e2e",
    "now-ring": "#ffb52e66", "select": "#1a6fe0", "select-text": "#1257b5",
    "select-wash": "#1a6fe014", "nan": "#d3127d", "nan-text": "#b00a66", "nan-wash": "#d3127d14",
    "inf": "#8a3fd1", "inf-text": "#7530b8", "inf-wash": "#8a3fd114", "break": "#d7282f",
    "break-text": "#b3191f", "ok": "#12855c", "warn": "#9a6200", "op-matmul": "#2a6fd0",
    "op-elementwise": "#6c7885", "op-activation": "#0d8a7a", "op-reduction": "#7354d0",
    "op-norm": "#1789b0", "op-layout": "#8d7a55", "op-index": "#548a2c", "op-random": "#b0568f",
    "op-loss": "#96830a", "op-update": "#ad6229", "seq-0": "#f3f6f4", "seq-1": "#d3e6d6",
    "seq-2": "#9fcdbd", "seq-3": "#5fa9ab", "seq-4": "#2f7f96", "seq-5": "#1d5377",
    "seq-6": "#14284a",
  },
};
