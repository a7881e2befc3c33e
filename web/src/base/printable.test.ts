import { describe, expect, it } from "vitest";
import { printable } from "@/base/printable";

describe("names of other people's programs", () => {
  it("cannot reverse the text around them", () => {
    expect(printable("\u202egnirts")).toBe("�gnirts");
    expect(printable("a\nb\u0007")).toBe("a�b�");
  });
  it("keep their script", () => {
    expect(printable("漢字 🚀 <b>")).toBe("漢字 🚀 <b>");
  });
});
