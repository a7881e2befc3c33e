/**
 * Text about the item under the pointer.
 *
 * Invariant: pure; a title and a few short lines.
 */

import { formatBytes, formatCount, formatDuration } from "@/base/numbers";
import { printable } from "@/base/printable";
import type { RunGraph } from "@/store/run/run_model";
import type { Hold } from "@/views/timeline/axis";
import type { CurvePoint } from "@/views/timeline/course";
import { type HostSpan, hostTitle, partWords } from "@/views/timeline/host";
import { type Origin, whenWords } from "@/views/timeline/origin";
import { type Bar, stepWords } from "@/views/timeline/spans";
import { blockName, type StepBlock } from "@/views/timeline/step_blocks";

/** The item under the pointer. */
export type Under =
  | { readonly kind: "bar"; readonly bar: Bar }
  | { readonly kind: "hold"; readonly hold: Hold }
  | { readonly kind: "step"; readonly block: StepBlock }
  | ({ readonly kind: "memory" } & CurvePoint);

export function sameUnder(a: Under | undefined, b: Under | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (a.kind === "bar") return b.kind === "bar" && a.bar === b.bar;
  if (a.kind === "memory") return b.kind === "memory" && a.time === b.time;
  if (a.kind === "step") return b.kind === "step" && a.block === b.block;
  return b.kind === "hold" && a.hold.at === b.hold.at && a.hold.trueNs === b.hold.trueNs;
}

export interface Tip {
  readonly title: string;
  readonly rows: readonly string[];
}

/** `host` is all time between nodes, `blocks` are the steps in view. */
export function tipOf(
  under: Under,
  graph: RunGraph | undefined,
  origin: Origin,
  host: readonly HostSpan[],
  blocks: readonly StepBlock[] = [],
): Tip {
  if (under.kind === "hold") {
    return {
      title: `held by the debugger for ${formatDuration(under.hold.trueNs)}`,
      rows: ["Not the program's own time; left out here."],
    };
  }
  if (under.kind === "step") return stepTip(under.block);
  if (under.kind === "memory") {
    return {
      title: `${formatBytes(under.needed)} needed`,
      rows: [whenWords(under.time, origin, true), "Click to go to this moment"],
    };
  }
  const { bar } = under;
  const step = stepOf(bar, blocks);
  const at = whenWords(bar.start, origin, step === stepWords(origin.step, origin.after));
  const took = formatDuration(bar.end - bar.start);
  if (bar.host !== undefined) {
    const inside = bar.host.kind === "data" ? longestIn(host, bar.host) : undefined;
    const label = bar.host.what;
    const named = label !== "" && label !== "<module>" && bar.host.kind !== "data";
    return {
      title: hostTitle(bar.host),
      rows: [
        `${took}, ${step}, ${at}`,
        ...(inside === undefined ? [] : [`most of it ${hostTitle(inside)}`]),
        ...(named && bar.host.kind === "python" ? [`in ${label}`] : []),
      ],
    };
  }
  if (bar.between !== undefined) {
    return {
      title: bar.between === "" ? "between operations" : `between operations · ${bar.between}`,
      rows: [`${took}, ${step}, ${at}`, "Python and recording overhead"],
    };
  }
  return {
    title: printable(graph?.nodes[bar.node]?.name ?? (bar.scope || bar.phase)),
    // Some libraries report no times.
    rows: [bar.end > bar.start ? `${took}, ${bar.phase}` : bar.phase, `${step}, ${at}`],
  };
}

/** The step that a bar belongs to, as drawn: a wait for an item belongs to the item's step. */
function stepOf(bar: Bar, blocks: readonly StepBlock[]): string {
  const middle = (bar.start + bar.end) / 2;
  const own = bar.host !== undefined || bar.between !== undefined;
  const block = own ? blocks.find(({ start, end }) => start <= middle && middle < end) : undefined;
  const single = block !== undefined && block.first === block.last;
  return single ? blockName(block) : stepWords(bar.step, bar.after);
}

function stepTip(block: StepBlock): Tip {
  const count = block.last - block.first + 1;
  const single = block.after ? `step ${formatCount(block.last)}` : "this step";
  const target = count > 1 ? "the step at the pointer" : single;
  const took = formatDuration(block.end - block.start);
  const perStep = count > 1 ? `, ${formatDuration((block.end - block.start) / count)} each` : "";
  const unseen = count > 1 ? `${formatCount(block.leftOut)} of them not observed` : "not observed";
  return {
    title: `${blockName(block)} · ${took}${perStep}`,
    rows: [
      ...partWords(block.parts).split(", "),
      ...(block.leftOut > 0 ? [unseen] : []),
      ...(block.parts.held > 0
        ? [`held by the debugger for ${formatDuration(block.parts.held)}`]
        : []),
      `Click to go to ${target}, double-click to zoom in`,
    ],
  };
}

function longestIn(host: readonly HostSpan[], fetch: HostSpan): HostSpan | undefined {
  let longest: HostSpan | undefined;
  for (const span of host) {
    if (!span.nested || span.thread !== fetch.thread) continue;
    if (span.start < fetch.start || span.end > fetch.end) continue;
    if (longest === undefined || span.end - span.start > longest.end - longest.start)
      longest = span;
  }
  return longest;
}
