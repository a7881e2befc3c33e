/**
 * The worker that decodes large messages of the server. From a snapshot, it also prepares the
 * hierarchy for the layout, and lays out the graph once the canvas takes over the worker.
 *
 * Invariant: one answer for each message, in order, and after a snapshot its structure; the
 * prepared hierarchy is that of the last snapshot, as the page draws it at first.
 */

import { decode } from "@msgpack/msgpack";
import { hierarchyOf, lookedAt, type Read, read } from "@/app/first_hierarchy";
import type { Hierarchy } from "@/layout/hierarchy";
import { packedHierarchy } from "@/layout/posted_hierarchy";
import type { PreparedRequest } from "@/layout/prepared";
import { type LayoutReply, type LayoutRequest, LayoutSession, transferred } from "@/layout/session";
import type { ServerMessage } from "@/wire/types.gen";

/** A message of the server, or a request of the layout once the worker is the canvas's. */
type Request = ArrayBuffer | PreparedRequest | LayoutRequest;

const scope = self as unknown as DedicatedWorkerGlobalScope;
const session = new LayoutSession((reply) => scope.postMessage(reply));
let prepared: Hierarchy | undefined;

scope.onmessage = ({ data }: MessageEvent<Request>): void => {
  if (data instanceof ArrayBuffer) receive(data);
  else if (data.kind !== "prepared") {
    const reply = session.handle(data);
    if (reply !== undefined) scope.postMessage(reply, transferred(reply));
  } else {
    // The error makes the canvas lay out the graph itself.
    if (prepared === undefined) throw new Error("no graph was prepared");
    const hierarchy = packedHierarchy(prepared);
    const told: LayoutReply = { kind: "hierarchy", version: data.version, hierarchy };
    scope.postMessage(told, transferred(told));
    session.take(prepared, data.version);
    prepared = undefined;
  }
};

function receive(data: ArrayBuffer): void {
  let message: ServerMessage;
  let graph: Read | undefined;
  try {
    message = decode(data) as ServerMessage;
    graph = message.type === "snapshot" ? read(message) : undefined;
  } catch (fault) {
    scope.postMessage({ fault: fault instanceof Error ? fault.message : String(fault) });
    return;
  }
  // The decoded message shares the bytes of `data`, which are transferred, not copied: the graph
  // has copies of what it needs. It is posted first: the page makes the nodes in the meantime.
  scope.postMessage({ message }, [data]);
  if (graph === undefined) return;
  const looked = lookedAt(graph);
  scope.postMessage({ structure: looked.known });
  prepared = hierarchyOf(looked);
}
