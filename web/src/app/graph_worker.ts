/**
 * The worker that decodes large messages of the server. Of a snapshot, it goes on to build what the
 * layout needs, and lays the graph out when the canvas takes it over.
 *
 * Invariant: one answer for each message, in order, and after a snapshot its structure; what it has prepared is the graph of the last
 * snapshot, as the page draws it at first.
 */

import { decode } from "@msgpack/msgpack";
import { hierarchyOf, lookedAt } from "@/app/first_hierarchy";
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
    // A fault makes the canvas lay out by itself.
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
  try {
    message = decode(data) as ServerMessage;
  } catch (fault) {
    scope.postMessage({ fault: fault instanceof Error ? fault.message : String(fault) });
    return;
  }
  if (message.type !== "snapshot") {
    // What is decoded shares the message's bytes, which are handed over, not copied.
    scope.postMessage({ message }, [data]);
    return;
  }
  // The page makes the nodes meanwhile.
  scope.postMessage({ message });
  const graph = lookedAt(message);
  scope.postMessage({ structure: graph.known });
  prepared = hierarchyOf(graph, message.values);
}
