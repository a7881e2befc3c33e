import { createRoot } from "solid-js";
import { beforeEach, describe, expect, test } from "vitest";
import { type Requests, Store } from "@/store/page/store";
import { createUi, type Ui } from "@/store/page/ui";
import type { Viewpoint } from "@/store/page/url";
import { createViews, type Views } from "@/store/page/views";
import { columns, node, RUN, runInfo, session, snapshot, stopAt } from "@/wire/fixtures";

const NAMES = ["x", "net/tanh", "net/in/exp", "loss/mean"];
const KEY = "nodescope.views train.py";
let store: Store;
let ui: Ui;
let camera: Viewpoint;
let looked: Viewpoint[];
let time: number;
let views: Views;

function open(storage: Storage | undefined = localStorage, names = NAMES): void {
  createRoot(() => {
    store = new Store();
    ui = createUi(undefined);
    const looking = {
      viewpoint: () => camera,
      setViewpoint: (at: Viewpoint) => looked.push(at),
    };
    views = createViews(
      store,
      ui,
      () => looking,
      storage,
      () => time,
    );
    store.runsChanged([runInfo()]);
    const nodes = names.map((name, i) => node(i + 1, name, { outputs: [] }));
    store.receive([snapshot({ run: runInfo({ id: RUN }), nodes })]);
    store.setOpen(new Set());
  });
}

beforeEach(() => {
  localStorage.clear();
  camera = { item: { kind: "node", id: 1 }, dx: 0, dy: 0, zoom: 1 };
  looked = [];
  time = 0;
  open();
});

const select = (id: number): void => {
  time += 5000;
  views.mark();
  store.select({ kind: "node", id });
};
const selected = (): number | undefined => {
  const item = store.selection();
  return item?.kind === "node" ? item.id : undefined;
};

describe("back and forward", () => {
  test("restore selection, open scopes, colour and camera", () => {
    select(1);
    camera = { ...camera, zoom: 2 };
    select(2);
    store.toggleScope("net");
    ui.setColourBy("time");
    camera = { ...camera, zoom: 0.5 };
    select(3);
    expect(views.canGo()).toEqual({ back: true, forward: false });
    views.go("back");
    expect([selected(), ui.colourBy(), looked.at(-1)?.zoom]).toEqual([2, "time", 0.5]);
    views.go("back");
    expect([selected(), ui.colourBy(), looked.at(-1)?.zoom]).toEqual([1, "family", 2]);
    expect(store.isOpen("net")).toBe(false);
    views.go("forward");
    expect(selected()).toBe(2);
    expect(store.isOpen("net")).toBe(true);
    views.go("forward");
    expect(selected()).toBe(3);
    expect(views.canGo()).toEqual({ back: true, forward: false });
  });

  test("go back to the stop, with the scopes that were open then", async () => {
    const stop = stopAt(4, "loss/mean", { seq: 9 });
    const info = session({ phase: "stopped", version: 2, stop });
    store.receive([{ type: "session", run: RUN, info }]);
    const state = {
      type: "state_at",
      since: null,
      gone: [],
      steps: [],
      values: [],
      seq: 3,
      step: 1,
      time_ns: 5,
    };
    store.attach({
      request: (() =>
        Promise.resolve({ ...state, executions: columns([]) })) as unknown as Requests["request"],
    });
    store.setOpen(new Set());
    select(1);
    time += 5000;
    views.mark();
    await store.seek(3);
    store.setOpen(new Set(["net"]));
    views.go("back");
    expect([store.cursor().kind, [...store.folds().open]]).toEqual(["live", []]);
  });

  test("a new view clears the views ahead", () => {
    select(1);
    select(2);
    views.go("back");
    select(4);
    expect(views.canGo().forward).toBe(false);
    views.go("back");
    expect(selected()).toBe(1);
  });

  test("moves in quick succession count as one", () => {
    select(1);
    for (const id of [2, 3, 4]) {
      time += 50;
      views.mark();
      store.select({ kind: "node", id });
    }
    views.go("back");
    expect(selected()).toBeUndefined();
  });

  test("a move that changed nothing does not count", () => {
    select(1);
    select(2);
    select(2);
    views.go("back");
    expect(selected()).toBe(1);
  });

  test("stop at the first view", () => {
    views.go("back");
    expect(views.canGo()).toEqual({ back: false, forward: false });
  });
});

describe("bookmarks", () => {
  test("keep a view by name, and go to it", () => {
    store.toggleScope("net");
    select(2);
    ui.setColourBy("memory");
    camera = { item: { kind: "node", id: 4 }, dx: 5, dy: 6, zoom: 0.8 };
    views.keep(" the loss ");
    select(1);
    store.toggleScope("net");
    ui.setColourBy("family");
    views.show(0);
    expect([selected(), ui.colourBy(), store.isOpen("net")]).toEqual([2, "memory", true]);
    expect(looked).toEqual([camera]);
    expect(views.bookmarks().map(({ name }) => name)).toEqual(["the loss"]);
    views.go("back");
    expect(selected()).toBe(1);
  });

  test("are named after the selection by default", () => {
    views.keep("");
    select(2);
    views.keep("");
    store.select({ kind: "scope", path: "net/in" });
    expect(views.suggested()).toBe("net/in");
    expect(views.bookmarks().map(({ name }) => name)).toEqual(["View 1", "net/tanh"]);
  });

  test("fit another run of the program, whose ids differ", () => {
    select(2);
    store.toggleScope("net");
    camera = { ...camera, item: { kind: "node", id: 4 } };
    views.keep("kept");
    open(localStorage, ["y", "loss/mean", "net/tanh"]);
    views.show(0);
    expect(selected()).toBe(3);
    expect(store.isOpen("net")).toBe(true);
    expect(looked.at(-1)?.item).toEqual({ kind: "node", id: 2 });
  });

  test("leave out nodes and scopes that the graph no longer has", () => {
    select(4);
    store.toggleScope("net");
    views.keep("kept");
    open(localStorage, ["y"]);
    views.show(0);
    expect(store.selection()).toBeUndefined();
    expect([...store.folds().open]).toEqual([]);
    expect(looked).toEqual([]);
  });

  test("can be removed", () => {
    views.keep("a");
    views.keep("b");
    views.drop(0);
    expect(views.bookmarks().map(({ name }) => name)).toEqual(["b"]);
    open();
    expect(views.bookmarks().map(({ name }) => name)).toEqual(["b"]);
  });

  test.each(["{", "7", '[{"name": 1}]', '[{"name":"a","selection":"","open":[1],"colour":"x"}]'])(
    "foreign text in the storage is ignored: %s",
    (text) => {
      localStorage.setItem(KEY, text);
      open();
      expect(views.bookmarks()).toEqual([]);
    },
  );

  test("last as long as the page if storage fails", () => {
    const full = { getItem: () => null, setItem: () => raise() } as unknown as Storage;
    open(full);
    views.keep("a");
    expect(views.bookmarks()).toHaveLength(1);
  });
});

function raise(): never {
  throw new Error("full");
}
