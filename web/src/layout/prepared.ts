/**
 * Workers that have built a graph's hierarchy before its layout is requested.
 *
 * Invariant: a worker is handed over once, to the client that lays the graph out from then on.
 */

/** Tells a prepared worker to lay out the graph that it already has. */
export interface PreparedRequest {
  readonly kind: "prepared";
  readonly version: number;
}

let offered: { readonly origin: object; readonly worker: Worker } | undefined;

/** Offers a worker for the graph made from the columns `origin`; ends the worker offered before. */
export function offer(origin: object, worker: Worker): void {
  offered?.worker.terminate();
  offered = { origin, worker };
}

/** Takes the worker that has prepared the graph of these columns, if there is one. */
export function taken(origin: object | undefined): Worker | undefined {
  if (origin === undefined || offered?.origin !== origin) return undefined;
  const { worker } = offered;
  offered = undefined;
  return worker;
}
