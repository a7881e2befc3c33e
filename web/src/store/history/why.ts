/**
 * The *Why* query: the element in question, and the chain of links that answers it.
 *
 * Invariant: a question keeps its moment, and walking along its chain does not change it. While the
 * tab is open, a new question is asked when the inspector shows a node that is not on the chain, or
 * when the program stops again. A question about a run that is not shown counts as none. While a
 * what-if branch is shown, the question is about the value in that branch.
 */

import { type Accessor, batch, createEffect, createMemo, createSignal, on } from "solid-js";
import { type Answer, createQuery } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import { momentShown } from "@/store/run/cursor";
import type { AskWhy, NumberState, WhyAnswer, WhyGroup, WhyLink } from "@/wire/types.gen";

/** Nodes and edges that belong together, as the canvas marks them. */
export interface Path {
  /** The text at each node. */
  readonly nodes: ReadonlyMap<number, string>;
  readonly culprit: number | undefined;
  /** From producer to reader. */
  readonly edges: readonly (readonly [number, number])[];
  readonly tone: Tone;
  /** Tones by node: a finite number on the way to a NaN is not marked as NaN. */
  readonly tones?: ReadonlyMap<number, Tone>;
}

type Tone = "nan" | "inf" | "select" | "change";

export interface Why {
  readonly question: Accessor<AskWhy | undefined>;
  readonly answer: Accessor<Answer<WhyAnswer>>;
  /** The group of elements whose chain is shown. */
  readonly group: Accessor<WhyGroup | undefined>;
  readonly groupAt: Accessor<number>;
  setGroupAt(index: number): void;
  /** The chain on the canvas, while the tab is open. */
  readonly path: Accessor<Path | undefined>;
  /** Whether there is an earlier question to go back to. */
  readonly canGoBack: Accessor<boolean>;
  /** Asks about an element of a value, or about its most informative one, and opens the tab. */
  ask(value: number, at?: readonly number[] | null, seq?: number | null): void;
  /** Asks about the first output of the node in the inspector. */
  askSelected(): void;
  back(): void;
}

const MOST_BEFORE = 30;

/** `branch`: the what-if branch whose values are shown; 0 for the recorded ones. */
export function createWhy(store: Store, ui: Ui, branch: Accessor<number> = () => 0): Why {
  const [asked, setAsked] = createSignal<AskWhy | undefined>();
  const question = createMemo(() => (asked()?.run === store.runId() ? asked() : undefined));
  const [earlier, setEarlier] = createSignal<readonly AskWhy[]>([]);
  const before = createMemo(() => (question() === undefined ? [] : earlier()));
  const [groupAt, setGroupAt] = createSignal(0);
  const open = createMemo(() => ui.inspectorTab() === "why");
  const answer = createQuery(
    store,
    "why",
    () => (open() ? question() : undefined),
    () => undefined,
    () => false,
  );
  const group = createMemo(() => {
    const now = answer();
    return now.kind === "ready" ? (now.value.groups[groupAt()] ?? now.value.groups[0]) : undefined;
  });
  const put = (next: AskWhy): void => {
    batch(() => {
      setAsked(next);
      setGroupAt(0);
    });
  };
  const request = (value: number, at: readonly number[] | null, seq: number | null): AskWhy => ({
    type: "ask_why",
    run: store.runId() ?? "",
    value,
    index: at === null ? null : [...at],
    which: "",
    seq,
    branch: branch(),
  });
  const moment = (): number | null => store.destination() ?? momentShown(store);
  const selected = createMemo(
    () => {
      const item = store.subject();
      const node = item?.kind === "node" ? store.model()?.graph.nodes[item.id] : undefined;
      return node === undefined ? undefined : { id: node.id, value: node.outputs[0] };
    },
    undefined,
    { equals: (a, b) => a?.id === b?.id && a?.value === b?.value },
  );
  const askSelected = (): void => {
    const value = selected()?.value;
    if (value === undefined) return;
    batch(() => {
      setEarlier([]);
      put(request(value, null, moment()));
      ui.setInspectorTab("why");
    });
  };
  const onChain = (node: number): boolean => {
    const current = question();
    if (current === undefined) return false;
    if (store.model()?.graph.values.get(current.value)?.producer === node) return true;
    return group()?.links.some((link) => link.node === node) ?? false;
  };
  createEffect(
    on([open, selected, store.stops, store.runId], ([shown, item, stops], last) => {
      if (!shown || item?.value === undefined) return;
      const again = last !== undefined && last[2] !== stops;
      if (again || !onChain(item.id)) askSelected();
    }),
  );
  createEffect(
    on(
      branch,
      (now) => {
        const current = question();
        if (current === undefined || current.branch === now) return;
        batch(() => {
          setAsked({ ...current, branch: now });
          setGroupAt(0);
        });
      },
      { defer: true },
    ),
  );
  const edits = createMemo(() => store.stop()?.edits.length ?? 0);
  createEffect(
    on(edits, (count, before) => {
      const current = question();
      const stop = store.stop();
      // After an edit, a question about the present is about the edited value.
      if (current === undefined || stop === undefined || count <= (before ?? 0)) return;
      if ((current.seq ?? stop.seq) >= stop.seq) setAsked({ ...current, seq: moment() });
    }),
  );
  return {
    question,
    answer,
    group,
    groupAt,
    setGroupAt,
    path: createMemo(() => (open() ? pathOf(group()) : undefined)),
    canGoBack: () => before().length > 0,
    ask: (value, at = null, seq = moment()) => {
      batch(() => {
        const now = question();
        setEarlier(open() && now !== undefined ? [...before(), now].slice(-MOST_BEFORE) : []);
        put(request(value, at, seq));
        ui.setInspectorTab("why");
      });
    },
    askSelected,
    back: () => {
      const last = before().at(-1);
      if (last === undefined) return;
      batch(() => {
        setEarlier(before().slice(0, -1));
        put(last);
      });
    },
  };
}

/** The chain on the canvas, numbered from the value in question. */
export function pathOf(group: WhyGroup | undefined): Path | undefined {
  const first = group?.links[0];
  if (group === undefined || first === undefined) return undefined;
  const nodes = new Map<number, string>();
  const edges: (readonly [number, number])[] = [];
  group.links.forEach((link, i) => {
    if (link.node === 0) return;
    if (!nodes.has(link.node)) nodes.set(link.node, String(i + 1));
    const after = group.links[i - 1];
    if (after !== undefined && after.node !== link.node) edges.push([link.node, after.node]);
  });
  const culprit = group.links.find((link) => link.culprit)?.node;
  const tones = new Map<number, Tone>();
  // A node that is on the chain twice gets the tone of its first link.
  for (const link of [...group.links].reverse()) tones.set(link.node, toneOf(link.state));
  return { nodes, culprit, edges, tone: toneOf(first.state), tones };
}

function toneOf(state: NumberState): Path["tone"] {
  return state === "nan" || state === "inf" ? state : "select";
}

/** One line of the list: a link, or several that only pass a number on. */
export type Line =
  | { readonly kind: "link"; readonly link: WhyLink; readonly at: number }
  | { readonly kind: "passing"; readonly from: number; readonly count: number };

const MOST_PASSING = 3;

/** The links of a chain; long rows of links that only pass a number on become one line. */
export function linesOf(links: readonly WhyLink[], unfolded: ReadonlySet<number>): Line[] {
  const lines: Line[] = [];
  let row: Line[] = [];
  const flush = (): void => {
    const [first, last] = [row[0], row.at(-1)];
    const inner = row.length - 2;
    const from = first?.kind === "link" ? first.at + 1 : 0;
    if (first === undefined || last === undefined || inner < MOST_PASSING || unfolded.has(from)) {
      lines.push(...row);
    } else lines.push(first, { kind: "passing", from, count: inner }, last);
    row = [];
  };
  links.forEach((link, at) => {
    if (!isPassing(link)) flush();
    (isPassing(link) ? row : lines).push({ kind: "link", link, at });
  });
  flush();
  return lines;
}

function isPassing(link: WhyLink): boolean {
  return link.kind === "passed" && !link.culprit;
}

/** The server's text for a number, in the page's spelling. */
export function spelled(number: string, state: NumberState): string {
  if (state === "nan") return number === "nan" ? "NaN" : number;
  if (state === "inf") return number.replace(/^-inf$/, "−Inf").replace(/^inf$/, "+Inf");
  return number === "" ? "?" : number.replaceAll("-", "−");
}

/** The answer in words, with files by their base names. */
export function shortened(group: WhyGroup): string {
  const files = new Set(group.links.map((link) => link.file).filter(Boolean));
  let text = group.text;
  for (const file of files) text = text.replaceAll(`${file}:`, `${baseName(file)}:`);
  return inWords(text);
}

/** Writes `nan` as NaN, as everywhere on the page, except in file names. */
export function inWords(text: string): string {
  return text.replace(/(?<![\w/.])nan(?![\w/]|\.\w)/g, "NaN");
}

export function baseName(file: string): string {
  return file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1);
}
