/**
 * Stacks of scopes that are alike: further boxes behind the one that is shown, the differences
 * between the scopes, and the controls.
 *
 * Invariant: the boxes behind are below the edges; the text states only what is known.
 */

import { textWidth, truncate } from "@/base/fonts_metrics";
import { plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import type { Group, Hierarchy } from "@/layout/hierarchy";
import { countMark, SMALL_MONO } from "@/layout/sizes";
import { BOX_FOLD, BOX_SCOPE } from "@/layout/types";
import { type Drawing, detailAt } from "@/render/draw/draw";
import { FAILED, HAS_INF, HAS_NAN, type LiveState } from "@/render/draw/execution_overlay";
import { formatTime } from "@/render/draw/format";
import { type StackControl, stackControls } from "@/render/scene/stack_controls";

/** Offset of each box behind another, px. */
const BEHIND = 3;

/** The stack that a box shows, folded or as one of its scopes. */
function stackOf({ model }: Drawing, box: number): Group | undefined {
  const { scene, hierarchy } = model;
  if (scene.kind[box] === BOX_SCOPE) return model.stackAround(box);
  const group = scene.kind[box] === BOX_FOLD ? hierarchy.groups[scene.ref[box]!] : undefined;
  return group?.stack === undefined ? undefined : group;
}

/** Draws two borders behind the box of a stack. */
export function drawPile(drawing: Drawing, box: number): void {
  const { painter, palette, model, zoom } = drawing;
  if (stackOf(drawing, box) === undefined) return;
  const { x, y, width, height } = model.rect(box);
  const radius = model.scene.kind[box] === BOX_SCOPE ? 7 : 5;
  for (const off of [2 * BEHIND, BEHIND]) {
    painter.rect(x + off + 0.5, y + off + 0.5, width - 1, height - 1, radius, palette["bg-panel"], {
      colour: palette["line-strong"],
      width: Math.max(1, 0.6 / zoom),
    });
  }
}

/** Draws the number of scopes after the name of a folded stack; a click on it shows all of them. */
export function drawCount(drawing: Drawing, box: number, ink: string): void {
  const { painter, palette } = drawing;
  const group = stackOf(drawing, box);
  const [control] = stackControls(drawing.model, box);
  if (group?.stack === undefined || control === undefined) return;
  const { x, y, width, height } = control.rect;
  painter.rect(x, y, width, height, height / 2, palette["bg-hover"]);
  const text = countMark(group.stack);
  painter.text(x + width / 2 - textWidth(text, SMALL_MONO) / 2, y + 11, text, SMALL_MONO, ink);
}

/** Draws the second line of a folded stack: alarms and differences. */
export function drawDifferences(drawing: Drawing, box: number, quiet: string): void {
  const { painter, palette, model, live } = drawing;
  const group = stackOf(drawing, box);
  if (group === undefined) return;
  const { x, y, width } = model.rect(box);
  const alarm = alarmIn(model.hierarchy, live, group, -1);
  const text = [alarm, ...differences(model.hierarchy, live, group)].filter(Boolean).join(" · ");
  const ink = alarm === "" ? quiet : palette.nan;
  painter.text(x + 20, y + 29, truncate(text, SMALL_MONO, width - 30), SMALL_MONO, ink);
}

/** Draws `4 of 12` and an alarm in another scope of the stack; returns where the text ends, px. */
export function drawPlace(drawing: Drawing, box: number, x: number, base: number): number {
  const { painter, palette, model, live } = drawing;
  const around = model.stackAround(box);
  if (around === undefined || detailAt(drawing.zoom) !== "near") return x;
  const shown = model.scene.ref[box]!;
  const place = `${around.groups.indexOf(shown) + 1} of ${around.groups.length}`;
  const alarm = alarmIn(model.hierarchy, live, around, shown);
  painter.text(x, base, place, SMALL_MONO, palette["text-3"]);
  const after = x + textWidth(place, SMALL_MONO);
  if (alarm === "") return after;
  painter.text(after + 8, base, alarm, SMALL_MONO, palette.nan);
  return after + 8 + textWidth(alarm, SMALL_MONO);
}

/** The width that `drawPlace` takes, px. */
export function placeWidth(drawing: Drawing, box: number): number {
  const around = drawing.model.stackAround(box);
  if (around === undefined || detailAt(drawing.zoom) !== "near") return 0;
  const shown = drawing.model.scene.ref[box]!;
  const alarm = alarmIn(drawing.model.hierarchy, drawing.live, around, shown);
  return textWidth(`00 of ${around.groups.length}  ${alarm}`, SMALL_MONO) + 8;
}

export function drawControls(drawing: Drawing, box: number): void {
  if (detailAt(drawing.zoom) !== "near") return;
  for (const control of stackControls(drawing.model, box)) drawControl(drawing, control);
}

function drawControl({ painter, palette }: Drawing, { act, rect }: StackControl): void {
  const x = rect.x + rect.width / 2;
  const y = rect.y + rect.height / 2;
  const stroke = { colour: palette["text-2"], width: 1.5 };
  if (act === "all") {
    for (const off of [-4, 0, 4])
      painter.lines([x - 4, y + off, x + 4, y + off], false, undefined, stroke);
    return;
  }
  const side = act === "previous" ? -1 : 1;
  const points = [x - 2 * side, y - 4, x + 2 * side, y, x - 2 * side, y + 4];
  painter.lines(points, false, undefined, stroke);
}

/**
 * `NaN in block_7`, `Inf in 3 of 12`; "" if all is well.
 *
 * Args:
 *   but: A group to ignore, because it is in view; -1 = none.
 */
export function alarmIn(hierarchy: Hierarchy, live: LiveState, stack: Group, but: number): string {
  for (const [flag, word] of [
    [FAILED, "raised"],
    [HAS_NAN, "NaN"],
    [HAS_INF, "Inf"],
  ] as const) {
    const hit = stack.groups.filter(
      (group) => group !== but && (live.groupFlags[group]! & flag) !== 0,
    );
    if (hit.length === 0) continue;
    return hit.length === 1
      ? `${word} in ${printable(hierarchy.groups[hit[0]!]!.name, 40)}`
      : `${word} in ${hit.length} of ${stack.groups.length}`;
  }
  return "";
}

/** Differing shapes, and times: as a range if they differ by more than half. */
export function differences(hierarchy: Hierarchy, live: LiveState, stack: Group): string[] {
  const times = stack.groups.map((group) => live.groupNs[group]!).filter((ns) => ns > 0);
  const least = Math.min(...times);
  const most = Math.max(...times);
  const shapes = differentShapes(hierarchy, stack);
  const parts: string[] = [];
  if (shapes > 0) parts.push(`${plural(shapes, "shape")} differ${shapes === 1 ? "s" : ""}`);
  if (times.length > 1) {
    parts.push(
      most > 1.5 * least
        ? `${formatTime(least)} – ${formatTime(most)}`
        : `${formatTime(most)} each`,
    );
  }
  return parts;
}

const shapesKnown = new WeakMap<Hierarchy, Map<number, number>>();

/** The number of operations whose output shapes are not the same in all scopes of a stack. */
function differentShapes(hierarchy: Hierarchy, { index, stack }: Group): number {
  const known = shapesKnown.get(hierarchy) ?? new Map<number, number>();
  shapesKnown.set(hierarchy, known);
  const before = known.get(index);
  if (before !== undefined || stack === undefined) return before ?? 0;
  const { nodes, values, repeats } = hierarchy;
  const shapeOf = (node: number | undefined): string =>
    nodes[node ?? -1]?.outputs.map((value) => values.get(value)?.shape.join()).join(";") ?? "";
  const [first, ...others] = stack.members.map((path) => repeats.operations(path));
  const count = first!.filter((node, at) =>
    others.some((other) => shapeOf(other[at]) !== shapeOf(node)),
  ).length;
  known.set(index, count);
  return count;
}
