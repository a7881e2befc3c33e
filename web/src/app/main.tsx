/**
 * Entry point of the page: creates store and wire, and mounts the page.
 *
 * Invariant: the only place that knows the browser's globals and all layers at once.
 */

import "@/app/styles/fonts.css";
import "@/app/styles/tokens.css";
import "@/app/styles/shell.css";
import "@/app/styles/panes.css";
import "@/app/styles/why.css";
import "@/app/styles/watch.css";
import "@/app/styles/moments.css";
import "@/app/styles/compare.css";
import "@/app/styles/start.css";
import "@/app/styles/summary.css";
import { createRoot } from "solid-js";
import { render } from "solid-js/web";
import { followAddress } from "@/app/address";
import { decoderApart } from "@/app/decoding";
import { Root } from "@/app/root";
import { viewerHook, wantsViewerHook } from "@/app/viewer_hook";
import type { GraphView } from "@/render/scene/types";
import { readCompare, type Side } from "@/store/history/compare";
import { createPreferences } from "@/store/page/preferences";
import { Store } from "@/store/page/store";
import { createUi } from "@/store/page/ui";
import { readAddress } from "@/store/page/url";
import { Inbox } from "@/store/run/inbox";
import type { CompareState } from "@/views/compare/state";
import { Wire } from "@/wire/socket";

/** For tests and inspection from the console. */
export interface Hook {
  view: GraphView | undefined;
  /** The comparison, while it is shown. */
  compare: CompareState | undefined;
  sides: Readonly<Partial<Record<Side, GraphView>>>;
  readonly store: Store;
  nodeByName(name: string): number | undefined;
}

declare global {
  interface Window {
    __nodescope?: Hook;
  }
}

function streamAddress(): string {
  const address = new URL("api/stream", document.baseURI);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  address.hash = "";
  address.search = "";
  return address.href;
}

function main(): void {
  const address = readAddress(location.hash);
  let { at } = address;
  const store = new Store(address);
  const ui = createUi(address.tab, address.changes, address.colour, address.control);
  const preferences = createPreferences(
    globalThis.localStorage,
    matchMedia("(prefers-color-scheme: light)").matches,
  );
  const inbox = new Inbox((pushes) => store.receive(pushes), {
    frame: (task) => requestAnimationFrame(task),
    cancelFrame: (handle) => cancelAnimationFrame(handle),
    later: (task, ms) => window.setTimeout(task, ms),
    cancel: (handle) => clearTimeout(handle),
  });
  const decodeApart = decoderApart();
  const wire = new Wire(
    {
      onLink: (link) => store.linkChanged(link),
      onRuns: (runs) => store.runsChanged(runs),
      onPush: (push) => inbox.add(push),
      following: () => store.following(),
    },
    {
      open: () => new WebSocket(streamAddress()),
      probe: () => fetch(new URL("api/runs", document.baseURI)).then((reply) => reply.status),
      now: () => Date.now(),
      later: (task, ms) => window.setTimeout(task, ms),
      cancel: (handle) => clearTimeout(handle),
      ...(decodeApart && { decodeApart }),
    },
  );
  store.attach(wire);
  // The connection is opened while the page is built.
  wire.start();
  // A page that holds a lock is not suspended in the background, where it may be holding a program.
  void navigator.locks?.request(
    "nodescope",
    { mode: "shared" },
    () => new Promise(() => undefined),
  );
  const hook: Hook = {
    view: undefined,
    compare: undefined,
    sides: {},
    store,
    nodeByName: (name) => store.model()?.graph.byName.get(name),
  };
  window.__nodescope = hook;
  if (wantsViewerHook(location.search)) {
    window.__viewer = viewerHook({ store, view: () => hook.view });
  }
  const host = document.getElementById("app");
  if (host === null) throw new Error("index.html has no #app");
  const compared = readCompare(location.hash);
  let comparing = compared !== undefined;
  let starting = false;
  createRoot(() =>
    followAddress(
      store,
      ui,
      () => hook.view,
      () => !comparing && !starting,
    ),
  );
  render(
    () => (
      <Root
        compare={compared}
        onCompare={(state, views) => {
          hook.compare = state;
          comparing = state !== undefined;
          hook.sides = views;
        }}
        onStart={(shown) => {
          starting = shown;
        }}
        store={store}
        ui={ui}
        preferences={preferences}
        retry={() => wire.retryNow()}
        onView={(view) => {
          hook.view = view;
          // The viewpoint of the address applies only to the first canvas.
          if (at !== undefined) view?.setViewpoint(at);
          if (view !== undefined) at = undefined;
        }}
      />
    ),
    host,
  );
}

main();
