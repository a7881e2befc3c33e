/**
 * Workers that have built a graph's hierarchy before anybody asks for its layout.
 *
 * Invariant: a worker is handed over once, to whoever lays the graph out from then on.
 */

/** What such a worker is asked to lay out: the graph that it has. */
export interface PreparedRequest {
  readonly kind: "prepared";
  readonly version: number;
}

let offered: { readonly origin: object; readonly worker: Worker } | undefined;

/** Args: origin: The columns that the graph was made from; a later offer takes the place of it. */
export function offer(origin: object, worker: Worker): void {
  offered?.worker.terminate();
  offered = { origin, worker };
}

/** The worker that has the graph of these columns, if there is one. */
export function taken(origin: object | undefined): Worker | undefined {
  if (origin === undefined || offered?.origin !== origin) return undefined;
  const { worker } = offered;
  offered = undefined;
  return worker;
}
