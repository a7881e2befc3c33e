/**
 * The changes of the step at the moment shown, as a signal.
 *
 * Invariant: nothing is computed while the program runs; the executions of a finished step are
 * requested from the server once per step.
 */

import { type Accessor, createMemo } from "solid-js";
import { changesOf, isNews, ranIn, type StepChanges, subjectStep } from "@/store/history/changes";
import { createQuery } from "@/store/page/query";
import { outcomeOf } from "@/store/page/recordings_list";
import type { Store } from "@/store/page/store";
import type { RunModel } from "@/store/run/run_model";
import { decodeExecutions } from "@/wire/decode";
import type { GetState, StepRow } from "@/wire/types.gen";

export function createChanges(store: Store): Accessor<StepChanges | undefined> {
  const graph = createMemo(() => store.model()?.graph);
  const steps = createMemo(() => reached(store.model()));
  const subject = createMemo((before: StepRow | undefined) => {
    const now = graph();
    if (now === undefined) return undefined;
    const past = store.cursor().kind === "past";
    const step = store.step();
    if (past || !isRunning(store)) return subjectStep(now, steps(), step, past);
    // Keep the changes during a short run, such as a step to the next node, to avoid flicker.
    return before !== undefined && step <= before.step + 1 ? before : undefined;
  }, undefined);
  const answer = createQuery(store, "state_at", (): GetState | undefined => {
    const run = store.runId();
    const end = subject()?.end_seq;
    return run === undefined || end == null ? undefined : { type: "get_state", run, seq: end };
  });
  const ran = createMemo(() => {
    const now = answer();
    const row = subject();
    if (now.kind !== "ready" || row === undefined || now.value.seq !== row.end_seq)
      return undefined;
    return ranIn(decodeExecutions(now.value.executions), row.step);
  });
  return createMemo(() => {
    const now = graph();
    const row = subject();
    if (now === undefined || row === undefined || !steps().includes(row)) return undefined;
    const changes = changesOf(now, steps(), row, ran());
    return isNews(changes, ran()) ? changes : undefined;
  });
}

/** The steps; if the program did not finish, the last one counts as not completed. */
function reached(model: RunModel | undefined): readonly StepRow[] {
  const steps = model?.steps ?? [];
  const last = steps.at(-1);
  if (model === undefined || last === undefined || model.info.state === "live") return steps;
  if (outcomeOf(model.info) === "finished") return steps;
  return [...steps.slice(0, -1), { ...last, end_seq: null, end_ns: null }];
}

function isRunning(store: Store): boolean {
  return store.model()?.info.state === "live" && store.session()?.phase === "running";
}
