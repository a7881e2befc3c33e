/**
 * How long both forms take: a whole call without nodescope watching, and the sum of the nodes.
 *
 * Invariant: each way of measuring has its own row, and one name that is the same everywhere on the
 * page.
 */

import { For, type JSX, Show } from "solid-js";
import { formatCount, formatDuration, formatNumber, plural } from "@/base/numbers";
import type { ComparedFunction, Timings } from "@/wire/types.gen";

export interface TimeRow {
  readonly name: string;
  readonly eagerNs: number;
  readonly compiledNs: number;
  /** How it was measured, as a sentence. */
  readonly how: string;
}

export const SUM_OF_NODES = "sum of nodes";

/** Args: timings: Undefined if the calls were not timed. */
export function timeRows(
  fn: Pick<ComparedFunction, "owner" | "eager_ns" | "compiled_ns">,
  timings: Timings | undefined,
): readonly TimeRow[] {
  const timing = timingOf(fn, timings);
  const rows: TimeRow[] = [];
  if (timing !== undefined && timings !== undefined) {
    const calls = `${formatCount(timing.eager.calls)} and ${formatCount(timing.compiled.calls)}`;
    rows.push({
      name: "whole call",
      eagerNs: timing.eager.median_ns,
      compiledNs: timing.compiled.median_ns,
      how:
        "Whole call: the program alone, without recording; " +
        `medians of ${calls} calls in ${plural(timings.runs, "run")} each, taken in turns, without ` +
        `the first ${formatCount(timings.warm_up)} calls of a run, which trace${spread(timing.pairs)}.`,
    });
  }
  rows.push({
    name: SUM_OF_NODES,
    eagerNs: fn.eager_ns,
    compiledNs: fn.compiled_ns,
    how:
      "Sum of nodes: medians of the recorded runs, in which each node runs and is timed by itself. " +
      "All times of single nodes are of this kind.",
  });
  return rows;
}

export function timingOf(
  fn: Pick<ComparedFunction, "owner">,
  timings: Timings | undefined,
): Timings["functions"][number] | undefined {
  const owner = fn.owner.replace(/(#\d+)+$/, "");
  return timings?.functions.find((timing) => timing.name === owner);
}

/** Why a function was not timed though others may have been. */
export function seldomWords({ warm_up: first }: Pick<Timings, "warm_up">): string {
  return (
    `No run called it more than ${formatCount(first + 1)} times; ` +
    `the first ${formatCount(first)} calls, which trace, do not count.`
  );
}

/** The range over pairs of runs: one eager, one compiled. */
export function spread(pairs: readonly number[]): string {
  if (pairs.length < 2) return "";
  const low = formatNumber(Math.min(...pairs), 3);
  const high = formatNumber(Math.max(...pairs), 3);
  return low === high ? "" : `; ${low}× to ${high}× over ${pairs.length} pairs of runs`;
}

export function WholeTimes(props: { readonly rows: readonly TimeRow[] }): JSX.Element {
  const time = (ns: number): string => (ns > 0 ? formatDuration(ns) : "–");
  return (
    <Show when={props.rows.some((row) => row.eagerNs > 0 || row.compiledNs > 0)}>
      <table class="cmp-times" data-testid="whole-times">
        <thead>
          <tr>
            <th>Time of</th>
            <th class="r">Eager</th>
            <th class="r">Compiled</th>
          </tr>
        </thead>
        <tbody>
          <For each={props.rows}>
            {(row) => (
              <tr>
                <td>{row.name}</td>
                <td class="r m">{time(row.eagerNs)}</td>
                <td class="r m">{time(row.compiledNs)}</td>
              </tr>
            )}
          </For>
        </tbody>
      </table>
      <For each={props.rows}>{(row) => <p class="t3 small">{row.how}</p>}</For>
    </Show>
  );
}
