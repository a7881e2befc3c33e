/**
 * Box sizes from their text: measured with the bundled advance widths, so that worker, page and
 * export agree.
 *
 * Invariant: a size depends on names and shapes, never on live state, so that a running program
 * does not move the picture.
 */

import { type Font, textWidth } from "@/base/fonts_metrics";
import { clamp } from "@/base/geometry";
import { formatShape } from "@/base/numbers";
import { printable } from "@/base/printable";
import type { Stack } from "@/base/repeats";
import { COLUMN_BACKWARD, type Group, type Hierarchy } from "@/layout/hierarchy";
import type { LayoutNode } from "@/layout/types";

export const NAME_FONT: Font = { face: "sans", weight: 500, size: 12 };
export const TITLE_FONT: Font = { face: "sans", weight: 600, size: 12 };
export const SCOPE_FONT: Font = { face: "sans", weight: 600, size: 11.5 };
export const SMALL_MONO: Font = { face: "mono", weight: 400, size: 10 };
export const SMALL_SANS: Font = { face: "sans", weight: 400, size: 10 };

/** Room left of the name, px, for the bar or square. */
export const NAME_INSET = 11;
export const PILL_INSET = 20;
export const NABLA_WIDTH = 13;
export const TIME_ROOM = 52;
export const HEADER_HEIGHT = 24;
export const SCOPE_PADDING = 14;
export const FOLD_HEIGHT = 24;
/** Height of a folded stack, which has a second line. */
export const STACK_HEIGHT = 40;
/** Padding on both sides of the count of a folded stack. */
export const FOLD_PADDING = 5;
export const PILL_HEIGHT = 22;
export const LINE_HEIGHT = 13;
/** Room for the text at the right of a folded scope. */
export const FOLD_RIGHT_ROOM = 120;

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** `(64, 32)`, `(?, 32)` if a size is unknown; a scalar has no shape to show. */
export function shapeText(shape: readonly (number | null)[]): string {
  return shape.length === 0 ? "" : formatShape(shape, 8);
}

/** The text in a node for the leaves drawn inside it: `w (64, 32)  b (32,)`. */
export function chipText(hierarchy: Hierarchy, node: number): string {
  const chips = hierarchy.chips.get(node);
  if (chips === undefined) return "";
  const parts = chips.slice(0, 3).map((index) => {
    const leaf = hierarchy.nodes[index]!;
    const shape = shapeText(hierarchy.values.get(leaf.outputs[0] ?? -1)?.shape ?? []);
    return shape === "" ? leafName(leaf) : `${leafName(leaf)} ${shape}`;
  });
  if (chips.length > 3) parts.push(`+${chips.length - 3}`);
  return parts.join("  ");
}

/** The name of a leaf: its label, or its op if it has none. */
export function leafName(leaf: LayoutNode): string {
  return printable(leaf.label === "" ? leaf.op : leaf.label, 60);
}

const NUMBERED = /^(\D{0,5})\d+$/u;

/** PyTorch's names for operations, where they are not part of our names. */
const CALLED: Readonly<Record<string, string>> = {
  acos: "arccos",
  asin: "arcsin",
  atan: "arctan",
  bmm: "matmul",
  dot: "matmul",
  ge: "greater_equal",
  gt: "greater",
  lt: "less",
  mv: "matmul",
  ne: "not_equal",
  t: "transpose",
  to: "astype",
  view: "reshape",
};

/** A node's label; the op comes first if the label only numbers the node, such as `n0` in ONNX. */
export function nodeName({ label, op }: Pick<LayoutNode, "label" | "op">): string {
  const letters = NUMBERED.exec(label)?.[1]?.replaceAll("_", "").toLowerCase();
  const plain = op.replace(/^\w+::/, "").replace(/\.\w+$/, "");
  if (letters === undefined || plain === "") return label;
  const told =
    CALLED[letters] === plain || (letters.length > 1 && plain.toLowerCase().includes(letters));
  return told ? label : `${plain} · ${label}`;
}

export function inputText(hierarchy: Hierarchy, node: number): string {
  const leaf = hierarchy.nodes[node]!;
  return shapeText(hierarchy.values.get(leaf.outputs[0] ?? -1)?.shape ?? []);
}

/** Lines under the name: the detail, then the leaves inside. */
export function detailLines(hierarchy: Hierarchy, node: number): readonly string[] {
  const lines: string[] = [];
  const detail = hierarchy.nodes[node]!.detail;
  if (detail !== "") lines.push(printable(detail, 120));
  const chips = chipText(hierarchy, node);
  if (chips !== "") lines.push(chips);
  return lines;
}

/** Whether names in the group are preceded by `∇`: everything in the backward column. */
export function isGradient(group: Group): boolean {
  return group.column === COLUMN_BACKWARD && group.depth > 0;
}

const STEP = 8;

function stepped(width: number, low: number, high: number): number {
  return clamp(Math.ceil(width / STEP) * STEP, low, high);
}

export function nodeSize(hierarchy: Hierarchy, node: number): Size {
  const data = hierarchy.nodes[node]!;
  const nabla = isGradient(hierarchy.groups[hierarchy.groupOf[node]!]!) ? NABLA_WIDTH : 0;
  const name = textWidth(printable(nodeName(data), 60), TITLE_FONT);
  const lines = detailLines(hierarchy, node);
  let width = PILL_INSET + nabla + name + 10 + TIME_ROOM;
  for (const line of lines) {
    width = Math.max(width, NAME_INSET + textWidth(line.slice(0, 80), SMALL_MONO) + 10);
  }
  return {
    width: stepped(width, 112, 232),
    height: lines.length === 0 ? PILL_HEIGHT : 10 + LINE_HEIGHT * (1 + lines.length),
  };
}

export function inputSize(hierarchy: Hierarchy, node: number): Size {
  const leaf = hierarchy.nodes[node]!;
  const shape = textWidth(inputText(hierarchy, node), SMALL_MONO);
  const name = textWidth(leafName(leaf), NAME_FONT);
  return {
    width: stepped(20 + name + (shape > 0 ? shape + 8 : 0), 48, 200),
    height: 20,
  };
}

/** The size of a far stub, which shows only the producer's name. */
export function farSize(hierarchy: Hierarchy, node: number): Size {
  const name = textWidth(leafName(hierarchy.nodes[node]!), NAME_FONT);
  return { width: stepped(FAR_ROOM + name, 48, 160), height: 18 };
}

/** Room beside the name of a far stub, px, for the arrow and the ends. */
const FAR_ROOM = 28;

/** The number of scopes in a stack, as a mark: `×12`. */
export function countMark(stack: Stack): string {
  return `×${stack.members.length}`;
}

/** The name of a group wherever there is no room for a separate count. */
export function groupLabel({ name, stack }: Group): string {
  return stack === undefined ? name : `${name} ${countMark(stack)}`;
}

export function foldSize(group: Group): Size {
  const nabla = isGradient(group) && group.depth > 1 ? NABLA_WIDTH : 0;
  const name = textWidth(printable(group.name, 60), NAME_FONT);
  const count =
    group.stack === undefined
      ? 0
      : textWidth(countMark(group.stack), SMALL_MONO) + 2 * FOLD_PADDING + 23;
  return {
    width: stepped(
      PILL_INSET + nabla + name + count + 14 + FOLD_RIGHT_ROOM,
      184,
      group.stack ? 344 : 264,
    ),
    height: group.stack === undefined ? FOLD_HEIGHT : STACK_HEIGHT,
  };
}

/** Extra header room for a scope of a stack: its place in the stack, and the controls. */
const PLACE_ROOM = 110;

/** Least width of an open scope, so that its header fits. */
export function headerWidth(group: Group, inStack: boolean): number {
  const name = textWidth(printable(groupLabel(group), 60), SCOPE_FONT);
  const width = stepped(PILL_INSET + NABLA_WIDTH + name + 14 + FOLD_RIGHT_ROOM, 160, 280);
  return width + (inStack ? PLACE_ROOM : 0);
}
