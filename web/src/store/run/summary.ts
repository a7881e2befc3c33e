/**
 * The summary of the run shown, once it has ended: requested again when it ends.
 *
 * Invariant: the summary is never that of another run, and undefined while the run goes on.
 */

import { type Accessor, createEffect, createSignal, on, onCleanup } from "solid-js";
import { formatCount, formatDuration } from "@/base/numbers";
import { pictured } from "@/store/page/first_picture";
import type { Store } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import { get } from "@/wire/rest";
import { inWords, type Link } from "@/wire/socket";
import type { Governed, RunSummary, Summary } from "@/wire/types.gen";

export interface Summing {
  /** Whether the run shown has ended. */
  readonly over: Accessor<boolean>;
  readonly summary: Accessor<RunSummary | undefined>;
  readonly problem: Accessor<string>;
  /** Whether the summary takes the inspector's place although something is selected. */
  readonly shown: Accessor<boolean>;
  show(shown: boolean): void;
}

/** An error's text without the place where it was raised, if that is the place shown beside it. */
export function withoutPlace(
  error: string,
  place: { readonly file: string; readonly line: number } | null | undefined,
): string {
  return place == null ? error : error.replace(` (${place.file}:${place.line})`, "");
}

/** Whether this is a graph that was not run, such as that of a graph file. */
export function neverRan({
  run,
  summary,
}: {
  readonly run: Pick<RunSummary["run"], "level">;
  readonly summary: Pick<Summary, "operations" | "nodes" | "outcome">;
}): boolean {
  const { operations, nodes, outcome } = summary;
  return run.level === "graph" && operations === 0 && nodes > 0 && outcome === "finished";
}

/** The text for such a graph. */
export const NEVER_RAN =
  "The structure of the graph. It was not run: there are no values or times.";

/** The components of the run time, and what is excluded. */
export function timeWords(
  sum: Pick<Summary, "time" | "before_ns" | "after_ns" | "outcome">,
): string {
  const { time, before_ns: before, after_ns: after } = sum;
  const parts =
    before === null || after === null
      ? ["From the program's start to its end"]
      : [
          `${formatDuration(before)} before the first step`,
          `${formatDuration(Math.max(0, time.ran_ns - before - after))} in steps`,
          // A program killed within a step has no such time; one that failed may have spent it in a
          // step, so it is not called "after the last one".
          ...(after > 0
            ? [
                `${formatDuration(after)} ${sum.outcome === "finished" ? "after the last one" : "from there to its end"}`,
              ]
            : []),
        ];
  const heldText =
    time.held_ns > 0 ? `; not counted: ${formatDuration(time.held_ns)} held by the debugger` : "";
  return `${parts.join(", ")}${heldText}.`;
}

/** The steps that the operations belong to; "" if all. */
export function observedWords(
  governed: Pick<Governed, "steps" | "steps_left_out"> | undefined,
): string {
  const left = governed?.steps_left_out ?? 0;
  if (governed === undefined || left === 0) return "";
  const all = formatCount(governed.steps);
  return `In ${formatCount(governed.steps - left)} observed steps of ${all}, and outside of steps.`;
}

/** The steps that the shares of time belong to. */
export function sharesWords(
  governed: Pick<Governed, "steps" | "steps_left_out"> | undefined,
): string {
  const left = governed?.steps_left_out ?? 0;
  if (governed === undefined || left === 0) return "Time of the training steps:";
  return `Time of the ${formatCount(governed.steps - left)} observed training steps:`;
}

/** The text in place of a missing summary. */
export function unsummed(problem: string, link: Link["kind"]): string {
  if (link === "ended") return "nodescope has ended. To see the summary, open the recording:";
  if (link === "lost" && problem !== "") {
    return "The connection is lost. The run is summed up once it is restored.";
  }
  return problem === "" ? "Summing up the run…" : `The run cannot be summed up: ${problem}`;
}

export function createSummary(store: Store, ui: Pick<Ui, "inspectorTab">): Summing {
  const [summary, setSummary] = createSignal<RunSummary>();
  const [problem, setProblem] = createSignal("");
  const [shown, setShown] = createSignal(false);
  const over = (): boolean => {
    const info = store.model()?.info;
    return info !== undefined && info.state !== "live" && info.recording !== "";
  };
  let lastAsked = 0;
  // The run's last records arrive before its end is announced: one request for each end suffices.
  const question = (): string => {
    const info = store.model()?.info;
    const wanted = info !== undefined && over() && pictured(store);
    return wanted ? `${info.id} ${info.state}` : "";
  };
  createEffect(
    on(question, (now, before) => {
      const number = ++lastAsked;
      setSummary(undefined);
      setProblem("");
      if (now === "") return setShown(false);
      // It has just ended while being viewed: the summary is what the user wants to see.
      const run = now.split(" ")[0] ?? "";
      if (before === "" && watched === run) setShown(true);
      ask(run, number);
    }),
  );
  const ask = (run: string, number: number): void => {
    get<RunSummary>(`runs/${run}/summary`).then(
      (answer) => {
        if (number !== lastAsked) return;
        setProblem("");
        setSummary(answer);
      },
      (error: unknown) => number === lastAsked && setProblem(inWords(error)),
    );
  };
  // After a reconnect, repeat a request that failed.
  createEffect(
    on(
      () => store.link().kind,
      (kind) => {
        const run = store.model()?.info.id;
        if (kind === "open" && problem() !== "" && run !== undefined && over()) ask(run, lastAsked);
      },
      { defer: true },
    ),
  );
  /** The run that was seen live. */
  let watched = "";
  createEffect(() => {
    const info = store.model()?.info;
    if (info?.state === "live") watched = info.id;
  });
  createEffect(
    on(store.selection, (item) => item !== undefined && setShown(false), { defer: true }),
  );
  createEffect(on(ui.inspectorTab, () => setShown(false), { defer: true }));
  onCleanup(() => {
    lastAsked = -1;
  });
  return { over, summary, problem, shown, show: setShown };
}
