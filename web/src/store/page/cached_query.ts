/**
 * Requests with cached answers, for repeated queries, such as for a window of time that the user
 * moves back and forth.
 *
 * Invariant: at most `MOST` answers are kept, the most recently used; none while `lasting` is
 * false, because answers may then still change.
 */

import type { Requests } from "@/store/page/store";
import type { ResponseBody } from "@/wire/types.gen";

const MOST = 24;

export function remembering(store: Requests, lasting: () => boolean): Requests {
  const kept = new Map<string, ResponseBody>();
  return {
    async request(body, wanted, timeoutMs) {
      const key = JSON.stringify(body);
      const before = lasting() ? kept.get(key) : undefined;
      if (before?.type === wanted) {
        kept.delete(key);
        kept.set(key, before);
        return before as Extract<ResponseBody, { readonly type: typeof wanted }>;
      }
      const answer = await store.request(body, wanted, timeoutMs);
      if (lasting()) {
        kept.set(key, answer);
        for (const oldest of kept.keys()) {
          if (kept.size <= MOST) break;
          kept.delete(oldest);
        }
      } else kept.clear();
      return answer;
    },
  };
}
