/**
 * The state of all nodes at a past moment: requested in full once, then as differences.
 *
 * Invariant: a request for the moment that `heldOf` names would return the state held. A state
 * requested while the run was live is never named: flags may be added to its executions later, and
 * executions forgotten.
 */

import { withoutFalseTimes } from "@/store/run/capabilities";
import { NodeColumns } from "@/store/run/columns";
import type { RunModel } from "@/store/run/run_model";
import { decodeExecutions } from "@/wire/decode";
import type { StateAt } from "@/wire/types.gen";

export class PastState extends NodeColumns {
  private run = "";
  private moment = 0;

  /** The moment of a run on which a difference can build; null if the full state is needed. */
  heldOf(run: string): number | null {
    return this.run === run ? this.moment : null;
  }

  /** Takes an answer to `get_state`; `live`: whether the run was live at the request. */
  take(run: string, state: StateAt, model: RunModel | undefined, live: boolean): void {
    this.reserve(model?.graph.nodes.length ?? 0);
    const rows = withoutFalseTimes(decodeExecutions(state.executions), model);
    if (typeof state.since === "number") this.replace(rows, state.gone);
    else {
      this.clear();
      this.apply(rows);
    }
    this.run = live ? "" : run;
    this.moment = state.seq;
  }
}
