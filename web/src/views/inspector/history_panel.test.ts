import { describe, expect, it } from "vitest";
import { notFiniteText } from "@/views/inspector/history_panel";

describe("the count of NaN and Inf of an execution", () => {
  it("is unknown without statistics, and never 0", () => {
    expect(notFiniteText(undefined)).toBe("–");
    expect(notFiniteText(0)).toBe("0");
    expect(notFiniteText(1234)).toBe("1,234");
  });
});
