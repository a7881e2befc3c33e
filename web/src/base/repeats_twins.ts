/**
 * Counterparts in the members of a stack, by the spans of their operations.
 *
 * Invariant: needs no scope tree; tables over all nodes are made when they are first needed.
 */

import { IdTable } from "@/base/by_id";
import type { ScopedNode, Spans, Stack } from "@/base/repeats";

export class SpanTwins {
  private places: ReadonlyMap<string, number> | undefined;
  private tables: Tables | undefined;
  private readonly outside = new Map<number, readonly number[]>();

  constructor(
    private readonly nodes: readonly (ScopedNode | undefined)[],
    private readonly stacks: readonly Stack[],
    private readonly spans: () => Spans,
  ) {}

  /** Indices of the operations inside a member, in an order that all members share. */
  operations(member: string): readonly number[] {
    const { order, starts, ends } = this.spans();
    const at = this.placeIn(member);
    return [...order.subarray(starts[at] ?? 0, ends[at] ?? 0)];
  }

  /** The counterpart in `to` of a value computed in `from` or read by it from outside. */
  value(value: number, from: string, to: string): number | undefined {
    const { nodes } = this;
    const { order, starts } = this.spans();
    const a = this.placeIn(from);
    const b = this.placeIn(to);
    const { producers, places } = this.tablesNow();
    const producer = producers.get(value);
    if (producer === undefined || !this.holds(a, producer)) {
      return this.outsideOf(b)[this.outsideOf(a).indexOf(value)];
    }
    const place = places[producer]! - starts[a]! + starts[b]!;
    return nodes[order[place] ?? -1]?.outputs[nodes[producer]!.outputs.indexOf(value)];
  }

  private placeIn(member: string): number {
    this.places ??= new Map(
      this.stacks.flatMap(({ members }) => members).map((path, at) => [path, at]),
    );
    return this.places.get(member) ?? -1;
  }

  private tablesNow(): Tables {
    this.tables ??= tablesOf(this.nodes, this.spans());
    return this.tables;
  }

  private holds(member: number, node: number): boolean {
    const { starts, ends } = this.spans();
    const place = this.tablesNow().places[node]!;
    return place >= starts[member]! && place < ends[member]!;
  }

  /** The values that a member reads from outside, in the order of first use. */
  private outsideOf(member: number): readonly number[] {
    const known = this.outside.get(member);
    if (known !== undefined) return known;
    const { order, starts, ends } = this.spans();
    const { producers } = this.tablesNow();
    const values = new Set<number>();
    for (let at = starts[member] ?? 0; at < (ends[member] ?? 0); at++) {
      for (const value of this.nodes[order[at]!]!.inputs) {
        const producer = producers.get(value);
        if (producer === undefined || !this.holds(member, producer)) values.add(value);
      }
    }
    const list = [...values];
    this.outside.set(member, list);
    return list;
  }
}

interface Tables {
  /** The first node that produces each value. */
  readonly producers: IdTable;
  /** The index of each node in the order of the spans; -1 = holds data. */
  readonly places: Int32Array;
}

function tablesOf(nodes: readonly (ScopedNode | undefined)[], { order }: Spans): Tables {
  const producers = new IdTable();
  nodes.forEach((node, index) => {
    for (const value of node?.outputs ?? []) if (!producers.has(value)) producers.set(value, index);
  });
  const places = new Int32Array(nodes.length).fill(-1);
  order.forEach((node, place) => {
    places[node] = place;
  });
  return { producers, places };
}
