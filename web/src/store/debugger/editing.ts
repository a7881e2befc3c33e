/**
 * Whether a value can be changed: in the program at the stop, or in a what-if branch.
 *
 * Invariant: pure; reads the store's signals.
 */

import type { Store } from "@/store/page/store";
import { offers } from "@/store/run/capabilities";

/**
 * Whether this value can be changed at the stop: the node there reads it or has just returned it.
 */
export function editable(store: Store, value: number): boolean {
  const stop = store.stop();
  if (stop === undefined || store.cursor().kind !== "live") return false;
  if (store.link().kind !== "open") return false;
  const node = store.model()?.graph.nodes[stop.node];
  if (node == null || !offers(store, "edit", stop.node)) return false;
  return node.inputs.includes(value) || (stop.when === "after" && node.outputs.includes(value));
}

/** Whether another value can be tried at the moment shown: its dependents can be rerun. */
export function branchable(store: Store, value: number): boolean {
  const producer = store.model()?.graph.values.get(value)?.producer ?? undefined;
  return store.recorded() && offers(store, "rerun", producer);
}
