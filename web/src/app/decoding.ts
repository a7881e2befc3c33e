/**
 * Decoding of large messages in a worker, so that the page stays responsive. The worker that has
 * decoded a snapshot is offered to the canvas, which lets it lay out the graph.
 *
 * Invariant: one answer for each message, in order; the caller decodes a refused message itself.
 */

import { offer } from "@/layout/prepared";
import { type KnownStructure, know } from "@/store/run/known_structure";
import { identityOf, makeAhead } from "@/wire/graph_columns";
import type { ServerMessage, Snapshot } from "@/wire/types.gen";

interface Waiting {
  resolve(message: unknown): void;
  reject(fault: Error): void;
}

interface Decoder {
  readonly worker: Worker;
  readonly waiting: Waiting[];
}

interface Answer {
  readonly message?: ServerMessage;
  readonly structure?: KnownStructure;
  readonly fault?: string;
}

/** A function for `WireHost.decodeApart`; undefined where there are no workers. */
export function decoderApart(): ((data: ArrayBuffer) => Promise<unknown>) | undefined {
  if (typeof Worker === "undefined") return undefined;
  const start = (): Decoder => {
    const worker = new Worker(new URL("./graph_worker.ts", import.meta.url), { type: "module" });
    const waiting: Waiting[] = [];
    /** The snapshot whose structure has not arrived yet. */
    let snapshot: Snapshot | undefined;
    worker.onmessage = ({ data }: MessageEvent<Answer>) => {
      if (data.message?.type === "snapshot") {
        snapshot = data.message;
        makeAhead(snapshot);
        return;
      }
      const { structure, fault, message = snapshot } = data;
      const next = waiting.shift();
      snapshot = undefined;
      if (fault !== undefined) next?.reject(new Error(fault));
      else if (message?.type === "snapshot" && structure) know(message.nodes, structure);
      next?.resolve(message);
      if (message?.type !== "snapshot" || waiting.length > 0) return;
      if (decoder?.worker === worker) decoder = undefined;
      offer(identityOf(message.nodes), worker);
    };
    // The worker cannot start, for example because its script is blocked.
    worker.onerror = () => {
      for (const next of waiting.splice(0)) next.reject(new Error("no worker"));
    };
    return { worker, waiting };
  };
  // Start a worker before there is anything to decode: the first message is often the largest.
  let decoder: Decoder | undefined = start();
  return (data) =>
    new Promise((resolve, reject) => {
      decoder ??= start();
      decoder.waiting.push({ resolve, reject });
      decoder.worker.postMessage(data);
    });
}
