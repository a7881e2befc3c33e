/**
 * Traces through the graph: the nodes that a node depends on, the nodes that depend on it, and the
 * nodes on paths between two nodes.
 *
 * Invariant: pure; a search visits each node and each edge once, so the time is linear in the
 * graph, however many paths there are.
 */

import type { RunGraph } from "@/store/run/run_model";

/** Direct predecessors and successors by node id. */
export interface Flow {
  readonly inputs: readonly (readonly number[])[];
  readonly readers: readonly (readonly number[])[];
}

export interface Trace {
  /**
   * Number of edges from the start, by node id, nearest first. `traced` leaves out the start
   * itself; `pathsBetween` includes both ends.
   */
  readonly distance: ReadonlyMap<number, number>;
  /** Producer and reader of each edge of the trace. */
  readonly edges: readonly (readonly [number, number])[];
  /** Whether the trace continues beyond the depth. */
  readonly more: boolean;
}

const NONE: readonly number[] = [];
const flows = new WeakMap<RunGraph, Flow>();

export function flowOf(graph: RunGraph): Flow {
  const known = flows.get(graph);
  if (known !== undefined) return known;
  const inputs: number[][] = [];
  const readers: number[][] = [];
  for (const node of graph.nodes) {
    if (node === undefined) continue;
    const producers = new Set(node.control_inputs);
    for (const value of node.inputs) {
      const producer = graph.values.get(value)?.producer ?? undefined;
      if (producer !== undefined) producers.add(producer);
    }
    // A node that overwrites its own input is not its own neighbour.
    producers.delete(node.id);
    inputs[node.id] = [...producers];
    for (const producer of producers) {
      const known = readers[producer];
      if (known === undefined) readers[producer] = [node.id];
      else known.push(node.id);
    }
  }
  const flow = { inputs, readers };
  flows.set(graph, flow);
  return flow;
}

/** Everything that leads to the given nodes, or that they lead to, up to a depth. */
export function traced(
  flow: Flow,
  from: readonly number[],
  towards: keyof Flow,
  depth: number,
): Trace {
  const { distance, more } = reached(flow[towards], from, depth);
  const begin = new Set(from);
  const part = (id: number): boolean => distance.has(id);
  // Edges inside the scope where the trace starts are not part of it.
  const edges = edgesAmong(flow, part).filter(([a, b]) => !begin.has(a) || !begin.has(b));
  for (const id of begin) distance.delete(id);
  return { distance, edges, more };
}

/** Everything on a path from one of `from` to one of `to`, the ends included; empty if none is. */
export function pathsBetween(flow: Flow, from: readonly number[], to: readonly number[]): Trace {
  const { distance } = reached(flow.readers, from, Number.POSITIVE_INFINITY);
  const back = reached(flow.inputs, to, Number.POSITIVE_INFINITY).distance;
  const on = new Map([...distance].filter(([id]) => back.has(id)));
  return { distance: on, edges: edgesAmong(flow, (id) => on.has(id)), more: false };
}

function reached(
  next: readonly (readonly number[])[],
  from: readonly number[],
  depth: number,
): { distance: Map<number, number>; more: boolean } {
  const distance = new Map<number, number>(from.map((id) => [id, 0]));
  let level: readonly number[] = from;
  for (let step = 1; level.length > 0; step++) {
    const further: number[] = [];
    for (const id of level) {
      for (const other of next[id] ?? NONE) {
        if (distance.has(other)) continue;
        if (step > depth) return { distance, more: true };
        distance.set(other, step);
        further.push(other);
      }
    }
    level = further;
  }
  return { distance, more: false };
}

function edgesAmong(flow: Flow, part: (id: number) => boolean): [number, number][] {
  const edges: [number, number][] = [];
  flow.inputs.forEach((producers, id) => {
    if (!part(id)) return;
    for (const producer of producers) if (part(producer)) edges.push([producer, id]);
  });
  return edges;
}
