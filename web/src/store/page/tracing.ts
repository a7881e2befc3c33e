/**
 * The trace shown in the graph: an item's inputs or outputs up to a depth, or the paths between two
 * items, with a summary in words.
 *
 * Invariant: at most one trace is shown at a time; it belongs to one run, and follows the graph as
 * the graph grows.
 */

import { type Accessor, createEffect, createMemo, createSignal, on } from "solid-js";
import { listed, plural } from "@/base/numbers";
import { isWithin } from "@/base/scopes";
import type { Path } from "@/store/history/why";
import type { Store } from "@/store/page/store";
import type { Item } from "@/store/page/url";
import { isOperation } from "@/store/run/counts";
import type { RunGraph } from "@/store/run/run_model";
import { graphOrder } from "@/store/run/search";
import { flowOf, pathsBetween, type Trace, traced } from "@/store/run/trace";

export type TraceKind = "inputs" | "outputs" | "paths";

interface Wanted {
  readonly kind: TraceKind;
  readonly from: Item;
  /** The other end of the paths; undefined until the user has chosen it. */
  readonly to?: Item | undefined;
  readonly depth: number;
}

export interface ShownTrace {
  readonly kind: TraceKind;
  readonly from: string;
  readonly to: string | undefined;
  /** Infinity for all. */
  readonly depth: number;
  /** Whether the trace continues beyond the depth. */
  readonly more: boolean;
  /** What was found, such as `5 operations, 2 parameters`. */
  readonly words: string;
  readonly path: Path;
  /** The nodes that are not dimmed: all traced nodes, and those the trace starts from. */
  readonly ids: ReadonlySet<number>;
}

export interface Tracing {
  readonly shown: Accessor<ShownTrace | undefined>;
  /** Traces from the selection, one step further if the selection is already traced. */
  trace(kind: "inputs" | "outputs", depth?: number): void;
  setDepth(depth: number): void;
  /** Marks the selection as one end of paths, or shows the paths from that end to the selection. */
  join(): void;
  /** The traced node after (or before) the selected one in the graph's order, wrapping around. */
  next(direction: 1 | -1): number | undefined;
  end(): void;
}

export function createTracing(store: Store): Tracing {
  const [wanted, setWanted] = createSignal<Wanted | undefined>();
  const graph = createMemo(() => store.model()?.graph);
  createEffect(on(store.runId, () => setWanted(undefined), { defer: true }));

  const idsOf = (item: Item): readonly number[] =>
    item.kind === "node" ? [item.id] : (store.tree()?.scopes.get(item.path)?.members ?? []);
  const nameOf = (item: Item): string => {
    if (item.kind === "node") return graph()?.nodes[item.id]?.name ?? "";
    return store.tree()?.scopes.get(item.path)?.stack?.name ?? item.path;
  };
  const shown = createMemo((): ShownTrace | undefined => {
    const [now, all] = [wanted(), graph()];
    if (now === undefined || all === undefined) return undefined;
    return now.kind === "paths" ? joined(now, all) : followed(now, all);
  });
  const followed = ({ kind, from, depth }: Wanted, all: RunGraph): ShownTrace => {
    const begin = idsOf(from);
    const trace = traced(flowOf(all), begin, kind === "inputs" ? "inputs" : "readers", depth);
    return {
      kind,
      from: nameOf(from),
      to: undefined,
      depth,
      more: trace.more,
      words: trace.distance.size === 0 ? "none" : counted(trace, all),
      path: pathOf(trace),
      ids: new Set([...begin, ...trace.distance.keys()]),
    };
  };
  const joined = ({ from, to }: Wanted, all: RunGraph): ShownTrace => {
    const kind = "paths";
    const nothing = { nodes: new Map(), culprit: undefined, edges: [], tone: "select" } as const;
    const still = { kind, from: nameOf(from), depth: 0, more: false } as const;
    if (to === undefined) {
      const words = "select the other end and press J";
      return { ...still, to: undefined, words, path: nothing, ids: new Set() };
    }
    const ends = [from, to] as const;
    const forward = pathsBetween(flowOf(all), idsOf(from), idsOf(to));
    const none = forward.distance.size === 0;
    const trace = none ? pathsBetween(flowOf(all), idsOf(to), idsOf(from)) : forward;
    const [first, last] = none && trace.distance.size > 0 ? [to, from] : ends;
    const inside = new Map(trace.distance);
    for (const end of ends) for (const id of idsOf(end)) inside.delete(id);
    const shortest = Math.min(...idsOf(last).map((id) => trace.distance.get(id) ?? Infinity));
    const between = inside.size === 0 ? "nothing between" : counted({ distance: inside }, all);
    return {
      ...still,
      from: nameOf(first),
      to: nameOf(last),
      words:
        trace.distance.size === 0
          ? "no path, in either direction"
          : `${between}; the shortest path has ${plural(shortest, "edge")}`,
      path: pathOf(trace),
      ids: new Set([...trace.distance.keys(), ...ends.flatMap(idsOf)]),
    };
  };
  const same = (a: Item | undefined, b: Item | undefined): boolean =>
    a !== undefined && b !== undefined && JSON.stringify(a) === JSON.stringify(b);
  /** Whether two items are equal or nested: no path leads from an item to itself. */
  const overlap = (a: Item, b: Item): boolean => {
    const [scope, other] = a.kind === "scope" ? [a, b] : [b, a];
    if (same(a, b)) return true;
    if (scope.kind === "node") return false;
    if (other.kind === "node") return idsOf(scope).includes(other.id);
    return isWithin(other.path, scope.path) || isWithin(scope.path, other.path);
  };
  const selected = (): Item | undefined => {
    const item = store.selection();
    if (item === undefined) store.notify("info", "Select a node or a scope to trace from.");
    return item;
  };
  return {
    shown,
    trace(kind, depth) {
      const item = selected();
      if (item === undefined) return;
      const before = wanted();
      const again = before?.kind === kind && same(before.from, item);
      const further = again ? before.depth + (shown()?.more === true ? 1 : 0) : 1;
      setWanted({ kind, from: item, depth: depth ?? further });
    },
    setDepth(depth) {
      const before = wanted();
      if (before !== undefined) setWanted({ ...before, depth: Math.max(1, depth) });
    },
    join() {
      const item = selected();
      if (item === undefined) return;
      const before = wanted();
      if (before?.kind !== "paths" || before.to !== undefined) {
        setWanted({ kind: "paths", from: item, depth: 0 });
      } else if (overlap(before.from, item)) {
        store.notify("info", "Paths lead from one node or scope to another: select another one.");
      } else setWanted({ ...before, to: item });
    },
    next(direction) {
      const [trace, tree] = [shown(), store.tree()];
      if (trace === undefined || tree === undefined) return undefined;
      const order = graphOrder(tree).filter((id) => trace.ids.has(id));
      const item = store.selection();
      const at = item?.kind === "node" ? order.indexOf(item.id) : -1;
      if (at < 0) return order.at(direction > 0 ? 0 : -1);
      return order[(at + direction + order.length) % order.length];
    },
    end: () => void setWanted(undefined),
  };
}

function pathOf({ distance, edges }: Trace): Path {
  const nodes = new Map([...distance].map(([id, steps]) => [id, String(steps)]));
  return { nodes, culprit: undefined, edges, tone: "select" };
}

/** `5 operations, 2 parameters and 1 input`. */
function counted({ distance }: Pick<Trace, "distance">, graph: RunGraph): string {
  const counts = new Map<string, number>();
  for (const id of distance.keys()) {
    const node = graph.nodes[id];
    if (node === undefined) continue;
    const noun = isOperation(node) ? "operation" : node.role;
    counts.set(noun, (counts.get(noun) ?? 0) + 1);
  }
  const sorted = [...counts].sort(
    ([a], [b]) => Number(b === "operation") - Number(a === "operation"),
  );
  return listed(sorted.map(([noun, count]) => plural(count, noun)));
}
