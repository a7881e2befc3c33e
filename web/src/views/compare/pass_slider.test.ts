import { expect, test } from "vitest";
import { stageWords } from "@/views/compare/pass_slider";
import type { Stage } from "@/wire/types.gen";

const stage: Stage = { name: "fuse", graph: 1, nodes: 30, changes: [], took_ns: 905e3, notes: [] };

test("the last stage is called final graph once, and no time is shown if there is none", () => {
  expect(stageWords(stage, false)).toBe("0 rewrites · 905\u202fµs · 30 nodes");
  expect(stageWords(stage, true)).toBe("final graph · 0 rewrites · 905\u202fµs · 30 nodes");
  const none = { ...stage, name: "final", took_ns: 0 };
  expect(stageWords(none, true)).toBe("0 rewrites · 30 nodes");
});
