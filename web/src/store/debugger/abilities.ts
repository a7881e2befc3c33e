/**
 * Which of the debugger's commands are available now, and why the others are not; buttons and keys
 * share this.
 *
 * Invariant: pure; an ability is "" or the reason shown after the command's name.
 */

import type { Store } from "@/store/page/store";
import type { RunInfo, SessionInfo } from "@/wire/types.gen";

export interface Situation {
  readonly linked: boolean;
  /** nodescope is ending. */
  readonly ended?: boolean;
  readonly state: RunInfo["state"] | undefined;
  readonly phase: SessionInfo["phase"] | undefined;
  /** The program is stopped, and everything before the stop has arrived. */
  readonly stopped: boolean;
  /** The program is stopped, and records before the stop are still arriving. */
  readonly arriving: boolean;
  /** A pause was requested. */
  readonly pausing: boolean;
  /** A recorded moment is shown. */
  readonly past: boolean;
  /** The moment shown; 0 if nothing is recorded. */
  readonly seq: number;
  /** Enabled breakpoints. */
  readonly breakpoints: number;
}

export interface Abilities {
  readonly continue: string;
  readonly step: string;
  readonly back: string;
  readonly reverse: string;
  readonly pause: string;
  readonly detach: string;
}

export function abilitiesIn(now: Situation): Abilities {
  const all = (why: string): Abilities => ({
    continue: why,
    step: why,
    back: why,
    reverse: why,
    pause: why,
    detach: why,
  });
  if (now.ended) return all("nodescope has ended");
  if (!now.linked) return all("not connected");
  if (now.state === undefined) return all("no run is open");
  const live = now.state === "live";
  const busy = now.arriving
    ? "still reading the events before the stop"
    : now.pausing
      ? "stopping at the next node"
      : "the program is running";
  const moving = live && !now.stopped && !now.past;
  const nothing = now.seq === 0 ? "nothing is recorded yet" : "";
  const goals = now.breakpoints === 0 ? "no breakpoints are set" : "";
  const step = live && now.stopped ? "" : moving ? busy : nothing || (now.past ? "" : END);
  const back = moving
    ? busy
    : nothing || (now.past && now.seq <= 1 ? "this is the start of the recording" : "");
  return {
    step,
    continue: step || (live && now.stopped ? "" : goals),
    back,
    reverse: back || goals,
    pause: !live
      ? OVER[now.state]
      : now.stopped
        ? "already stopped"
        : now.arriving || now.pausing
          ? busy
          : now.phase === "running"
            ? ""
            : now.phase === "detached"
              ? "already detached from the program"
              : "the program is ending",
    detach: !live
      ? OVER[now.state]
      : now.phase === "detached"
        ? "already detached"
        : now.phase === "finished"
          ? "the program is ending"
          : "",
  };
}

const END = "this is the end of the recording; B and R go back";
const OVER: Record<RunInfo["state"], string> = {
  live: "",
  recorded: "this is a recording; no program is running",
  lost: "the program was killed or crashed",
  finished: "the program has ended",
};

export function abilities(store: Store): Abilities {
  const model = store.model();
  const cursor = store.cursor();
  return abilitiesIn({
    linked: store.link().kind === "open",
    ended: store.link().kind === "ended",
    state: model?.info.state,
    phase: model?.session?.phase,
    stopped: store.stop() !== undefined,
    arriving: store.arriving() > 0,
    pausing: store.awaited() === "pause",
    past: cursor.kind === "past",
    seq: cursor.kind === "past" ? cursor.seq : (model?.seq ?? 0),
    breakpoints: (model?.session?.breakpoints ?? []).filter((status) => status.breakpoint.enabled)
      .length,
  });
}

/** Why breakpoints cannot be set, as a sentence; "" if they can. */
export function unbreakable(store: Store): string {
  if (store.breakable()) return "";
  const link = store.link().kind;
  if (link === "ended") return "nodescope has ended; open the run again to set breakpoints.";
  if (link !== "open") return "The page is not connected.";
  if (store.model() === undefined) return "No run is open.";
  return "This run has ended, and nothing was recorded.";
}
