/**
 * The self-time overlay: the time of an execution without the executions nested in it. A scan, a
 * call of a compiled function and a checkpoint contain others.
 *
 * Invariant: the executions of a thread are consecutive or nested.
 */

import { formatDuration } from "@/base/numbers";
import type { Moment, NumberOverlay } from "@/store/overlays/overlay";
import type { NodeColumns } from "@/store/run/columns";

export function selfTimeOverlay({ columns }: Moment): NumberOverlay {
  const values = selfTimes(columns);
  let most = 0;
  for (const ns of values.values()) most = Math.max(most, ns);
  return {
    title: "Time without what runs inside",
    numbers: { values, join: "sum", least: undefined, most },
    folded: "the total of all in it",
    note: values.size === 0 ? "No times are known." : "",
    format: formatDuration,
  };
}

interface Span {
  readonly node: number;
  readonly start: number;
  readonly end: number;
  /** Worker, thread and lane. */
  readonly where: readonly [number, number, number];
}

/** The self time of each node's last execution in ns, by node id. */
export function selfTimes(columns: NodeColumns): ReadonlyMap<number, number> {
  const spans: Span[] = [];
  columns.times.forEach((times, node) => {
    const ns = columns.durationNs[node] ?? 0;
    if (times === 0 || ns === 0) return;
    const start = columns.startNs[node] ?? 0;
    const { worker, thread, lane } = columns;
    const where = [worker[node] ?? 0, thread[node] ?? 0, lane[node] ?? 0] as const;
    spans.push({ node, start, end: start + ns, where });
  });
  spans.sort((a, b) => apart(a, b) || a.start - b.start || b.end - a.end);
  const own = new Map<number, number>(spans.map(({ node, start, end }) => [node, end - start]));
  let around: Span[] = [];
  for (const span of spans) {
    around = around.filter((outer) => apart(outer, span) === 0 && outer.end >= span.end);
    const outer = around.at(-1);
    if (outer !== undefined) {
      const left = (own.get(outer.node) ?? 0) - (span.end - span.start);
      own.set(outer.node, Math.max(left, 0));
    }
    around.push(span);
  }
  return own;
}

function apart(a: Span, b: Span): number {
  return a.where[0] - b.where[0] || a.where[1] - b.where[1] || a.where[2] - b.where[2];
}
