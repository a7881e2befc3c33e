/**
 * Nodes in words and colours: attributes as text, families as colours.
 *
 * Invariant: pure; a family that this page does not know yet looks like the plainest one.
 */

import { formatNumber } from "@/base/numbers";
import type { Node } from "@/wire/types.gen";

const COLOURED = new Set([
  "matmul",
  "elementwise",
  "activation",
  "reduction",
  "norm",
  "layout",
  "index",
  "random",
  "loss",
  "update",
  "control",
  "kernel",
]);

/** The CSS variable of a family's colour. */
export function familyColour(family: string): string {
  if (family === "leaf") return "--text-off";
  return COLOURED.has(family) ? `--op-${family}` : "--op-elementwise";
}

const MAX_DETAIL = 34;

/** One short line of what the op was given: `axis 1 · keepdims`; what has no room is left out. */
export function detail(node: Node): string {
  let line = "";
  for (const [key, value] of Object.entries(node.attrs)) {
    const text = attributeText(value);
    if (value === false || value === null || text.length > 20) continue;
    const part = value === true ? key : `${key} ${text}`;
    const longer = line === "" ? part : `${line} · ${part}`;
    if (longer.length > MAX_DETAIL) return line === "" ? cut(part) : `${line} …`;
    line = longer;
  }
  return line;
}

function cut(text: string): string {
  return `${text.slice(0, MAX_DETAIL - 1)}…`;
}

export function attributeText(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return formatNumber(value, 6);
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return `(${value.map(attributeText).join(", ")})`;
  return JSON.stringify(value) ?? String(value);
}
