import { expect, it } from "vitest";
import { textWidth } from "@/base/fonts_metrics";

it("the brackets of sections are as wide as in the font", () => {
  for (const weight of [400, 500, 600] as const) {
    const font = { face: "sans", weight, size: 1000 } as const;
    expect(textWidth("‹›", font)).toBe(832);
    expect(textWidth("‹›", font)).toBeLessThan(textWidth("<>", font));
  }
});
