/**
 * A graph in columns, as it is posted to the layout worker: copying objects one by one would cost
 * the page several times as much.
 *
 * Invariant: `unpacked` returns what was packed, except for fields that the layout does not read;
 * equal texts and shapes are posted once, and are the same object afterwards.
 */

import { numberList } from "@/base/number_list";
import type { LayoutNode, LayoutValue } from "@/layout/types";

/** Lists of numbers, one after the other: list k is `items[start[k]]` to `items[start[k + 1] - 1]`. */
interface Lists {
  readonly start: Int32Array;
  readonly items: Float64Array;
}

export interface PostedGraph {
  readonly texts: readonly string[];
  /** Indices into `texts`, column by column as in `TEXTS`; -1 = undefined. */
  readonly words: Int32Array;
  readonly id: Float64Array;
  /** NaN = undefined. */
  readonly forward: Float64Array;
  readonly inputs: Lists;
  readonly outputs: Lists;
  readonly control: Lists;
  readonly shapes: readonly (readonly (number | null)[])[];
  readonly valueId: Float64Array;
  readonly valueBytes: Float64Array;
  /** Indices into `shapes`. */
  readonly valueShape: Int32Array;
  /** Indices into `texts`; -1 = undefined. */
  readonly valueType: Int32Array;
}

const TEXTS = ["label", "op", "family", "role", "scope", "phase", "detail"] as const;

export function packed(
  nodes: readonly LayoutNode[],
  values: ReadonlyMap<number, LayoutValue>,
): PostedGraph {
  const count = nodes.length;
  const texts = new Map<string, number>();
  const place = (text: string | undefined): number => {
    if (text === undefined) return -1;
    const known = texts.get(text);
    if (known !== undefined) return known;
    texts.set(text, texts.size);
    return texts.size - 1;
  };
  const words = new Int32Array(TEXTS.length * count);
  TEXTS.forEach((field, column) => {
    for (let at = 0; at < count; at++) words[column * count + at] = place(nodes[at]![field]);
  });
  const shapes = new Map<string, number>();
  const shapeList: (readonly (number | null)[])[] = [];
  const all = [...values.values()];
  const valueShape = Int32Array.from(all, ({ shape }) => {
    const key = `${shape.length} ${shape.join()}`;
    const known = shapes.get(key);
    if (known !== undefined) return known;
    shapes.set(key, shapeList.length);
    // Copied, because a store's proxies cannot be posted.
    return shapeList.push([...shape]) - 1;
  });
  const valueType = Int32Array.from(all, ({ type }) => place(type));
  return {
    texts: [...texts.keys()],
    words,
    id: Float64Array.from(nodes, ({ id }) => id),
    forward: Float64Array.from(nodes, ({ forward }) => forward ?? Number.NaN),
    inputs: lists(nodes, (node) => node.inputs),
    outputs: lists(nodes, (node) => node.outputs),
    control: lists(nodes, (node) => node.control ?? []),
    shapes: shapeList,
    valueId: Float64Array.from(all, ({ id }) => id),
    valueBytes: Float64Array.from(all, ({ bytes }) => bytes),
    valueShape,
    valueType,
  };
}

export function unpacked(graph: PostedGraph): {
  readonly nodes: readonly LayoutNode[];
  readonly values: ReadonlyMap<number, LayoutValue>;
} {
  const { texts, words, id, forward, inputs, outputs, control } = graph;
  const count = id.length;
  const text = (column: number, at: number): string => texts[words[column * count + at]!]!;
  const nodes = Array.from({ length: count }, (_, at): LayoutNode => {
    const twin = forward[at]!;
    return {
      id: id[at]!,
      label: text(0, at),
      op: text(1, at),
      family: text(2, at),
      role: texts[words[3 * count + at]!],
      scope: text(4, at),
      phase: text(5, at),
      inputs: list(inputs, at),
      outputs: list(outputs, at),
      detail: text(6, at),
      forward: Number.isNaN(twin) ? undefined : twin,
      control: list(control, at),
    };
  });
  const values = new Map<number, LayoutValue>();
  graph.valueId.forEach((value, at) => {
    values.set(value, {
      id: value,
      shape: graph.shapes[graph.valueShape[at]!]!,
      bytes: graph.valueBytes[at]!,
      type: texts[graph.valueType[at]!],
    });
  });
  return { nodes, values };
}

function lists(nodes: readonly LayoutNode[], of: (node: LayoutNode) => readonly number[]): Lists {
  const start = new Int32Array(nodes.length + 1);
  nodes.forEach((node, at) => {
    start[at + 1] = start[at]! + of(node).length;
  });
  const items = new Float64Array(start[nodes.length]!);
  nodes.forEach((node, at) => {
    items.set(of(node), start[at]!);
  });
  return { start, items };
}

const NONE: readonly number[] = [];

function list({ start, items }: Lists, at: number): readonly number[] {
  const begin = start[at]!;
  const end = start[at + 1]!;
  return begin === end ? NONE : numberList(items, begin, end);
}
