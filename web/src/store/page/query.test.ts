import { createRoot, createSignal } from "solid-js";
import { expect, test } from "vitest";
import { type Answer, createQuery } from "@/store/page/query";
import type { Requests } from "@/store/page/store";
import { LineError, RequestError } from "@/wire/socket";
import type { Source } from "@/wire/types.gen";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const TEXT = { type: "source", file: "a.py", text: "x = 1", found: true } as const;

/** The answer to a query after a repeated request has failed. */
async function askedAgain(failure: Error): Promise<Answer<Source>> {
  let answers = (): Promise<unknown> => Promise.resolve(TEXT);
  const requests = { request: () => answers() } as unknown as Requests;
  const [tick, setTick] = createSignal(0);
  const [answer, dispose] = createRoot(
    (end) =>
      [
        createQuery(
          requests,
          "source",
          () => ({ type: "get_source", run: "r", file: "a.py" }),
          tick,
        ),
        end,
      ] as const,
  );
  await settled();
  expect(answer()).toEqual({ kind: "ready", value: TEXT, stale: false });
  answers = () => Promise.reject(failure);
  setTick(1);
  await settled();
  dispose();
  return answer();
}

test("a known answer survives a lost connection, but not a refusal of the server", async () => {
  expect(await askedAgain(new LineError("The connection was lost"))).toMatchObject({
    kind: "ready",
    value: TEXT,
  });
  expect(await askedAgain(new RequestError("no such file"))).toEqual({
    kind: "failed",
    message: "no such file",
  });
});

test("requests that read a long recording have a longer timeout", async () => {
  const waited: unknown[] = [];
  const request = (_: unknown, __: unknown, timeoutMs: unknown) => {
    waited.push(timeoutMs);
    return Promise.resolve(TEXT);
  };
  const requests = { request } as unknown as Requests;
  const times = { type: "get_step_times", run: "r", start_ns: 0, end_ns: 9, limit: 8 } as const;
  const dispose = createRoot((end) => {
    createQuery(requests, "step_times", () => ({ ...times, step: 1, after: false }));
    createQuery(requests, "source", () => ({ type: "get_source", run: "r", file: "a.py" }));
    return end;
  });
  await settled();
  dispose();
  expect(waited).toEqual([expect.any(Number), undefined]);
  expect(waited[0]).toBeGreaterThan(60_000);
});
