/**
 * The layout worker: keeps the graph and the layouts of its groups, and answers with scenes.
 *
 * Invariant: one answer per layout request, in order; a fault is also an answer.
 */

import { type LayoutReply, type LayoutRequest, LayoutSession } from "@/layout/session";

const session = new LayoutSession();

self.onmessage = (event: MessageEvent<LayoutRequest>): void => {
  const reply: LayoutReply | undefined = session.handle(event.data);
  if (reply === undefined) return;
  const transfer =
    reply.kind === "scene"
      ? Object.values(reply.scene)
          .filter(ArrayBuffer.isView)
          .map((view) => view.buffer)
      : [];
  (self as unknown as DedicatedWorkerGlobalScope).postMessage(reply, transfer as Transferable[]);
};
