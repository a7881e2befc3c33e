/**
 * The layout worker: keeps the graph and the layouts of its groups, and answers with scenes.
 *
 * Invariant: each layout request gets one answer, in order, after its progress messages; a fault is
 * also an answer.
 */

import { type LayoutRequest, LayoutSession, transferred } from "@/layout/session";

const scope = self as unknown as DedicatedWorkerGlobalScope;
const session = new LayoutSession((reply) => scope.postMessage(reply));

self.onmessage = (event: MessageEvent<LayoutRequest>): void => {
  const reply = session.handle(event.data);
  if (reply !== undefined) scope.postMessage(reply, transferred(reply));
};
