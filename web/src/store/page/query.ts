/**
 * Lazy reads from the server as signals: requested again when the query changes, late answers to
 * old queries dropped, the previous answer kept on screen until the next one arrives. A known
 * answer stays if it cannot be requested again because the connection is down.
 *
 * Invariant: at most one request of a query is in flight, and the last one is always sent.
 */

import { type Accessor, createEffect, createSignal, onCleanup, untrack } from "solid-js";
import type { Requests } from "@/store/page/store";
import { inWords, LineError } from "@/wire/socket";
import type { RequestBody, ResponseBody } from "@/wire/types.gen";

export type Answer<T> =
  | { readonly kind: "none" }
  | { readonly kind: "ready"; readonly value: T; readonly stale: boolean }
  | { readonly kind: "failed"; readonly message: string };

/** The answer, once it has arrived. */
export function answered<T>(answer: Answer<T>): T | undefined {
  return answer.kind === "ready" ? answer.value : undefined;
}

/** Why there is no answer, if the request failed. */
export function failureOf(answer: Answer<unknown>): string | undefined {
  return answer.kind === "failed" ? answer.message : undefined;
}

type Body<T extends ResponseBody["type"]> = Extract<ResponseBody, { readonly type: T }>;

/** Requests for which the server may first have to read through a long recording. */
const PATIENCE_MS: Partial<Record<RequestBody["type"], number>> = {
  get_step_times: 120_000,
  get_timeline: 120_000,
  get_problems: 120_000,
  get_critical_path: 120_000,
  get_step_memory: 120_000,
};

/**
 * Args:
 *   question: The request, or undefined for none. Compared as text.
 *   refresh: Sends the same request again whenever this changes (new data of a running program).
 *   keep: Whether the old answer stays on screen while a new request is in flight.
 */
export function createQuery<T extends ResponseBody["type"]>(
  store: Requests,
  wanted: T,
  question: Accessor<RequestBody | undefined>,
  refresh: Accessor<unknown> = () => undefined,
  keep: (before: RequestBody, after: RequestBody) => boolean = () => true,
): Accessor<Answer<Body<T>>> {
  const [answer, setAnswer] = createSignal<Answer<Body<T>>>({ kind: "none" });
  let lastRequest: RequestBody | undefined;
  let busy = false;
  let again = false;
  let disposed = false;

  const ask = async (): Promise<void> => {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      do {
        again = false;
        const body = lastRequest;
        if (body === undefined) break;
        const next = await store.request(body, wanted, PATIENCE_MS[body.type]).then(
          (value): Answer<Body<T>> => ({ kind: "ready", value, stale: false }),
          (error: unknown): Answer<Body<T>> => {
            const known = untrack(answer);
            if (error instanceof LineError && known.kind === "ready") return known;
            return {
              kind: "failed",
              message: inWords(error),
            };
          },
        );
        if (disposed) return;
        if (lastRequest === body) setAnswer(() => next);
        else again = true;
      } while (again);
    } finally {
      busy = false;
    }
  };

  createEffect(() => {
    const body = question();
    refresh();
    untrack(() => {
      const before = lastRequest;
      const same = JSON.stringify(body) === JSON.stringify(before);
      if (!same) lastRequest = body;
      if (body === undefined) {
        setAnswer({ kind: "none" });
        return;
      }
      if (!same) {
        const now = answer();
        const stays = before !== undefined && keep(before, body);
        setAnswer(now.kind === "ready" && stays ? { ...now, stale: true } : { kind: "none" });
      }
      void ask();
    });
  });
  onCleanup(() => {
    disposed = true;
  });
  return answer;
}
