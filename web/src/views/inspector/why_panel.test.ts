import { expect, test } from "vitest";
import type { Why } from "@/store/history/why";
import type { Store } from "@/store/page/store";
import { raisedLater } from "@/views/inspector/why_panel";
import { node } from "@/wire/fixtures";

test("a note names the step that is explained for a node that raised", () => {
  const words = (raised: number, value: number): string =>
    raisedLater(
      {
        raised: () => raised,
        model: () => ({
          graph: { nodes: [undefined, undefined, node(2, "net/matmul", { outputs: [7] })] },
        }),
      } as unknown as Store,
      {
        question: () => ({ value }),
        group: () => ({ links: [{ step: 3 }] }),
      } as unknown as Why,
    );
  expect(words(2, 7)).toBe(
    "net/matmul raised an error and has no value there. This explains its last value, of step 3:",
  );
  expect(words(2, 8)).toBe("");
  expect(words(0, 7)).toBe("");
});
