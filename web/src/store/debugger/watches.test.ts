import { describe, expect, it } from "vitest";
import { rulesFound, shortText, switched, withMore } from "@/store/debugger/watches";
import type { RuleInfo, WatchStatus } from "@/wire/types.gen";

const status = (text: string, id = 1): WatchStatus => ({
  id,
  text,
  rule: text.split(/[ (]/)[0] ?? "",
  enabled: !text.startsWith("off "),
  hits: 0,
  last: "",
  node: 0,
  seq: 0,
  step: 0,
  message: "",
  marks: false,
  recent: [],
});

const rule = (name: string, origin: string, alias = ""): RuleInfo => ({
  name,
  about: `about ${name}`,
  asked: "any value",
  origin,
  aliases: alias === "" ? [] : [alias],
  parameters: [],
  text: `${name} -> stop`,
  whole: false,
});

describe("watches as they are written", () => {
  it("are switched off and on", () => {
    expect(switched("nan -> stop", false)).toBe("off nan -> stop");
    expect(switched("off nan -> stop", false)).toBe("off nan -> stop");
    expect(switched("off nan -> stop", true)).toBe("nan -> stop");
  });

  it("are added once, though one is switched off", () => {
    const now = [status("off nan -> stop"), status("inf -> log", 2)];
    expect(withMore(now, ["nan -> stop", "inf -> stop"])).toEqual([
      "off nan -> stop",
      "inf -> log",
      "inf -> stop",
    ]);
  });

  it("are short without the usual action", () => {
    expect(shortText("off nan on op:log -> stop")).toBe("nan on op:log");
    expect(shortText("nan -> stop, log")).toBe("nan -> stop, log");
  });
});

describe("rules", () => {
  const rules = [
    rule("gradient_vanishing", "MindInsight", "GV"),
    rule("nan", "TensorBoard"),
    rule("gradient_too_large", "MindInsight"),
  ];

  it("stand by their kind", () => {
    expect(rulesFound(rules, "").map(([kind, matching]) => [kind, matching.length])).toEqual([
      ["MindInsight", 2],
      ["TensorBoard", 1],
    ]);
  });

  it("are found by words of their name, abbreviation and purpose", () => {
    expect(
      rulesFound(rules, "gv").flatMap(([, matching]) => matching.map((rule) => rule.name)),
    ).toEqual(["gradient_vanishing"]);
    expect(rulesFound(rules, "about large")).toHaveLength(1);
    expect(rulesFound(rules, "relu")).toEqual([]);
  });
});
