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

  test("opens inner scopes only at a higher zoom", () => {
    folds.zoomed(1.6, "net");
    folds.zoomed(1.7, "net/in");
    expect(isOpen()).toEqual(["net"]);
    folds.zoomed(2, "net/in");
    expect(isOpen()).toEqual(["net", "net/in"]);
  });

  test("does not open a scope that the user folded", () => {
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
  test("folds the scopes that zooming in opened, inner ones first", () => {
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

  test("leaves scopes open that the user opened, and those around them", () => {
    store.toggleScope("loss");
    folds.zoomed(1.6, "net");
    store.toggleScope("net/in");
    folds.zoomed(0.1, undefined);
    expect(isOpen()).toEqual(["loss", "net", "net/in"]);
  });

  test("leaves the scopes around the selection open", () => {
    folds.zoomed(1.6, "net");
    store.select({ kind: "scope", path: "net/out" });
    folds.zoomed(0.1, undefined);
    expect(isOpen()).toEqual(["net"]);
    store.select({ kind: "node", id: 1 });
    folds.zoomed(0.1, undefined);
    expect(isOpen()).toEqual([]);
  });

  test("forgets scopes that the user folded in between", () => {
    folds.zoomed(1.6, "net");
    store.toggleScope("net");
    store.toggleScope("net");
    folds.zoomed(0.1, undefined);
    expect(isOpen()).toEqual(["net"]);
  });
});

test("opening by zoom can be switched off", () => {
  enabled = false;
  folds.zoomed(3, "net");
  expect(isOpen()).toEqual([]);
});
