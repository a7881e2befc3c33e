import { expect, test } from "vitest";
import { foundWords, markedNodes, ruleOf } from "@/store/debugger/watch_marks";
import type { WatchStatus } from "@/wire/types.gen";

const TEXT = "nan: loss/log in step 3 (train.py:14): 2 NaN in 6 elements";

const seen = (node: number, seq: number) => ({ node, seq, step: seq, text: `${TEXT} ${seq}` });

const status = (change: Partial<WatchStatus>): WatchStatus => ({
  id: 1,
  text: "nan -> mark",
  rule: "nan",
  enabled: true,
  hits: 2,
  last: "",
  node: 0,
  seq: 0,
  step: 0,
  message: "",
  marks: true,
  recent: [seen(5, 9), seen(4, 7), seen(5, 3)],
  ...change,
});

test("marks are grouped by node, newest first, and say if there are more hits", () => {
  const marks = markedNodes([status({ hits: 40 })], undefined);
  expect([...marks.keys()].sort()).toEqual([4, 5]);
  expect(marks.get(5)?.hits.map((hit) => hit.seq)).toEqual([9, 3]);
  expect(marks.get(5)?.more).toEqual(["nan -> mark"]);
  expect(markedNodes([status({ hits: 3 })], undefined).get(5)?.more).toEqual([]);
});

test("watches that only stop or log, or are off, mark nothing", () => {
  expect(markedNodes([status({ marks: false })], undefined).size).toBe(0);
  expect(markedNodes([status({ enabled: false })], undefined).size).toBe(0);
});

test("hits of a query on the recording are marked too, without duplicates", () => {
  const hit = { ...seen(5, 9), name: "loss/log" };
  const answer = {
    type: "watch_answer",
    hits: [hit, { ...hit, seq: 20 }],
    total: 2,
    looked: 9,
    caveats: [],
    fault: "",
  } as const;
  const marks = markedNodes([status({})], { text: "nan", answer });
  expect(marks.get(5)?.hits.map((hit) => hit.seq)).toEqual([20, 9, 3]);
});

test("after a query of several watches, a mark names its own watch", () => {
  const hits = [{ ...seen(5, 9), name: "loss/log" }];
  const counts = { total: 1, looked: 9, caveats: [], fault: "" };
  const answer = { type: "watch_answer", hits, ...counts } as const;
  const asked = (text: string) => markedNodes([], { text, answer }).get(5)?.hits[0]?.watch;
  expect(asked("inf -> stop\nnan on op:log -> stop")).toBe("nan on op:log -> stop");
  expect(asked("NAN on op:log")).toBe("NAN on op:log");
});

test("a hit is split into rule and finding", () => {
  expect(ruleOf(TEXT)).toBe("nan");
  expect(foundWords(TEXT)).toBe("2 NaN in 6 elements");
  expect(foundWords("something else")).toBe("something else");
  expect(ruleOf("something else")).toBe("");
});
