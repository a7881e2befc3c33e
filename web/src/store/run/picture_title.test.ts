import { expect, test } from "vitest";
import { pictureTitle, type ShownMoment } from "@/store/run/picture_title";
import { type RunModel, update } from "@/store/run/run_model";
import { node, runInfo, snapshot, stopAt } from "@/wire/fixtures";

function moment(change: Partial<ShownMoment>, state: "live" | "recorded" = "live"): ShownMoment {
  const model = update(
    undefined,
    snapshot({ run: runInfo({ state }), nodes: [node(1, "loss/mean")] }),
  );
  return {
    model: () => model as RunModel,
    cursor: () => ({ kind: "live" }),
    stop: () => undefined,
    step: () => 1204,
    shown: () => ({ lastNode: 1 }),
    ...change,
  };
}

const PAST = { kind: "past", seq: 9, step: 3, timeNs: 1 } as const;

test.each<[string, ShownMoment]>([
  ["train.py, in step 1,204 while it runs", moment({})],
  [
    "train.py, stopped in step 3 after loss/mean",
    moment({ stop: () => stopAt(1, "loss/mean"), step: () => 3 }),
  ],
  [
    "train.py, in step 3 after loss/mean",
    moment({ cursor: () => PAST, step: () => 3 }, "recorded"),
  ],
  [
    "train.py, before its first node",
    moment({ cursor: () => PAST, step: () => 0, shown: () => ({ lastNode: 0 }) }, "recorded"),
  ],
  ["train.py, last state (step 1,204)", moment({}, "recorded")],
  ["train.py, last state", moment({ step: () => 0 }, "recorded")],
  ["", moment({ model: () => undefined })],
])("the caption of a picture is %s", (title, shown) => {
  expect(pictureTitle(shown)).toBe(title);
});
