/**
 * Where nodes ran: on threads of the program, in device queues, in other processes.
 *
 * Invariant: pure; 0 stands for the program itself.
 */

/** The place where nodes ran: all nodes of one place share a lane. */
export interface Place {
  readonly thread: number;
  /** The process; 0 is the program's own. */
  readonly worker: number;
  /** The queue of its device; 0 if they ran on the thread. */
  readonly queue: number;
}

/** Whether it is a thread of the program, and neither a device queue nor another process. */
export function onThread(place: Place): boolean {
  return place.worker === 0 && place.queue === 0;
}

export function samePlace(a: Place, b: Place): boolean {
  return a.thread === b.thread && a.worker === b.worker && a.queue === b.queue;
}

/** `worker 2 · lane 1`; "" for the program's own threads. A process without queues is one lane. */
export function placeWords({ worker, queue }: Pick<Place, "worker" | "queue">): string {
  if (worker > 0 && worker === queue) return `worker ${worker}`;
  const parts = [worker > 0 ? `worker ${worker}` : "", queue > 0 ? `lane ${queue}` : ""];
  return parts.filter(Boolean).join(" · ");
}
