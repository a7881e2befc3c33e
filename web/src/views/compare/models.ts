/**
 * Both sides in the canvas's form: graphs, colours by fate, times.
 *
 * Invariant: pure; the same answers give the same pictures.
 */

import { leafName } from "@/base/scopes";
import type { Token } from "@/render/draw/design_tokens";
import { familyOf } from "@/render/draw/palette";
import type { GraphModel, GraphNode, GraphValue, NodeStates, Tints } from "@/render/scene/types";
import type { Links } from "@/store/history/compare";
import { detail } from "@/store/run/node_text";
import { isLeaf } from "@/wire/roles";
import { specFields } from "@/wire/spec";
import type {
  ComparedFunction,
  FateKind,
  Graph,
  Kernel,
  Node,
  RunGraph,
  Value,
} from "@/wire/types.gen";

export function fateToken(fate: FateKind): Token {
  return `fate-${fate}`;
}

function modelOf(
  nodes: readonly Node[],
  values: readonly Value[],
  version: number,
  words: (node: Node) => string,
): GraphModel {
  const known = new Map<number, GraphValue>();
  for (const { id, spec } of values) {
    known.set(id, { id, ...specFields(spec) });
  }
  return {
    nodes: nodes.map(
      (node): GraphNode => ({
        id: node.id,
        name: node.name,
        label: leafName(node.name),
        op: node.op,
        family: familyOf(node),
        role: node.role,
        scope: node.scope,
        phase: node.phase,
        inputs: node.inputs,
        outputs: node.outputs,
        detail: words(node),
        forward: node.forward ?? undefined,
        control: node.control_inputs,
      }),
    ),
    values: known,
    version,
  };
}

/** The nodes that the eager run executed in the compared step; with their fates, if not kept. */
export function eagerModel(run: RunGraph, fn: ComparedFunction, links: Links): GraphModel {
  const wanted = new Set(fn.beside);
  const kept = run.nodes.filter((node) => wanted.has(node.id));
  const values = run.values.map((value) => value.value);
  return modelOf(kept, values, 1, (node) => {
    const traced = links.byEager.get(node.id);
    if (traced === undefined || isLeaf(traced)) return detail(node);
    const fate = traced.fate;
    if (fate === "kept") return detail(node);
    const into = traced.into.flatMap((id) => links.kernels.get(id) ?? [])[0];
    return into === undefined || into.id === traced.id
      ? fate
      : `${fate} → ${into.pattern || leafName(into.name)}`;
  });
}

export function stageModel(graph: Graph): GraphModel {
  return modelOf(graph.nodes, graph.values, graph.id, (node) => {
    if (node.op !== "fused") return detail(node);
    const covers = Array.isArray(node.attrs.covers) ? node.attrs.covers.length : 0;
    return `${String(node.attrs.pattern ?? "")} · ${covers} nodes`;
  });
}

export function eagerTints(links: Links): Tints {
  const tokens = new Map<number, Token>();
  for (const [id, node] of links.byEager) {
    if (!isLeaf(node)) tokens.set(id, fateToken(node.fate));
  }
  return tokens;
}

/** A node that stands for several traced nodes has the fate of one of them; kernels are fused. */
export function stageTints(graph: Graph, links: Links): Tints {
  const tokens = new Map<number, Token>();
  for (const node of graph.nodes) {
    if (isLeaf(node)) continue;
    const first = links.nodes.get(node.origin.includes(node.id) ? node.id : (node.origin[0] ?? 0));
    const fate = node.op === "fused" ? "fused" : first === undefined ? "rewritten" : first.fate;
    tokens.set(node.id, fateToken(fate));
  }
  return tokens;
}

function states(times: ReadonlyMap<number, number>, dashed: ReadonlySet<number>): NodeStates {
  let size = 1;
  for (const ids of [times.keys(), dashed]) for (const id of ids) size = Math.max(size, id + 1);
  const model = {
    times: new Uint32Array(size).fill(1),
    step: new Uint32Array(size).fill(1),
    durationNs: new Float64Array(size),
    flags: new Uint8Array(size),
  };
  for (const [id, ns] of times) model.durationNs[id] = ns;
  for (const id of dashed) model.times[id] = 0;
  return model;
}

/** Median times; nodes that the compiled run does not compute are drawn as not run. */
export function eagerStates(fn: ComparedFunction): NodeStates {
  const times = new Map(fn.beside.map((id) => [id, 0]));
  const skipped = new Set<number>();
  for (const node of fn.nodes) {
    if (node.eager === 0) continue;
    if (!isLeaf(node)) times.set(node.eager, node.eager_ns ?? 0);
    if (node.fate === "eliminated") skipped.add(node.eager);
  }
  return states(times, skipped);
}

export function kernelStates(graph: Graph, kernels: ReadonlyMap<number, Kernel>): NodeStates {
  const ids = graph.nodes.map((node) => [node.id, kernels.get(node.id)?.ns ?? 0] as const);
  return states(new Map(ids), new Set());
}
