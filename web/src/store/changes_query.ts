/**
 * The changes of the step at the moment shown, as a signal.
 *
 * Invariant: costs nothing while the program runs; what ran in a step that is over is asked of the
 * server once per step.
 */

import { type Accessor, createMemo } from "solid-js";
import { changesOf, isNews, ranIn, type StepChanges, subjectStep } from "@/store/changes";
import { createQuery } from "@/store/query";
import type { Store } from "@/store/store";
import { decodeExecutions } from "@/wire/decode";
import type { GetState } from "@/wire/types.gen";

export function createChanges(store: Store): Accessor<StepChanges | undefined> {
  const still = createMemo(
    () => store.cursor().kind === "past" || store.session()?.phase !== "running" || !isLive(store),
  );
  const subject = createMemo(() => {
    const model = store.model();
    if (model === undefined || !still()) return undefined;
    return subjectStep(model.graph, model.steps, store.step(), store.cursor().kind === "past");
  });
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
    const model = store.model();
    const row = subject();
    if (model === undefined || row === undefined) return undefined;
    const changes = changesOf(model.graph, model.steps, row, ran());
    return isNews(changes, ran()) ? changes : undefined;
  });
}

function isLive(store: Store): boolean {
  return store.model()?.info.state === "live";
}
