/**
 * The worker that decodes large messages of the server.
 *
 * Invariant: what it answers shares the message's own bytes, which are handed over, not copied.
 */

import { decode } from "@msgpack/msgpack";

const scope = self as unknown as DedicatedWorkerGlobalScope;

scope.onmessage = ({ data }: MessageEvent<ArrayBuffer>): void => {
  try {
    scope.postMessage({ message: decode(data) }, [data]);
  } catch (fault) {
    scope.postMessage({ fault: fault instanceof Error ? fault.message : String(fault) });
  }
};
