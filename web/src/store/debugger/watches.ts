/**
 * The watches of the run, the available rules, and queries on the recording.
 *
 * Invariant: the session holds the watches; the page sends whole sets, each watch as text.
 */

import { type Accessor, batch, createEffect, createMemo, createSignal, on } from "solid-js";
import { type MarkedNodes, markedNodes } from "@/store/debugger/watch_marks";
import type { Store } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import { inWords } from "@/wire/socket";
import type { RuleInfo, RuleList, WatchAnswer, WatchStatus } from "@/wire/types.gen";

/** A query on the recording, and its answer once it has arrived. */
export interface WatchQuery {
  readonly text: string;
  readonly answer: WatchAnswer | undefined;
}

export interface Watches {
  readonly statuses: Accessor<readonly WatchStatus[]>;
  /** The watches that are evaluated, as text. */
  readonly enabled: Accessor<readonly string[]>;
  /** Whether watches can be set: the program is running or stopped. */
  readonly live: Accessor<boolean>;
  readonly gallery: Accessor<boolean>;
  readonly rules: Accessor<RuleList | undefined>;
  readonly query: Accessor<WatchQuery | undefined>;
  /** Marks on the canvas and in the outline. */
  readonly marked: Accessor<MarkedNodes>;
  /** The content of the text field. */
  readonly draft: Accessor<string>;
  setDraft(text: string): void;
  setGallery(open: boolean): void;
  /** These return "" on success, else the reason, for the user. */
  add(text: string): Promise<string>;
  edit(id: number, text: string): Promise<string>;
  addAll(texts: readonly string[]): Promise<string>;
  ask(text: string): Promise<string>;
  /** Evaluates all enabled watches on the recording. */
  askAll(): Promise<string>;
  enable(id: number, enabled: boolean): void;
  remove(id: number): void;
  closeAnswer(): void;
}

const OFF = "off ";
const ASK_TIMEOUT_MS = 15_000;

/** A watch as text, enabled or disabled. */
export function switched(text: string, enabled: boolean): string {
  const bare = text.startsWith(OFF) ? text.slice(OFF.length) : text;
  return enabled ? bare : OFF + bare;
}

/** The set with these added, except those already in it. */
export function withMore(
  statuses: readonly WatchStatus[],
  texts: readonly string[],
): readonly string[] {
  const known = new Set(statuses.map((status) => switched(status.text, true)));
  const now = statuses.map((status) => status.text);
  return [...now, ...texts.filter((text) => !known.has(switched(text, true)))];
}

/** A watch as text, without `off` and without the usual action, `-> stop`. */
export function shortText(text: string): string {
  return switched(text, true).replace(/ -> stop$/, "");
}

/** The watches that are evaluated, as text. */
export function enabledTexts(statuses: readonly WatchStatus[]): readonly string[] {
  return statuses.filter((status) => status.enabled).map((status) => status.text);
}

/** The rules that a search finds, by kind. */
export function rulesFound(
  rules: readonly RuleInfo[],
  search: string,
): readonly (readonly [string, readonly RuleInfo[]])[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const kinds = new Map<string, RuleInfo[]>();
  for (const rule of rules) {
    const text = [rule.name, ...rule.aliases, rule.about, rule.asked].join(" ").toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    kinds.set(rule.origin, [...(kinds.get(rule.origin) ?? []), rule]);
  }
  return [...kinds];
}

export function createWatches(store: Store, ui: Ui): Watches {
  const [gallery, setGallery] = createSignal(false);
  const [rules, setRules] = createSignal<RuleList | undefined>();
  const [query, setQuery] = createSignal<WatchQuery | undefined>();
  const [draft, setDraft] = createSignal("");
  const statuses = createMemo(() => store.session()?.watches ?? []);
  const enabled = createMemo(() => enabledTexts(statuses()));
  const live = createMemo(() => {
    const phase = store.session()?.phase;
    return store.model()?.info.state === "live" && (phase === "running" || phase === "stopped");
  });
  const shown = createMemo(() => ui.dockTab() === "watches" && gallery());
  const marked = createMemo(() => markedNodes(statuses(), query()));
  createEffect(
    on(store.runId, (_, before) => {
      if (before === undefined) return;
      batch(() => {
        setRules(undefined);
        setQuery(undefined);
      });
    }),
  );
  // Recommendations depend on what has run, so they are requested again when the rules are opened
  // and after each stop.
  createEffect(
    on([shown, store.runId, store.stops], ([open, run]) => {
      if (!open || run === undefined) return;
      store.request({ type: "get_rules", run }, "rules").then(
        (rules) => {
          if (run === store.runId()) setRules(rules);
        },
        (error: unknown) => store.complain(error),
      );
    }),
  );
  const send = (watches: readonly string[]): Promise<string> =>
    store.refusal({ type: "set_watches", watches });
  const read = async (text: string): Promise<{ texts: readonly string[]; fault: string }> => {
    const run = store.runId();
    if (run === undefined) return { texts: [], fault: "No run is open." };
    try {
      return await store.request({ type: "read_watch", run, text }, "watch_read");
    } catch (error) {
      return { texts: [], fault: inWords(error) };
    }
  };
  const quietly = (watches: readonly string[]): void => {
    void send(watches).then((why) => {
      if (why !== "") store.notify("error", why);
    });
  };
  const ask = async (text: string): Promise<string> => {
    const run = store.runId();
    if (run === undefined) return "No run is open.";
    const question = { text, answer: undefined };
    batch(() => {
      setGallery(false);
      setQuery(question);
    });
    try {
      const body = { type: "ask_watch", run, text } as const;
      const answer = await store.request(body, "watch_answer", ASK_TIMEOUT_MS);
      if (query() !== question) return "";
      setQuery(answer.fault === "" ? { text, answer } : undefined);
      return answer.fault;
    } catch (error) {
      if (query() === question) setQuery(undefined);
      return inWords(error);
    }
  };
  return {
    statuses,
    enabled,
    live,
    gallery,
    rules,
    query,
    marked,
    draft,
    setDraft,
    setGallery: (open) => {
      batch(() => {
        setGallery(open);
        if (open) setQuery(undefined);
      });
    },
    add: async (text) => {
      const { texts, fault } = await read(text);
      return fault || send(withMore(statuses(), texts));
    },
    edit: async (id, text) => {
      const { texts, fault } = await read(text);
      if (fault) return fault;
      return send(statuses().flatMap((status) => (status.id === id ? texts : [status.text])));
    },
    addAll: (texts) => send(withMore(statuses(), texts)),
    ask,
    askAll: () => ask(enabled().join("\n")),
    enable: (id, enabled) =>
      quietly(
        statuses().map((status) =>
          status.id === id ? switched(status.text, enabled) : status.text,
        ),
      ),
    remove: (id) =>
      quietly(statuses().flatMap((status) => (status.id === id ? [] : [status.text]))),
    closeAnswer: () => void setQuery(undefined),
  };
}
