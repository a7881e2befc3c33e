/**
 * Draws the critical path along the bars, and memory over time as a lane.
 *
 * Invariant: marks narrower than a pixel are drawn once per pixel; the peak is always drawn.
 */

import { textWidth } from "@/base/fonts_metrics";
import { formatBytes } from "@/base/numbers";
import type { MemoryCurve, PathMarks } from "@/views/timeline/course";
import type { Place } from "@/views/timeline/draw_steps";
import type { Bar } from "@/views/timeline/spans";
import type { Surface } from "@/widgets/canvas";

export const MEMORY_H = 44;
const MARK_H = 3;
/** The opacity of bars that are not on the path. */
export const ASIDE = 0.28;
const MOST_LINKS = 600;
const SANS = { face: "sans", weight: 500, size: 10 } as const;

interface Row {
  readonly y: number;
  readonly height: number;
  readonly bars: readonly Bar[];
}

interface Member {
  readonly left: number;
  readonly right: number;
  readonly row: Row;
}

/** Marks the members of the path at the foot of their bars, and links those in different rows. */
export function drawPath(
  { g, width, colour }: Surface,
  rows: readonly Row[],
  path: PathMarks,
  { x, left }: Pick<Place, "x" | "left">,
): void {
  const members = new Map<number, Member>();
  g.fillStyle = colour("--text");
  for (const row of rows) {
    let last = Number.NEGATIVE_INFINITY;
    for (const bar of row.bars) {
      if (bar.node === 0) continue;
      const place = path.place(bar.node, bar.start);
      if (place === undefined) continue;
      const from = x(bar.start);
      const to = Math.max(x(bar.end), from + 1);
      members.set(place, { left: from, right: to, row });
      if (to < left || from > width || to - last < 0.7) continue;
      last = to;
      const at = Math.max(left, from);
      g.fillRect(at, row.y + row.height - MARK_H, Math.min(width, to) - at, MARK_H);
    }
  }
  g.strokeStyle = colour("--text");
  g.beginPath();
  let links = 0;
  for (const [place, member] of members) {
    const next = members.get(place + 1);
    if (next === undefined || next.row === member.row || links++ > MOST_LINKS) continue;
    const at = Math.round(Math.min(member.right, next.left)) + 0.5;
    const [from, to] = [member.row.y + member.row.height - 1, next.row.y + next.row.height - 1.5];
    g.moveTo(at, from);
    g.lineTo(at, to);
    g.lineTo(next.left, to);
  }
  g.stroke();
}

/** Draws memory as a stepped area, scaled so that the peak fills the lane. */
export function drawMemory(
  { g, width, colour }: Surface,
  curve: MemoryCurve,
  { x, left, top, height }: Place,
): void {
  const high = height - 12;
  const base = top + height;
  const y = (needed: number): number => base - (curve.peak > 0 ? (needed / curve.peak) * high : 0);
  const start = Math.max(left, x(curve.span[0]));
  const end = Math.min(width, x(curve.span[1]));
  if (end <= start || curve.count === 0) return;
  g.save();
  g.beginPath();
  g.rect(start, top, end - start, height + 1);
  g.clip();
  const outline = new Path2D();
  outline.moveTo(x(curve.time[0] ?? 0), base);
  for (let i = 0; i < curve.count; i++) {
    const level = y(curve.needed[i] ?? 0);
    outline.lineTo(x(curve.time[i] ?? 0), level);
    outline.lineTo(i + 1 < curve.count ? x(curve.time[i + 1] ?? 0) : end, level);
  }
  const area = new Path2D(outline);
  area.lineTo(end, base);
  area.closePath();
  g.fillStyle = colour("--select-wash");
  g.fill(area);
  g.strokeStyle = colour("--select");
  g.stroke(outline);
  g.restore();
  const [from, to] = curve.peakAt.map(x) as [number, number];
  if (to < left || from > width) return;
  const at = Math.max(left, from);
  const right = Math.max(Math.min(width, to), at + 2);
  g.fillStyle = colour("--text");
  g.fillRect(at, top + 11, right - at, 2);
  const words = `peak ${formatBytes(curve.peak)}`;
  const wide = textWidth(words, SANS);
  g.font = `500 10px ${colour("--sans")}`;
  g.fillText(
    words,
    Math.max(left + 2, Math.min((at + right - wide) / 2, width - wide - 4)),
    top + 8,
  );
}
