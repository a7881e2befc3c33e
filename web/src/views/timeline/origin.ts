/**
 * The zero of the axis: the start of the run, or of the step that is shown.
 *
 * Invariant: pure; a moment is never named without its origin.
 */

import { formatCount, formatDuration } from "@/base/numbers";

export interface Origin {
  /** On the axis. */
  readonly at: number;
  /** 0 for the start of the run. */
  readonly step: number;
  /** Whether the time after this step is shown, which begins at the step's end. */
  readonly after: boolean;
}

export const RUN_START: Origin = { at: 0, step: 0, after: false };

/** The texts beside the axis to choose from, the longest first: `0 = step 12`. */
export function originWords({ step, after }: Origin): readonly string[] {
  if (step <= 0) return ["0 = start"];
  const number = formatCount(step);
  return after ? [`0 = after ${number}`] : [`0 = step ${number}`, `0 = ${number}`];
}

/**
 * When something began: `at 12.0 ms` of its own step, `2.42 s before step 25` of another one,
 * `at 2.50 s of the run`.
 */
export function whenWords(start: number, origin: Origin, own: boolean): string {
  const by = start - origin.at;
  if (origin.step <= 0) return `at ${formatDuration(by)} of the run`;
  if (own) return by === 0 ? "at its start" : `at ${formatDuration(by)}`;
  const [early, late] = origin.after ? ["the end of ", "end"] : ["", "start"];
  const step = `step ${formatCount(origin.step)}`;
  return by < 0
    ? `${formatDuration(-by)} before ${early}${step}`
    : `${formatDuration(by)} after the ${late} of ${step}`;
}
