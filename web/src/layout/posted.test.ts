import { expect, it } from "vitest";
import { packed, unpacked } from "@/layout/posted";
import { plainNode } from "@/layout/testing";
import type { LayoutNode, LayoutValue } from "@/layout/types";

it("unpacking a packed graph returns the same graph", () => {
  const nodes: LayoutNode[] = [
    { ...plainNode(7, 100), role: undefined, control: [] },
    {
      ...plainNode(3, 100),
      label: "∇ ‹a\u0000b›",
      scope: "net/层",
      role: "parameter",
      inputs: [107, 107, 2 ** 40],
      outputs: [],
      forward: 0,
      control: [7],
    },
  ];
  const shapes = [[], [null], [0], [null, 3], [3, null], [2, 3]];
  const values = new Map(
    shapes.map((shape, at): [number, LayoutValue] => {
      const id = 2 ** 33 + at;
      return [id, { id, shape, bytes: at * 2 ** 34, type: at === 2 ? "Frame" : undefined }];
    }),
  );
  const there = unpacked(structuredClone(packed(nodes, values)));
  expect(there.nodes).toEqual(nodes);
  expect([...there.values]).toEqual([...values]);
});

it("equal texts and shapes are posted once", () => {
  const nodes = [1, 2, 3].map((id) => ({ ...plainNode(id, 100), label: "x", scope: "net" }));
  const values = new Map([1, 2].map((id) => [id, { id, shape: [2, 2], bytes: 4 }]));
  const { texts, shapes } = packed(nodes, values);
  expect(texts.length).toBe(new Set(texts).size);
  expect(shapes).toEqual([[2, 2]]);
});
