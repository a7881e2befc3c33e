import { expect, test } from "vitest";
import { elementCount, tensorBytes } from "@/base/dtypes";
import { formatShape } from "@/base/numbers";
import { shapeText } from "@/layout/sizes";
import { familyOf } from "@/render/draw/palette";
import { familyColour } from "@/store/run/node_text";
import { node, tensor } from "@/wire/fixtures";
import { isLeaf } from "@/wire/roles";
import { sameSpec, shapeOf, specFields, typeOf } from "@/wire/spec";
import type { OpaqueSpec } from "@/wire/types.gen";

const FRAME: OpaqueSpec = { kind: "opaque", type: "pandas.DataFrame", nbytes: 4096 };

test("an unknown size is a question mark, and counts as one element", () => {
  expect(formatShape([null, 10])).toBe("(?, 10)");
  expect(shapeText([null, 3, 3])).toBe("(?, 3, 3)");
  expect(elementCount([null, 10])).toBe(10);
  expect(tensorBytes([null, 10], "float32")).toBe(40);
});

test("a value other than a tensor has a class and perhaps a size", () => {
  expect(specFields(FRAME)).toEqual({
    shape: [],
    dtype: "pandas.DataFrame",
    bytes: 4096,
    type: "pandas.DataFrame",
  });
  expect(specFields({ ...FRAME, nbytes: null }).bytes).toBe(0);
  expect([shapeOf(FRAME), typeOf(FRAME), typeOf(undefined)]).toEqual([[], "pandas.DataFrame", ""]);
  expect(sameSpec(FRAME, { ...FRAME })).toBe(true);
  expect(sameSpec(FRAME, tensor([]))).toBe(false);
});

test("leaves are identified by role, whatever their family", () => {
  const read = node(1, "net/weight", { family: "other", role: "buffer", dialect: "torch" });
  expect(isLeaf(read)).toBe(true);
  expect(familyOf(read)).toBe("leaf");
  expect(familyOf(node(2, "task", { family: "leaf", role: "task" }))).toBe("other");
});

test("an unknown family is grey", () => {
  expect(familyOf(node(1, "x", { family: "quantum" }))).toBe("other");
  expect(familyColour("quantum")).toBe("--op-other");
  expect(familyOf(node(2, "x", { family: "communication" }))).toBe("communication");
  expect(familyColour("communication")).toBe("--op-communication");
});
