/**
 * The state of all nodes at a past moment: the whole of it once, then what is different.
 *
 * Invariant: what `heldOf` names is what a request would bring. While a run is live that is not
 * certain: flags of its executions are still added, and executions forgotten.
 */

import { withoutFalseTimes } from "@/store/run/capabilities";
import { NodeColumns } from "@/store/run/columns";
import type { RunModel } from "@/store/run/run_model";
import { decodeExecutions } from "@/wire/decode";
import type { StateAt } from "@/wire/types.gen";

export class PastState extends NodeColumns {
  private run = "";
  private moment = 0;

  /** The moment of a run from which on a difference is enough; null if there is none. */
  heldOf(run: string): number | null {
    return this.run === run ? this.moment : null;
  }

  /** Takes an answer to `get_state`; `live`: whether the run was so when it was requested. */
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
