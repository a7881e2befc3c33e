/**
 * The colours of the canvas: the page's tokens, by name.
 *
 * Invariant: this file contains no colours; on screen they are read from the CSS variables, for an
 * export without a page from literals generated from the same file.
 */

import { FAMILIES, type Family } from "@/base/families";
import { type Palette, type Theme, TOKENS, type Token } from "@/render/draw/design_tokens";
import { LITERALS } from "@/render/draw/palette_literals";
import { isLeaf } from "@/wire/roles";
import type { Node } from "@/wire/types.gen";

export type { Palette, Theme, Token };

export function literalPalette(theme: Theme): Palette {
  return LITERALS[theme];
}

/** Reads the current theme; a missing variable falls back to the dark theme's. */
export function readPalette(element: Element): Palette {
  const style = getComputedStyle(element);
  const entries = TOKENS.map((token) => {
    const value = style.getPropertyValue(`--${token}`).trim();
    return [token, value === "" ? LITERALS.dark[token] : value] as const;
  });
  return Object.fromEntries(entries) as Record<Token, string>;
}

const COLOURED: ReadonlySet<string> = new Set(FAMILIES);

/** The family that sets a node's look: `leaf` if it only holds data, `other` if it is unknown. */
export function familyOf(node: Pick<Node, "role" | "family">): Family {
  if (isLeaf(node)) return "leaf";
  const { family } = node;
  return family !== "leaf" && COLOURED.has(family) ? (family as Family) : "other";
}

export function familyColour(palette: Palette, family: string): string {
  if (family === "leaf") return palette["text-3"];
  if (!COLOURED.has(family)) return palette["op-other"];
  return palette[`op-${family as Exclude<Family, "leaf">}`];
}

/**
 * Colour of `t` (0 to 1) on the sequential scale; the low end stays distinct from the background.
 */
export function sequential(palette: Palette, t: number): string {
  const place = Math.min(1, Math.max(0, t)) * 4 + 2;
  const low = Math.min(5, Math.floor(place));
  const a = palette[`seq-${low}` as Token];
  const b = palette[`seq-${low + 1}` as Token];
  return mix(a, b, place - low);
}

/** How far the background of a box blends into its tint. */
const TINT = 0.18;

/** A box's background in the colour of its time, its memory or its fate. */
export function tinted(ground: string, tint: string): string {
  return mix(ground, tint, TINT);
}

/** The ink of text beside a name; on a tinted background the faintest would be unreadable. */
export function quietInk(palette: Palette, onTint: boolean): string {
  return palette[onTint ? "text-2" : "text-3"];
}

/** Blends two colours written as #rgb, #rrggbb or #rrggbbaa; anything else returns the first. */
export function mix(a: string, b: string, t: number): string {
  const from = channels(a);
  const to = channels(b);
  if (from === undefined || to === undefined) return a;
  const hex = from
    .map((value, k) => Math.round(value + (to[k]! - value) * t))
    .map((value) => value.toString(16).padStart(2, "0"));
  return `#${hex.join("")}`;
}

function channels(colour: string): readonly number[] | undefined {
  if (!/^#([\da-f]{3}|[\da-f]{6}|[\da-f]{8})$/i.test(colour)) return undefined;
  const digits = colour.slice(1);
  const wide = digits.length === 3 ? [...digits].map((digit) => digit + digit).join("") : digits;
  return [0, 2, 4].map((at) => Number.parseInt(wide.slice(at, at + 2), 16));
}
