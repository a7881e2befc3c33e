import { expect, test } from "vitest";
import { numeralText } from "@/views/inspector/diff_panel";

test.each([
  ["6.293e-06", "6.293e\u22126"],
  ["-1e+20", "\u22121e20"],
  ["1.5e-123", "1.5e\u2212123"],
  ["0.0001176", "0.0001176"],
])("Python's %s is shown as %s", (text, shown) => {
  expect(numeralText(text)).toBe(shown);
});
