/**
 * Time between nodes: where it is drawn, and its names.
 *
 * A sampler knows the ends of a gap only to a few milliseconds, but the executions around the gap
 * give them exactly, so a sampled span is stretched to these.
 *
 * Invariant: pure; no span of a lane overlaps a node of it.
 */

import { formatDuration } from "@/base/numbers";
import type { Axis } from "@/views/timeline/axis";
import type { TimelineRows } from "@/views/timeline/spans";
import type { HostKind, HostTime, TimePart } from "@/wire/types.gen";

/** Host time on the axis. */
export interface HostSpan {
  readonly kind: Exclude<HostKind, "held">;
  readonly thread: number;
  readonly step: number;
  readonly start: number;
  readonly end: number;
  /** `train.py:41`, or "". */
  readonly where: string;
  readonly what: string;
  /** Whether it lies within the fetching of an item. */
  readonly nested: boolean;
}

/** About twice the sampler's interval. */
const BLUR_NS = 16e6;

/** Kinds whose ends the program reported; others were sampled. */
const EXACT: ReadonlySet<HostKind> = new Set(["compiling", "unobserved", "held_along"]);

const NAMES: Readonly<Record<HostSpan["kind"], string>> = {
  data: "data loading",
  python: "Python",
  library: "library",
  waiting: "waiting",
  input: "waiting for input",
  held_along: "held with another thread",
  unobserved: "unobserved call",
  compiling: "compiling",
};

/** The token of each kind's colour. */
export const HOST_COLOURS: Readonly<Record<HostSpan["kind"], string>> = {
  data: "--host-data",
  python: "--host-python",
  library: "--host-python",
  waiting: "--host-waiting",
  input: "--host-waiting",
  held_along: "--host-between",
  unobserved: "--host-between",
  compiling: "--host-compiling",
};

export const PART_COLOURS: Readonly<Record<TimePart, string>> = {
  forward: "--ph-forward",
  backward: "--ph-backward",
  optimizer: "--ph-optimizer",
  other: "--ph-recompute",
  data: "--host-data",
  waiting: "--host-waiting",
  python: "--host-python",
  compiling: "--host-compiling",
  between: "--host-between",
  held: "--line",
};

/** The last part of a path; names of cells and prompts unchanged. */
export function baseName(file: string): string {
  return file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1);
}

/** `data loading · train.py:41`, `compiling train_step · train.py:12`; shorter where unknown. */
export function hostTitle(span: HostSpan): string {
  const kind = NAMES[span.kind];
  const called = span.kind === "compiling" ? `${kind} ${span.what}` : kind;
  const name = span.kind === "library" ? span.what || "library" : called;
  const known = span.what !== "" && span.what !== "<module>";
  const description = span.kind === "waiting" && known ? `${name} in ${span.what}` : name;
  return span.where === "" ? description : `${description} · ${span.where}`;
}

/** Host time in a window, on the axis and between the nodes of its thread. */
export function hostSpans(
  host: readonly HostTime[],
  rows: TimelineRows,
  axis: Axis,
): readonly HostSpan[] {
  const edges = edgesByThread(rows);
  const spans: HostSpan[] = [];
  const fetches: HostSpan[] = [];
  for (const hostSpan of host) {
    if (hostSpan.kind !== "data") continue;
    const span = shown(hostSpan, axis.map(hostSpan.start_ns), axis.map(hostSpan.end_ns), false);
    fetches.push(span);
    spans.push(span);
  }
  for (const hostSpan of host) {
    if (hostSpan.kind === "data" || hostSpan.kind === "held") continue;
    let start = axis.map(hostSpan.start_ns);
    let end = axis.map(hostSpan.end_ns);
    const middle = (start + end) / 2;
    const fetch = fetches.find(
      (fetch) => fetch.thread === hostSpan.thread && fetch.start <= middle && middle <= fetch.end,
    );
    const around = edges.get(hostSpan.thread)?.around(middle);
    if (around === null) continue; // a node runs there
    const low = Math.max(around?.[0] ?? Number.NEGATIVE_INFINITY, fetch?.start ?? -1);
    const high = Math.min(around?.[1] ?? Number.POSITIVE_INFINITY, fetch?.end ?? 1e300);
    const blur = EXACT.has(hostSpan.kind) ? 0 : BLUR_NS;
    if (Math.abs(start - low) < blur || start < low) start = low;
    if (Math.abs(end - high) < blur || end > high) end = high;
    const beside = fetches.filter((other) => other !== fetch && other.thread === hostSpan.thread);
    for (const other of beside) {
      if (other.end <= middle && start < other.end + BLUR_NS) start = Math.max(low, other.end);
      if (other.start >= middle && end > other.start - BLUR_NS) end = Math.min(high, other.start);
    }
    if (end > start) spans.push(shown(hostSpan, start, end, fetch !== undefined));
  }
  return spans.sort((a, b) => a.start - b.start);
}

function shown(host: HostTime, start: number, end: number, nested: boolean): HostSpan {
  return {
    kind: host.kind === "held" ? "held_along" : host.kind,
    thread: host.thread,
    step: host.step,
    start,
    end,
    where: host.line > 0 ? `${baseName(host.file)}:${host.line}` : "",
    what: host.function,
    nested,
  };
}

interface Edges {
  /** The end of the previous node and the start of the next; null within a node. */
  around(time: number): readonly [number, number] | null;
}

/** For rows that are already on the axis. */
function edgesByThread(rows: TimelineRows): ReadonlyMap<number, Edges> {
  const byThread = new Map<number, number[]>();
  for (let i = 0; i < rows.count; i++) {
    if ((rows.worker?.[i] ?? 0) > 0 || (rows.lane?.[i] ?? 0) > 0) continue; // not on a thread of the program
    const thread = rows.thread[i] ?? 0;
    const list = byThread.get(thread);
    if (list === undefined) byThread.set(thread, [i]);
    else list.push(i);
  }
  const edges = new Map<number, Edges>();
  for (const [thread, list] of byThread) {
    list.sort((a, b) => (rows.startNs[a] ?? 0) - (rows.startNs[b] ?? 0));
    const starts = list.map((i) => rows.startNs[i] ?? 0);
    let last = Number.NEGATIVE_INFINITY;
    const ends = list.map((i) => {
      last = Math.max(last, (rows.startNs[i] ?? 0) + (rows.durationNs[i] ?? 0));
      return last;
    });
    edges.set(thread, {
      around(time) {
        let low = 0;
        let high = starts.length;
        while (low < high) {
          const middle = (low + high) >> 1;
          if ((starts[middle] ?? 0) <= time) low = middle + 1;
          else high = middle;
        }
        const before = low > 0 ? (ends[low - 1] ?? 0) : Number.NEGATIVE_INFINITY;
        return before > time ? null : [before, starts[low] ?? Number.POSITIVE_INFINITY];
      },
    });
  }
  return edges;
}

/** Where the time went, largest first: `data loading 99 ms, operations 1.1 ms`. */
export function partWords(
  parts: Readonly<Record<TimePart, number>>,
  short = false,
  most = Number.POSITIVE_INFINITY,
): string {
  const rest = parts.between;
  const operations = short ? "ops" : "operations";
  const sums: readonly (readonly [string, number])[] = [
    [operations, parts.forward + parts.backward + parts.optimizer + parts.other],
    [short ? "data" : "data loading", parts.data],
    ["waiting", parts.waiting],
    ["Python", parts.python],
    ["compiling", parts.compiling],
    [short ? "between" : "between operations", rest],
  ];
  const whole = sums.reduce((sum, [, ns]) => sum + ns, 0);
  return sums
    .filter(([name, ns]) => ns > whole * (short ? 0.01 : 0.001) || (name === operations && ns > 0))
    .sort((a, b) => b[1] - a[1])
    .slice(0, most)
    .map(([name, ns]) => `${name} ${formatDuration(ns)}`)
    .join(", ");
}
