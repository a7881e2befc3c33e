/**
 * Marks of watches by node: the newest hits of enabled watches that mark nodes, and all hits that a
 * query on the recording returned.
 *
 * Invariant: pure; a node's hits are sorted newest first.
 */

import type { WatchQuery } from "@/store/debugger/watches";
import type { WatchStatus } from "@/wire/types.gen";

export interface MarkedHit {
  readonly watch: string;
  readonly seq: number;
  readonly step: number;
  readonly text: string;
}

export interface Marked {
  readonly hits: readonly MarkedHit[];
  /** The watches with more hits than are listed here, as text. */
  readonly more: readonly string[];
}

export type MarkedNodes = ReadonlyMap<number, Marked>;

export function markedNodes(
  statuses: readonly WatchStatus[],
  question: WatchQuery | undefined,
): MarkedNodes {
  const hits = new Map<number, MarkedHit[]>();
  const more = new Map<number, Set<string>>();
  const take = (node: number, hit: MarkedHit, further: boolean): void => {
    const known = hits.get(node) ?? [];
    if (known.some((other) => other.seq === hit.seq && other.text === hit.text)) return;
    hits.set(node, [...known, hit]);
    if (further) more.set(node, (more.get(node) ?? new Set()).add(hit.watch));
  };
  for (const status of statuses) {
    if (!status.marks || !status.enabled) continue;
    for (const { node, seq, step, text } of status.recent) {
      const further = status.hits > status.recent.length;
      take(node, { watch: status.text, seq, step, text }, further);
    }
  }
  const answer = question?.answer;
  for (const { node, seq, step, text } of answer?.hits ?? []) {
    const further = (answer?.total ?? 0) > (answer?.hits.length ?? 0);
    take(node, { watch: watchOf(text, question?.text ?? ""), seq, step, text }, further);
  }
  return new Map(
    [...hits].map(([node, nodeHits]) => [
      node,
      { hits: nodeHits.sort((a, b) => b.seq - a.seq), more: [...(more.get(node) ?? [])] },
    ]),
  );
}

/** The watch that a hit belongs to, among the watches of a query, one per line. */
function watchOf(hit: string, watches: string): string {
  const rule = ruleOf(hit);
  return watches.split("\n").find((watch) => watch.split(/[ (]/)[0] === rule) ?? watches;
}

/** The finding without rule, node, step and line, which are shown beside or above it. */
export function foundWords(text: string): string {
  return /^\w+: .*? in step \d+(?: \([^()]*\))?: (.*)$/s.exec(text)?.[1] ?? text;
}

/** The rule of a hit. */
export function ruleOf(text: string): string {
  return /^(\w+): /.exec(text)?.[1] ?? "";
}
