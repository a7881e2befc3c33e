/**
 * The recordings that can be opened, for the start page: sorted, filtered, and described.
 *
 * Invariant: pure functions of the server's list; a recording is identified by its id alone.
 */

import { formatClock, formatDay } from "@/base/dates";
import { formatCount } from "@/base/numbers";
import { quoted } from "@/base/printable";
import type { BrokenLoss, Entry, Glance, Outcome, RunInfo } from "@/wire/types.gen";

export type SortBy = "started" | "program" | "duration" | "steps" | "size" | "outcome";
export type Which = "all" | "running" | "finished" | "trouble";
export type Group = "running" | "here" | "elsewhere";

export interface Sorting {
  readonly by: SortBy;
  readonly up: boolean;
}

const OUTCOMES: Readonly<Record<Outcome, string>> = {
  running: "running",
  finished: "finished",
  failed: "failed",
  interrupted: "interrupted",
  killed: "killed",
  unreadable: "cannot be read",
};

/** The arguments of a program as typed, without the program itself. */
export function argumentsOf(run: Pick<RunInfo | Glance, "argv">): string {
  return run.argv.slice(1).map(quoted).join(" ");
}

type Ending = Pick<Glance, "outcome" | "status" | "error"> & Partial<Pick<Glance, "broken_loss">>;

/** The outcome: `ValueError`, `killed`, `finished, NaN since step 4`. */
export function outcomeWords(glance: Ending): string {
  const type = /^[\w.]+/.exec(glance.error)?.[0] ?? "";
  const named = type === "" || type === "SystemExit" ? `status ${glance.status ?? 1}` : type;
  const ending = glance.outcome === "failed" ? named : OUTCOMES[glance.outcome];
  return withLoss(ending, glance.broken_loss);
}

/** The outcome as a title next to the error's text: `Failed`, `Finished, NaN since step 4`. */
export function outcomeTitle(ending: Pick<Glance, "outcome" | "broken_loss">): string {
  const word = OUTCOMES[ending.outcome];
  return withLoss(word.charAt(0).toUpperCase() + word.slice(1), ending.broken_loss);
}

function withLoss(ending: string, broken: BrokenLoss | null | undefined): string {
  return [ending, lossEnding(broken)].filter(Boolean).join(", ");
}

/** "NaN since step 4" for a loss that is not finite at the end; else "". */
export function lossEnding(broken: BrokenLoss | null | undefined): string {
  if (!broken) return "";
  return `${broken.kind === "nan" ? "NaN" : "Inf"} since step ${formatCount(broken.step)}`;
}

const INTERRUPTED = 130;

/**
 * The outcome of a run in the server's list, as its recording will state it; see
 * `record/overview.py`.
 */
export function outcomeOf(run: Pick<RunInfo, "state" | "status" | "error">): Outcome {
  if (run.state === "live") return "running";
  if (run.state === "lost" || run.status === null) return "killed";
  if (run.status === INTERRUPTED || run.error.startsWith("KeyboardInterrupt")) return "interrupted";
  return run.status !== 0 || run.error !== "" ? "failed" : "finished";
}

/** The state of a run in a list of runs, in the start page's wording. */
export function runWords(run: Pick<RunInfo, "state" | "status" | "error" | "broken_loss">): string {
  if (run.state === "recorded" && run.status === null) return "recording"; // it may still run
  return outcomeWords({ ...run, outcome: outcomeOf(run) });
}

export function outcomeTone(
  outcome: Outcome,
  broken?: BrokenLoss | null,
): "ok" | "bad" | "off" | "now" {
  if (outcome === "running") return "now";
  if (outcome === "finished") return broken ? "bad" : "ok";
  return outcome === "interrupted" ? "off" : "bad";
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago, as text; "" for an unknown time. */
export function ago(then: number, now: number): string {
  if (then <= 0) return "";
  const passed = Math.max(0, now - then);
  if (passed < MINUTE) return "just now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min ago`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h ago`;
  const days = Math.floor(passed / DAY);
  return days === 1 ? "yesterday" : `${days} days ago`;
}

/** The time of day; with the date if the moment is a day or more ago. "" for an unknown time. */
export function clock(then: number, now: number): string {
  if (then <= 0) return "";
  return now - then < DAY ? formatClock(then) : `${formatDay(then)} ${formatClock(then)}`;
}

/** When a run started, in milliseconds; for an unreadable file, when it was written. */
export function startedAt(glance: Glance | null): number {
  if (glance === null) return 0;
  return (glance.started_unix_ns || glance.changed_unix_ns) / 1e6;
}

export function groupOf(entry: Entry): Group {
  if (entry.live || entry.glance?.outcome === "running") return "running";
  return entry.here ? "here" : "elsewhere";
}

export function matches(entry: Entry, which: Which, search: string): boolean {
  const { glance } = entry;
  const outcome = glance?.outcome;
  if (which === "running" && groupOf(entry) !== "running") return false;
  if (which === "finished" && outcome !== "finished") return false;
  if (
    which === "trouble" &&
    !glance?.broken_loss &&
    !["failed", "killed", "interrupted", "unreadable"].includes(`${outcome}`)
  )
    return false;
  const text = [
    glance?.name ?? "",
    glance === null ? "" : argumentsOf(glance),
    glance?.error ?? "",
    glance === null ? "" : outcomeWords(glance),
    entry.file,
    entry.folder,
  ]
    .join(" ")
    .toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

const RANK: Readonly<Record<Outcome, number>> = {
  running: 0,
  failed: 1,
  killed: 2,
  interrupted: 3,
  unreadable: 4,
  finished: 5,
};

function keyOf(entry: Entry, by: SortBy): number | string {
  const { glance } = entry;
  switch (by) {
    case "started":
      return -startedAt(glance);
    case "program":
      return `${glance?.name ?? entry.file} ${glance === null ? "" : argumentsOf(glance)}`;
    case "duration":
      return -(glance?.ran_ns ?? 0);
    case "steps":
      return -(glance?.steps ?? 0);
    case "size":
      return -(glance?.nbytes ?? 0);
    case "outcome":
      return RANK[glance?.outcome ?? "unreadable"];
  }
}

/** Sorted; equal entries keep the order of the list, latest first. */
export function sorted(entries: readonly Entry[], { by, up }: Sorting): readonly Entry[] {
  const sign = up ? -1 : 1;
  return [...entries].sort((a, b) => {
    const left = keyOf(a, by);
    const two = keyOf(b, by);
    const order =
      typeof left === "string" || typeof two === "string"
        ? String(left).localeCompare(String(two), "en", { numeric: true })
        : left - two;
    return sign * order;
  });
}
