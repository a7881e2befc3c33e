import { createRoot } from "solid-js";
import { beforeEach, expect, test } from "vitest";
import { createOverlays, type Overlays } from "@/store/page/overlays";
import { type Requests, Store } from "@/store/page/store";
import { createUi, type Ui } from "@/store/page/ui";
import { node, produced, RUN, runInfo, snapshot } from "@/wire/fixtures";
import type { RequestBody, Statistics } from "@/wire/types.gen";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const bytes = (array: Float64Array | Uint32Array): Uint8Array => new Uint8Array(array.buffer);

// Values 1 and 2 are outputs; 11 is the gradient of 1, and 12 that of 2.
const STATISTICS: Statistics = {
  type: "statistics",
  count: 4,
  values: bytes(Uint32Array.from([1, 2, 11, 12])),
  elements: bytes(Float64Array.from([10, 30, 10, 30])),
  zeros: bytes(Float64Array.from([5, 0, 1, 1])),
  norms: bytes(Float64Array.from([9, 9, 3, 4])),
};

let store: Store;
let ui: Ui;
let overlays: Overlays;
let asked: RequestBody[];

beforeEach(() => {
  asked = [];
  createRoot(() => {
    store = new Store();
    store.attach({
      request: async (body: RequestBody) => {
        asked.push(body);
        return body.type === "get_statistics" ? STATISTICS : { type: "done" };
      },
    } as Requests);
    ui = createUi(undefined);
    overlays = createOverlays(store, ui);
    store.runsChanged([runInfo(), runInfo({ id: "ff".repeat(8) })]);
    const nodes = [node(1, "net/relu"), node(2, "net/exp"), node(3, "loss")];
    const gradients = [
      { seq: 5, value: 1, gradient: 11 },
      { seq: 5, value: 2, gradient: 12 },
    ];
    const values = nodes.map(({ id, name }) => produced(id, name));
    store.receive([snapshot({ run: runInfo({ id: RUN }), nodes, values, gradients })]);
  });
});

const statisticsAsked = () => asked.filter(({ type }) => type === "get_statistics");
const node1 = { kind: "node", id: 1 } as const;
const net = { kind: "scope", path: "net" } as const;

test("zeros are a share of all elements", async () => {
  expect(statisticsAsked()).toEqual([]);
  ui.setColourBy("zeros");
  expect(overlays.shown()?.note).toBe("Reading statistics…");
  await settled();
  expect(statisticsAsked()).toEqual([{ type: "get_statistics", run: RUN, seq: null }]);
  expect([...(overlays.shown()?.numbers.values ?? [])]).toEqual([
    [1, 0.5],
    [2, 0],
  ]);
  expect(overlays.of(node1)).toBe(0.5);
  expect(overlays.of(net)).toBe(5 / 40);
  expect(overlays.of({ kind: "node", id: 3 })).toBeUndefined();
  expect(overlays.shown()?.format(0.125)).toBe("12.5 %");
});

test("gradients are those of the outputs; a scope has their joint norm", async () => {
  ui.setColourBy("gradient");
  await settled();
  expect(overlays.of(node1)).toBe(3);
  expect(overlays.of(net)).toBe(5);
  expect(overlays.shown()).toMatchObject({ note: "", numbers: { most: 4 } });
});

test("a file's numbers are shown at once, and dropped with their run", () => {
  overlays.take("cost.json", '{"results": {"net/relu": {"value": 7}, "gone": {"value": 1}}}');
  expect(ui.colourBy()).toBe("file");
  expect(overlays.shown()).toMatchObject({ title: "cost.json", note: "1 name not in this graph" });
  expect(overlays.of(net)).toBe(7);
  ui.setColourBy("family");
  expect(overlays.shown()).toBeUndefined();
  expect(overlays.file()).toBe("cost.json");
  store.openRun("ff".repeat(8));
  expect(overlays.file()).toBeUndefined();
});

test("an invalid file is reported and changes nothing", () => {
  overlays.take("cost.json", "{}");
  expect(ui.colourBy()).toBe("family");
  expect(store.notices().at(-1)?.text).toMatch(/^cost\.json: This is not node data/);
});
