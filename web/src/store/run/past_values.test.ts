import { expect, test } from "vitest";
import { graphWith, reshapedValues, valueShown } from "@/store/run/past_values";
import { update } from "@/store/run/run_model";
import { node, produced, records, snapshot, tensor } from "@/wire/fixtures";
import { shapeOf } from "@/wire/spec";
import type { ProducedValue } from "@/wire/types.gen";

function shaped(id: number, shape: readonly number[]): ProducedValue {
  const { value, producer } = produced(id, `v${id}`);
  return { producer, value: { ...value, spec: tensor(shape) } };
}

const MODEL = update(
  undefined,
  snapshot({ nodes: [node(1, "a"), node(2, "b")], values: [shaped(1, [64, 96]), shaped(2, [4])] }),
);

test("a changed shape does not change the structure", () => {
  const after = update(MODEL, records({ values: [shaped(1, [29, 96])] }));
  expect(shapeOf(after?.graph.values.get(1)?.value.spec)).toEqual([29, 96]);
  expect(after?.graph.nodes).toBe(MODEL?.graph.nodes);
  expect(after?.graph.version).toBe(MODEL?.graph.version);
});

test("the past has its own shapes, but only where they differ from the current ones", () => {
  const none = new Map();
  expect(reshapedValues([shaped(1, [64, 96])], MODEL, none)).toBe(none);
  const past = reshapedValues([shaped(1, [29, 96]), shaped(2, [4])], MODEL, none);
  expect([...past.keys()]).toEqual([1]);
  expect(reshapedValues([shaped(1, [29, 96])], MODEL, past)).toBe(past);
  if (MODEL === undefined) throw new Error("a snapshot gives a model");
  expect(shapeOf(graphWith(MODEL.graph, past).values.get(1)?.value.spec)).toEqual([29, 96]);
  expect(graphWith(MODEL.graph, none)).toBe(MODEL.graph);
});

test("a value has its past shape at a past moment, and its current shape now", () => {
  const past = new Map([[1, shaped(1, [29, 96])]]);
  const at = (kind: "live" | "past") => ({
    model: () => MODEL,
    cursor: () => ({ kind }),
    pastValues: () => past,
  });
  expect(shapeOf(valueShown(at("past"), 1)?.value.spec)).toEqual([29, 96]);
  expect(shapeOf(valueShown(at("past"), 2)?.value.spec)).toEqual([4]);
  expect(shapeOf(valueShown(at("live"), 1)?.value.spec)).toEqual([64, 96]);
});
