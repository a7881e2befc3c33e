/**
 * Decoding of large messages in a worker, so that the page goes on meanwhile.
 *
 * Invariant: one answer for each message, in order; whoever asks decodes itself what is refused.
 */

interface Waiting {
  resolve(message: unknown): void;
  reject(fault: Error): void;
}

/** A function for `WireHost.decodeApart`; undefined where there are no workers. */
export function decoderApart(): ((data: ArrayBuffer) => Promise<unknown>) | undefined {
  if (typeof Worker === "undefined") return undefined;
  let worker: Worker | undefined;
  const waiting: Waiting[] = [];
  const start = (): Worker => {
    const started = new Worker(new URL("./decode_worker.ts", import.meta.url), { type: "module" });
    started.onmessage = ({ data }: MessageEvent<{ message?: unknown; fault?: string }>) => {
      const next = waiting.shift();
      if (data.fault === undefined) next?.resolve(data.message);
      else next?.reject(new Error(data.fault));
    };
    // One that cannot start, as a script that is blocked.
    started.onerror = () => {
      for (const next of waiting.splice(0)) next.reject(new Error("no worker"));
    };
    return started;
  };
  return (data) =>
    new Promise((resolve, reject) => {
      worker ??= start();
      waiting.push({ resolve, reject });
      worker.postMessage(data);
    });
}
