/**
 * What-if: the branches of the run as a tree, and the changed values in the chosen one.
 *
 * Invariant: the server holds the branches, and answers every change with the new list.
 */

import { type Accessor, batch, createEffect, createMemo, createSignal, on } from "solid-js";
import { elementCount } from "@/base/dtypes";
import { formatCount, formatNumber, plural } from "@/base/numbers";
import type { Path } from "@/store/history/why";
import type { Store } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import { momentShown } from "@/store/run/cursor";
import { inWords } from "@/wire/socket";
import type {
  BranchAnswer,
  BranchInfo,
  BranchList,
  ChangedValue,
  Node,
  RequestBody,
  SetValue,
  TensorSummary,
} from "@/wire/types.gen";

/** Rerunning a step takes longer than reading. */
const WHAT_IF_TIMEOUT_MS = 60_000;

export interface Branches {
  /** Parents first, each before its descendants. */
  readonly rows: Accessor<readonly BranchRow[]>;
  readonly notes: Accessor<readonly string[]>;
  readonly chosen: Accessor<number | undefined>;
  readonly detail: Accessor<BranchAnswer | undefined>;
  /** The chosen branch while branches are shown: values are then those of the branch. */
  readonly shown: Accessor<BranchInfo | undefined>;
  /** Whether the recorded values are shown instead of the branch's. */
  readonly asRecorded: Accessor<boolean>;
  /** Switches to the recorded values, or back to those of the branch. */
  turn(): void;
  /** The branch whose values are shown; 0 for the recorded ones. */
  readonly valuesOf: Accessor<number>;
  /** The dependents of the chosen branch's edit; undefined while branches are not shown. */
  readonly cone: Accessor<Path | undefined>;
  choose(id: number): void;
  /** Makes a branch; returns "" on success, else the reason, for the user. */
  whatIf(edit: SetValue, parent: number, steps: number | null): Promise<string>;
  rename(id: number, name: string): void;
  drop(id: number): void;
}

export interface BranchRow {
  readonly info: BranchInfo;
  readonly depth: number;
}

export function createBranches(store: Store, ui: Ui): Branches {
  const [list, setList] = createSignal<BranchList>({ type: "branches", branches: [], notes: [] });
  const [chosen, setChosen] = createSignal<number | undefined>();
  const [detail, setDetail] = createSignal<BranchAnswer | undefined>();
  const [asRecorded, setAsRecorded] = createSignal(false);
  const open = createMemo(() => ui.dockTab() === "branches");
  // The address may name a run before the list of runs has arrived.
  const ready = createMemo(() => {
    const run = store.runId();
    const known =
      store.link().kind === "open" && store.runs().some((candidate) => candidate.id === run);
    return known ? run : undefined;
  });

  const take = (run: string, next: BranchList): void => {
    if (run !== store.runId()) return;
    batch(() => {
      setList(next);
      if (!next.branches.some((branch) => branch.id === chosen())) {
        setChosen(next.branches.at(-1)?.id);
      }
    });
  };
  const send = async (
    body: Extract<RequestBody, { type: "get_branches" | "rename_branch" | "drop_branch" }>,
  ): Promise<void> => {
    try {
      take(body.run, await store.request(body, "branches"));
    } catch (error) {
      store.complain(error);
    }
  };
  // Branches belong to a run, not to a connection: while the link is down, they stay visible.
  createEffect(
    on(
      store.runId,
      () => {
        batch(() => {
          setList({ type: "branches", branches: [], notes: [] });
          setChosen(undefined);
          setDetail(undefined);
        });
      },
      { defer: true },
    ),
  );
  createEffect(
    on(ready, (run) => {
      if (run !== undefined) void send({ type: "get_branches", run });
    }),
  );
  createEffect(
    on([open, chosen, ready], ([shown, id, run]) => {
      if (id === undefined) setDetail(undefined);
      if (!shown || id === undefined || run === undefined || detail()?.info.id === id) return;
      store.request({ type: "get_branch", run, branch: id }, "branch").then(
        (detail) => {
          if (chosen() === id && run === store.runId()) setDetail(detail);
        },
        (error: unknown) => store.complain(error),
      );
    }),
  );
  const shown = createMemo(() =>
    open() ? list().branches.find((branch) => branch.id === chosen()) : undefined,
  );
  createEffect(
    on(
      () => shown()?.id,
      () => setAsRecorded(false),
      { defer: true },
    ),
  );
  return {
    shown,
    asRecorded,
    turn: () => void setAsRecorded(!asRecorded()),
    valuesOf: createMemo(() => (asRecorded() ? 0 : (shown()?.id ?? 0))),
    rows: createMemo(() => branchRows(list().branches)),
    notes: () => list().notes,
    chosen,
    detail: () => (detail()?.info.id === chosen() ? detail() : undefined),
    cone: createMemo(() => {
      const now = open() ? detail() : undefined;
      return now === undefined || now.info.id !== chosen()
        ? undefined
        : coneOf(now, store.model()?.graph.nodes ?? []);
    }),
    choose: (id) => void setChosen(id),
    whatIf: async (edit, parent, steps) => {
      const run = store.runId();
      if (run === undefined) return "No run is open.";
      const seq = momentShown(store);
      try {
        const body = { type: "what_if", run, seq, edit, name: "", parent, steps } as const;
        const branch = await store.request(body, "branch", WHAT_IF_TIMEOUT_MS);
        const next = await store.request({ type: "get_branches", run }, "branches");
        batch(() => {
          setDetail(branch);
          setChosen(branch.info.id);
          take(run, next);
          ui.setDockTab("branches");
        });
        return "";
      } catch (error) {
        return inWords(error);
      }
    },
    rename: (id, name) => {
      const run = store.runId();
      const now = list().branches.find((branch) => branch.id === id)?.name;
      if (run === undefined || name.trim() === "" || name === now) return;
      void send({ type: "rename_branch", run, branch: id, name });
    },
    drop: (id) => {
      const run = store.runId();
      if (run !== undefined) void send({ type: "drop_branch", run, branch: id });
    },
  };
}

/** The tree in display order. */
export function branchRows(branches: readonly BranchInfo[]): readonly BranchRow[] {
  const rows: BranchRow[] = [];
  const under = (parent: number, depth: number): void => {
    for (const info of branches) {
      if (info.parent !== parent) continue;
      rows.push({ info, depth });
      under(info.id, depth + 1);
    }
  };
  under(0, 0);
  return rows;
}

/** The dependents of the edit, as marked on the canvas: `≠`, and `?` if they could not be rerun. */
export function coneOf(detail: BranchAnswer, nodes: readonly (Node | undefined)[]): Path {
  const marks = new Map<number, string>();
  const makers = new Map<number, number>();
  for (const [node, value] of detail.changed_values) {
    marks.set(node, "≠");
    makers.set(value, node);
  }
  for (const node of detail.blocked_nodes) if (!marks.has(node)) marks.set(node, "?");
  const edges: (readonly [number, number])[] = [];
  for (const id of marks.keys()) {
    for (const value of nodes[id]?.inputs ?? []) {
      const from = makers.get(value);
      if (from !== undefined && from !== id) edges.push([from, id]);
    }
  }
  return { nodes: marks, culprit: detail.info.node, edges, tone: "change" };
}

/**
 * The most informative numbers: a scalar's value, a changed count of NaN or Inf, else the norm.
 */
export function numbersOf(change: ChangedValue): {
  readonly what: string;
  readonly old: string;
  readonly new: string;
} {
  const { old, new: now } = change;
  if (elementCount(now.spec.shape) === 1) {
    return { what: "value", old: single(old), new: single(now) };
  }
  if (old.nan_count !== now.nan_count) {
    return { what: "NaN", old: formatCount(old.nan_count), new: formatCount(now.nan_count) };
  }
  if (old.inf_count !== now.inf_count) {
    return { what: "Inf", old: formatCount(old.inf_count), new: formatCount(now.inf_count) };
  }
  return { what: "norm", old: formatNumber(old.norm), new: formatNumber(now.norm) };
}

function single(summary: TensorSummary): string {
  if (summary.nan_count > 0) return "NaN";
  const first = summary.preview[0] ?? summary.mean;
  return summary.inf_count > 0 && first == null ? "Inf" : formatNumber(first);
}

/** The outcome of an edit, as a sentence; "" if no other value depends on it. */
export function outcome({ info, changes }: Pick<BranchAnswer, "info" | "changes">): string {
  const { changed, same, blocked } = info;
  if (changed === 0 && blocked === 0) {
    if (!changes.some((change) => change.edited && change.differ > 0)) {
      return "Nothing changes: all values are bit-identical.";
    }
    return same === 0 ? "" : "Nothing else changes: what depends on it stays bit-identical.";
  }
  const parts = [
    changed > 0 ? `${plural(changed, "value")} changed with it` : "",
    same > 0 ? `${formatCount(same)} stayed bit-identical` : "",
    blocked > 0 ? `${formatCount(blocked)} could not be re-run` : "",
  ];
  return `${parts.filter(Boolean).join(", ")}.`;
}

/** How many elements differ: `all`, `16 of 192`, or a share of many. */
export function differing(change: ChangedValue): string {
  const { differ, size } = change;
  if (differ === size) return "all";
  if (size < 1000) return `${formatCount(differ)} of ${formatCount(size)}`;
  return `${formatNumber((100 * differ) / size, 3)}\u202f%`;
}
