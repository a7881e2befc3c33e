/**
 * Requests by REST: for answers that are large, needed once, and not part of a single run.
 *
 * Invariant: an answer is the expected one or a `RequestError` in words for the user.
 */

import { RequestError } from "@/wire/socket";

interface Problem {
  readonly error?: string;
  readonly hint?: string;
}

/** GETs `api/<path>`; the type is what the server describes for the path. */
export async function get<T>(
  path: string,
  query: Readonly<Record<string, string | number>> = {},
): Promise<T> {
  const address = addressOf(path);
  address.search = new URLSearchParams(
    Object.entries(query).map(([key, value]) => [key, String(value)]),
  ).toString();
  return ask<T>(address, "GET");
}

/** POSTs to or DELETEs `api/<path>`: changes something. */
export async function send<T>(method: "POST" | "DELETE", path: string): Promise<T> {
  return ask<T>(addressOf(path), method);
}

function addressOf(path: string): URL {
  const address = new URL(`api/${path}`, document.baseURI);
  address.hash = "";
  address.search = "";
  return address;
}

async function ask<T>(address: URL, method: string): Promise<T> {
  let reply: Response;
  try {
    reply = await fetch(address, { method });
  } catch {
    throw new RequestError("The server does not answer", "is nodescope still running?");
  }
  const body: unknown = await reply.json().catch(() => undefined);
  if (reply.ok && body !== undefined) return body as T;
  const problem = (body ?? {}) as Problem;
  throw new RequestError(problem.error ?? `The server answered ${reply.status}`, problem.hint);
}
