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

/** The file at `api/<path>`, for a download; a list becomes one parameter for each element. */
export async function getFile(
  path: string,
  query: Readonly<Record<string, string | readonly string[]>>,
): Promise<Blob> {
  const address = addressOf(path);
  const pairs = Object.entries(query).flatMap(([key, value]) =>
    (typeof value === "string" ? [value] : value).map((text) => [key, text]),
  );
  address.search = new URLSearchParams(pairs).toString();
  return (await reply(address, { method: "GET" })).blob();
}

/** POSTs a file to `api/<path>`. */
export async function sendFile<T>(path: string, name: string, file: Blob): Promise<T> {
  const address = addressOf(path);
  address.search = new URLSearchParams({ name }).toString();
  const headers = { "Content-Type": "application/octet-stream" };
  return (await (await reply(address, { method: "POST", body: file, headers })).json()) as T;
}

function addressOf(path: string): URL {
  const address = new URL(`api/${path}`, document.baseURI);
  address.hash = "";
  address.search = "";
  return address;
}

async function ask<T>(address: URL, method: string): Promise<T> {
  return (await (await reply(address, { method })).json()) as T;
}

/** The server's answer; throws a `RequestError` if there is none or it reports a problem. */
async function reply(address: URL, request: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(address, request);
  } catch {
    throw new RequestError("The server does not answer", "is nodescope still running?");
  }
  if (answer.ok) return answer;
  const problem = ((await answer.json().catch(() => undefined)) ?? {}) as Problem;
  throw new RequestError(problem.error ?? `The server answered ${answer.status}`, problem.hint);
}
