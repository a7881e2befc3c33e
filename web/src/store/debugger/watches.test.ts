import { createRoot } from "solid-js";
import { describe, expect, it } from "vitest";
import {
  createWatches,
  enabledTexts,
  rulesFound,
  shortText,
  switched,
  type Watches,
  withMore,
} from "@/store/debugger/watches";
import { type Requests, Store } from "@/store/page/store";
import { createUi } from "@/store/page/ui";
import { RUN, runInfo, session, snapshot } from "@/wire/fixtures";
import type { RequestBody, RuleInfo, WatchStatus } from "@/wire/types.gen";

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

describe("watches as text", () => {
  it("can be switched off and on", () => {
    expect(switched("nan -> stop", false)).toBe("off nan -> stop");
    expect(switched("off nan -> stop", false)).toBe("off nan -> stop");
    expect(switched("off nan -> stop", true)).toBe("nan -> stop");
  });

  it("are added once, even if the existing one is switched off", () => {
    const now = [status("off nan -> stop"), status("inf -> log", 2)];
    expect(withMore(now, ["nan -> stop", "inf -> stop"])).toEqual([
      "off nan -> stop",
      "inf -> log",
      "inf -> stop",
    ]);
  });

  it("are shortened by leaving out the usual action", () => {
    expect(shortText("off nan on op:log -> stop")).toBe("nan on op:log");
    expect(shortText("nan -> stop, log")).toBe("nan -> stop, log");
  });
});

describe("a query on the recording", () => {
  const asked = (texts: readonly string[], ask: (watches: Watches) => unknown): RequestBody[] => {
    const requests: RequestBody[] = [];
    createRoot((dispose) => {
      const store = new Store();
      store.attach({
        request: ((body: RequestBody) => {
          requests.push(body);
          return new Promise(() => undefined);
        }) as Requests["request"],
      });
      store.runsChanged([runInfo()]);
      const watches = texts.map((text, i) => status(text, i + 1));
      store.receive([snapshot({ session: session({ phase: "stopped", version: 1, watches }) })]);
      ask(createWatches(store, createUi(undefined)));
      dispose();
    });
    return requests.filter((body) => body.type === "ask_watch");
  };

  it("covers all enabled watches if none is typed", () => {
    const texts = ["nan -> stop", "off inf -> stop", 'max_gt(threshold=3) on "a;b" -> log'];
    expect(asked(texts, (watches) => watches.askAll())).toEqual([
      { type: "ask_watch", run: RUN, text: `${texts[0]}\n${texts[2]}` },
    ]);
    expect(enabledTexts([status("off inf -> stop")])).toEqual([]);
  });
});

describe("rules", () => {
  const rules = [
    rule("gradient_vanishing", "MindInsight", "GV"),
    rule("nan", "TensorBoard"),
    rule("gradient_too_large", "MindInsight"),
  ];

  it("are grouped by kind", () => {
    expect(rulesFound(rules, "").map(([kind, matching]) => [kind, matching.length])).toEqual([
      ["MindInsight", 2],
      ["TensorBoard", 1],
    ]);
  });

  it("are found by name, abbreviation and purpose", () => {
    expect(
      rulesFound(rules, "gv").flatMap(([, matching]) => matching.map((rule) => rule.name)),
    ).toEqual(["gradient_vanishing"]);
    expect(rulesFound(rules, "about large")).toHaveLength(1);
    expect(rulesFound(rules, "relu")).toEqual([]);
  });
});
