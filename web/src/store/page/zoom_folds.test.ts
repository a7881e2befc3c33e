import { createRoot } from "solid-js";
import { beforeEach, describe, expect, test } from "vitest";
import { Store } from "@/store/page/store";
import { createZoomFolds, type ZoomFolds } from "@/store/page/zoom_folds";
import { node, produced, RUN, runInfo, snapshot } from "@/wire/fixtures";

const NAMES = ["x", "net/in/exp", "net/in/log", "net/out/tanh", "loss/mean"];
let store: Store;
let enabled: boolean;
let folds: ZoomFolds;

function open(names: readonly string[] = NAMES): void {
  const nodes = names.map((name, i) => node(i + 1, name, { inputs: i === 0 ? [] : [i] }));
  const values = names.map((name, i) => produced(i + 1, name));
  store.runsChanged([runInfo()]);
  store.receive([snapshot({ run: runInfo({ id: RUN }), nodes, values })]);
  store.setOpen(new Set());
}

beforeEach(() => {
  store = new Store();
  enabled = true;
  folds = createRoot(() => createZoomFolds(store, () => enabled));
  open();
});

const isOpen = (): readonly string[] => [...store.folds().open].sort();

describe("zooming in", () => {
  test("opens the scope under the pointer, beyond a threshold", () => {
    folds.zoomed(1.4, "net");
    expect(isOpen()).toEqual([]);
    folds.zoomed(1.6, "net");
    expect(isOpen()).toEqual(["net"]);
  });

  test("opens what is inside only further in", () => {
    folds.zoomed(1.6, "net");
    folds.zoomed(1.7, "net/in");
    expect(isOpen()).toEqual(["net"]);
    folds.zoomed(2, "net/in");
    expect(isOpen()).toEqual(["net", "net/in"]);
  });

  test("leaves alone what the user folded", () => {
    store.toggleScope("net");
    store.toggleScope("net");
    folds.zoomed(3, "net");
    expect(isOpen()).toEqual([]);
  });

  test("opens one scope of a stack, and folds the stack again", () => {
    const alike = [0, 1, 2, 3].map((at) => `net/block_${at}/tanh`);
    open(["x", ...alike, "y"]);
    store.setOpen(new Set(["net"]));
    folds.zoomed(2, "net/block_0…");
    expect(isOpen()).toEqual(["net", "net/block_0"]);
    folds.zoomed(0.9, undefined);
    expect(isOpen()).toEqual(["net"]);
  });
});

describe("zooming out", () => {
  test("folds what zooming in opened, the inner first", () => {
    folds.zoomed(1.6, "net");
    folds.zoomed(2.4, "net/in");
    folds.zoomed(1.3, undefined);
    expect(isOpen()).toEqual(["net", "net/in"]);
    folds.zoomed(1.1, undefined);
    expect(isOpen()).toEqual(["net"]);
    folds.zoomed(0.3, undefined);
    expect(isOpen()).toEqual([]);
    // It was not folded by the user, so zooming in may open it again.
    folds.zoomed(1.6, "net");
    expect(isOpen()).toEqual(["net"]);
  });

  test("leaves open what the user opened, and what holds it", () => {
    store.toggleScope("loss");
    folds.zoomed(1.6, "net");
    store.toggleScope("net/in");
    folds.zoomed(0.1, undefined);
    expect(isOpen()).toEqual(["loss", "net", "net/in"]);
  });

  test("leaves open what holds the selection", () => {
    folds.zoomed(1.6, "net");
    store.select({ kind: "scope", path: "net/out" });
    folds.zoomed(0.1, undefined);
    expect(isOpen()).toEqual(["net"]);
    store.select({ kind: "node", id: 1 });
    folds.zoomed(0.1, undefined);
    expect(isOpen()).toEqual([]);
  });

  test("forgets what was folded by hand in between", () => {
    folds.zoomed(1.6, "net");
    store.toggleScope("net");
    store.toggleScope("net");
    folds.zoomed(0.1, undefined);
    expect(isOpen()).toEqual(["net"]);
  });
});

test("it can be switched off", () => {
  enabled = false;
  folds.zoomed(3, "net");
  expect(isOpen()).toEqual([]);
});
