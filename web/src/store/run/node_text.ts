/**
 * Nodes as text and colours: attributes as text, families as colours.
 *
 * Invariant: pure; a family unknown to this page is grey.
 */

import { FAMILIES, type Family } from "@/base/families";
import { formatNumber, formatShape } from "@/base/numbers";
import type { Node } from "@/wire/types.gen";

/** The CSS variable of a family's colour. */
export function familyColour(family: string): string {
  if (family === "leaf") return "--text-off";
  return FAMILIES.includes(family as Family) ? `--op-${family}` : "--op-other";
}

const MAX_DETAIL = 34;

/**
 * One short line of the op's attributes: `axis 1 · keepdims`; attributes without room are left out.
 */
export function detail(node: Pick<Node, "attrs">): string {
  let line = "";
  for (const [key, value] of Object.entries(node.attrs)) {
    const text = attributeText(value, key);
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

/** Six digits without trailing zeros: 0.1, not 0.100000. */
function numberText(value: number): string {
  const text = formatNumber(value, 6);
  return /^\S*\.\d+$/.test(text) ? text.replace(/\.?0+$/, "") : text;
}

/** In Python notation. */
export function attributeText(value: unknown, name = ""): string {
  if (name === "shape" && Array.isArray(value) && value.every(Number.isInteger)) {
    // A size that `reshape` computes by itself is not known here.
    return formatShape(value.map((size: number) => (size < 0 ? null : size)));
  }
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return numberText(value);
  if (typeof value === "string") return value;
  if (Array.isArray(value)) {
    const items = value.map((item) => attributeText(item));
    return `(${items.join(", ")}${items.length === 1 ? "," : ""})`;
  }
  return JSON.stringify(value) ?? String(value);
}
