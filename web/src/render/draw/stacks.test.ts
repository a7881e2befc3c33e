import { describe, expect, it } from "vitest";
import { composeScene } from "@/layout/compose";
import { buildHierarchy } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import { alarmIn, differences } from "@/render/draw/draw_stacks";
import { liveState } from "@/render/draw/execution_overlay";
import { hitTest, stackActOf } from "@/render/scene/hit";
import { SceneModel } from "@/render/scene/model";
import { toggledAmong } from "@/render/scene/scene_source";
import { stackControls } from "@/render/scene/stack_controls";
import { type GraphValue, HAS_NAN } from "@/render/scene/types";
import { node } from "@/render/testing";

const NODES = [1, 2, 3, 4].map((id) => node(id, { scope: `block_${id}`, inputs: [99 + id] }));
const VALUES = new Map<number, GraphValue>(
  NODES.map(({ id }) => [
    100 + id,
    { id: 100 + id, shape: [id === 3 ? 8 : 4], dtype: "float32", bytes: 16 },
  ]),
);
const HIERARCHY = buildHierarchy(NODES, VALUES);
const STACK = HIERARCHY.groups[HIERARCHY.groupAt.get("block_1…")!]!;

function stateWith(times: readonly number[], flags: readonly number[]) {
  const count = NODES.length + 1;
  const states = {
    times: new Uint32Array(count).fill(1),
    step: new Uint32Array(count),
    durationNs: Float64Array.from([0, ...times]),
    flags: Uint8Array.from([0, ...flags]),
  };
  return liveState(HIERARCHY, states, 0);
}

function modelOf(...open: string[]): SceneModel {
  return new SceneModel(HIERARCHY, composeScene(new NestedLayout(HIERARCHY), new Set(open), 1));
}

describe("the text of a stack", () => {
  it("states differing shapes and times, and values that are not finite", () => {
    const calm = stateWith([100, 110, 100, 100], [0, 0, 0, 0]);
    expect(alarmIn(HIERARCHY, calm, STACK, -1)).toBe("");
    expect(differences(HIERARCHY, calm, STACK)).toEqual(["1 shape differs", "110 ns each"]);
    const odd = stateWith([100, 9000, 100, 100], [0, 0, HAS_NAN, 0]);
    expect(alarmIn(HIERARCHY, odd, STACK, -1)).toBe("NaN in block_3");
    expect(differences(HIERARCHY, odd, STACK)[1]).toMatch(/^100 ns – 9/);
    const worse = stateWith([1, 1, 1, 1], [HAS_NAN, 0, HAS_NAN, 0]);
    expect(alarmIn(HIERARCHY, worse, STACK, -1)).toBe("NaN in 2 of 4");
    expect(alarmIn(HIERARCHY, worse, STACK, HIERARCHY.groupAt.get("block_1")!)).toBe(
      "NaN in block_3",
    );
  });
});

describe("the controls of a stack", () => {
  it("are hit where they are drawn", () => {
    for (const [open, acts] of [
      [[], ["all"]],
      [["block_2"], ["previous", "next", "all"]],
      [["block_1…"], []],
    ] as const) {
      const model = modelOf(...open);
      const box = model.boxOf({ kind: "scope", path: "block_1…" });
      const controls = stackControls(model, box);
      expect(controls.map(({ act }) => act)).toEqual(acts);
      for (const { act, rect } of controls) {
        const middle = { x: rect.x + rect.width / 2, y: rect.y + rect.height / 2 };
        const hit = hitTest(model, middle)!;
        expect([hit.box, hit.stack, hit.chevron]).toEqual([box, act, false]);
        expect(stackActOf(hit, 1)).toBe(act);
        expect(stackActOf(hit, 0.5)).toBeUndefined();
      }
    }
  });
});

describe("the scope that was folded or opened", () => {
  it("is the outer one, or the one that the stack now shows", () => {
    const open = new Set(["b_2", "b_2/mlp"]);
    expect(toggledAmong(["b_2"], open)).toBe("b_2");
    expect(toggledAmong(["b_1", "b_1/mlp", "b_2", "b_2/mlp"], open)).toBe("b_2");
    expect(toggledAmong(["a", "b_2"], new Set(["a", "b_2"]))).toBeUndefined();
    expect(toggledAmong(["b_2", "b_2/mlp"], open)).toBeUndefined();
    expect(toggledAmong([], open)).toBeUndefined();
  });
});
