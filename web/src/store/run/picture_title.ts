/**
 * The caption of an exported picture: the program, and the moment shown.
 *
 * Invariant: pure; the words for a run that has ended are those of `nodescope export`.
 */

import { formatCount } from "@/base/numbers";
import type { NodeColumns } from "@/store/run/columns";
import type { Cursor } from "@/store/run/cursor";
import type { RunModel } from "@/store/run/run_model";
import type { Stop } from "@/wire/types.gen";

export interface ShownMoment {
  model(): RunModel | undefined;
  cursor(): Cursor;
  stop(): Stop | undefined;
  step(): number;
  shown(): Pick<NodeColumns, "lastNode">;
}

/** `train.py, in step 3 after loss/mean`; `train.py, last state (step 120)`. */
export function pictureTitle(store: ShownMoment): string {
  const model = store.model();
  return model === undefined ? "" : `${model.info.name}, ${momentWords(store, model)}`;
}

function momentWords(store: ShownMoment, model: RunModel): string {
  // The step first: a long name is cut at its end.
  const step = store.step() > 0 ? `step ${formatCount(store.step())}` : "";
  const inStep = step && `in ${step} `;
  if (store.cursor().kind === "past") {
    const name = model.graph.nodes[store.shown().lastNode]?.name;
    return name === undefined ? `${inStep}before its first node` : `${inStep}after ${name}`;
  }
  const stop = store.stop();
  if (stop !== undefined) return `stopped ${inStep}${stop.when} ${stop.node_name}`;
  if (model.info.state === "live") return `${inStep}while it runs`;
  return `last state${step && ` (${step})`}`;
}
