/**
 * Commands whose effect takes a moment; the page shows them as pending at once.
 *
 * Invariant: pure.
 */

import type { Command, SessionInfo } from "@/wire/types.gen";

export type Awaited = "pause" | "continue";

/** What the page awaits after a command is sent; undefined if the command changes nothing here. */
export function awaitedAfter(
  { type }: Command,
  session: SessionInfo | null | undefined,
): Awaited | undefined {
  if (type === "pause" && session?.phase === "running") return type;
  return type === "continue" && session?.phase === "stopped" ? type : undefined;
}

/** A pause is awaited until the program no longer runs, `continue` until its session changes. */
export function stillAwaited(
  awaited: Awaited | undefined,
  before: SessionInfo | null | undefined,
  now: SessionInfo | null | undefined,
): Awaited | undefined {
  const over = awaited === "pause" ? now?.phase !== "running" : now?.version !== before?.version;
  return over ? undefined : awaited;
}
