/**
 * Draws the timeline on a canvas, and finds the bar under a point.
 *
 * Invariant: text is written only where it fits, with the fonts' own widths.
 */

import { type Font, textWidth, truncate } from "@/base/fonts_metrics";
import { formatDuration } from "@/base/numbers";
import { printable } from "@/base/printable";
import { samePlace } from "@/store/run/place";
import type { Hold } from "@/views/timeline/axis";
import {
  type CurvePoint,
  type MemoryCurve,
  type PathMarks,
  pointAt,
} from "@/views/timeline/course";
import { ASIDE, drawMemory, drawPath, MEMORY_H } from "@/views/timeline/draw_course";
import { drawBand, drawStacks } from "@/views/timeline/draw_steps";
import { HOST_COLOURS, hostTitle } from "@/views/timeline/host";
import { type Origin, originWords } from "@/views/timeline/origin";
import {
  type Bar,
  type Lane,
  laneNames,
  laneWords,
  operationsIn,
  tickLabel,
  tickStep,
} from "@/views/timeline/spans";
import { blockName, isUnseen, type StepBlock } from "@/views/timeline/step_blocks";
import type { Surface } from "@/widgets/canvas";

export interface Scene {
  readonly lanes: readonly Lane[];
  /** Expected nodes of the running step, in the first lane. */
  readonly expected: Lane | undefined;
  /** Whether more ran in this time than is drawn. */
  readonly thinned: boolean;
  readonly blocks: readonly StepBlock[];
  /** Whether there are too many steps to show executions: each is drawn as its parts of time. */
  readonly stacked: boolean;
  /** The step that the page shows. */
  readonly step: number;
  readonly after: boolean;
  readonly window: readonly [number, number];
  readonly origin: Origin;
  readonly moment: number;
  readonly hovered: Bar | undefined;
  readonly current: number;
  readonly holds: readonly Hold[];
  readonly path: PathMarks | undefined;
  readonly memory: MemoryCurve | undefined;
}

export interface Placed {
  readonly width: number;
  readonly time: (x: number) => number;
  /** The area of steps: the full height below if they are stacked. */
  readonly steps: { readonly y: number; readonly height: number };
  /** The area of memory, if it is shown. */
  readonly memory: { readonly y: number; readonly height: number } | undefined;
  readonly rows: readonly {
    readonly y: number;
    readonly height: number;
    readonly bars: readonly Bar[];
  }[];
}

/** The label of the moment, in px. */
interface Chip {
  readonly at: number;
  readonly text: string;
  readonly left: number;
  readonly right: number;
}

/** Whether an axis label would touch the moment's, which takes precedence. */
function meets(chip: Chip | undefined, left: number, right: number): boolean {
  return chip !== undefined && left < chip.right + 6 && right > chip.left - 6;
}

export const LEFT = 76;
const RIGHT = 10;
const AXIS = 20;
const BAND_H = 13;
const PHASE_H = 15;
const BAR_H = 13;
const GAP = 2;
/** A cut label of at most this many characters is not drawn. */
const FEWEST_LETTERS = 3;
const LANE_GAP = 9;
const SANS = { face: "sans", weight: 400, size: 10 } as const;
const MONO = { face: "mono", weight: 400, size: 10 } as const;
const STRONG = { face: "sans", weight: 600, size: 10.5 } as const;

export function drawTimeline(surface: Surface, scene: Scene): Placed {
  const { g, width, height, colour } = surface;
  const [t0, t1] = scene.window;
  const room = Math.max(1, width - LEFT - RIGHT);
  const x = (t: number): number => LEFT + ((t - t0) / (t1 - t0 || 1)) * room;
  const sans = colour("--sans");
  // A single lane in a high dock need not be thin.
  const needed = scene.lanes.reduce(
    (sum, lane) => sum + PHASE_H + GAP + (lane.levels.length - 1) * (BAR_H + GAP) + LANE_GAP,
    AXIS + 2,
  );
  const band = scene.blocks.length > 0 ? BAND_H + 4 : 0;
  const above = band + (scene.memory === undefined ? 0 : MEMORY_H + LANE_GAP);
  const stretch = Math.min(1.5, Math.max(1, (height - AXIS - above) / needed));
  const mono = colour("--mono");
  drawAxis();
  g.save();
  g.beginPath();
  g.rect(LEFT, 0, width - LEFT, height);
  g.clip();
  const rows: { y: number; height: number; bars: readonly Bar[] }[] = [];
  const tops: { lane: Lane; y: number }[] = [];
  const raised: (readonly [left: number, width: number, top: number, height: number])[] = [];
  let y = AXIS + 2;
  if (scene.stacked) {
    drawStacks(surface, scene, { x, left: LEFT, top: y, height: height - y - 6 });
  } else if (band > 0) {
    drawBand(surface, scene, { x, left: LEFT, top: y, height: BAND_H });
    y += band;
  }
  const memory = scene.stacked || scene.memory === undefined ? undefined : { y, height: MEMORY_H };
  if (memory !== undefined && scene.memory !== undefined) {
    drawMemory(surface, scene.memory, { x, left: LEFT, top: y, height: MEMORY_H });
    y += MEMORY_H + LANE_GAP;
  }
  const leftOut = scene.stacked ? [] : scene.blocks.filter(isUnseen);
  for (const block of leftOut) hatch(block);
  for (const lane of scene.stacked ? [] : scene.lanes) {
    tops.push({ lane, y });
    lane.levels.forEach((bars, level) => {
      const high = Math.round((level === 0 ? PHASE_H : BAR_H) * stretch);
      rows.push({ y, height: high, bars });
      drawBars(bars, y, high, level === 0, level === lane.levels.length - 1);
      if (scene.expected !== undefined && samePlace(lane, scene.expected)) {
        drawExpected(scene.expected.levels[level] ?? [], y, high);
      }
      y += high + GAP;
    });
    y += LANE_GAP;
  }
  for (const block of leftOut) nameLeftOut(block);
  if (scene.path !== undefined) drawPath(surface, rows, scene.path, { x, left: LEFT });
  drawHolds();
  drawMoment();
  drawRaised();
  g.restore();
  drawLabels();
  const steps = scene.stacked ? { y: AXIS, height } : { y: AXIS, height: band };
  return { width: room, time: (at) => t0 + ((at - LEFT) / room) * (t1 - t0), steps, memory, rows };

  function drawAxis(): void {
    const tickNs = tickStep(((t1 - t0) / room) * 92);
    const zero = scene.origin.at;
    const chip = momentChip();
    g.font = `10px ${mono}`;
    g.textAlign = "center";
    for (let k = Math.ceil((t0 - zero) / tickNs); zero + k * tickNs <= t1; k++) {
      const at = Math.round(x(zero + k * tickNs)) + 0.5;
      if (at < LEFT) continue;
      g.strokeStyle = colour("--line");
      g.beginPath();
      g.moveTo(at, AXIS);
      g.lineTo(at, height);
      g.stroke();
      const text = k === 0 ? "0" : tickLabel(k * tickNs, tickNs);
      const half = textWidth(text, MONO) / 2;
      if (at - half < LEFT || at + half > width || meets(chip, at - half, at + half)) continue;
      g.fillStyle = colour("--text-3");
      g.fillText(text, at, 13);
    }
    g.textAlign = "left";
  }

  /** A step without recorded data, below the names of steps and behind the bars. */
  function hatch(block: StepBlock): void {
    const left = Math.max(LEFT, x(block.start));
    const right = Math.min(width, x(block.end));
    if (right - left < 2) return;
    g.save();
    g.beginPath();
    g.rect(left, AXIS + 2 + band, right - left, height);
    g.clip();
    g.strokeStyle = colour("--line");
    g.beginPath();
    for (let at = left - height; at < right; at += 8) {
      g.moveTo(at, height);
      g.lineTo(at + height, 0);
    }
    g.stroke();
    g.restore();
  }

  function nameLeftOut(block: StepBlock): void {
    const left = Math.max(LEFT, x(block.start));
    const room = Math.min(width, x(block.end)) - left - 8;
    if (room < 24 || y + 14 > height) return;
    g.font = `10px ${sans}`;
    g.fillStyle = colour("--text-3");
    const text = truncate(`${blockName(block)} was not observed`, SANS, room);
    if (text !== "") g.fillText(text, left + 4, y + 10);
  }

  function fill(bar: Bar, phase: boolean, leaf: boolean): string {
    if (bar.host !== undefined) return colour(HOST_COLOURS[bar.host.kind]);
    if (bar.between !== undefined) return colour("--host-between");
    if (leaf && bar.node > 0 && bar.node === scene.current && bar.end >= scene.moment - 1) {
      return colour("--now");
    }
    if (phase) return phaseColour(bar);
    const base = leaf ? familyColour(bar.family) : phaseColour(bar);
    return mix(base, leaf ? 0.62 : 0.44);
  }

  function phaseColour(bar: Bar): string {
    return colour(bar.phase === "other" ? "--text-off" : `--ph-${bar.phase}`);
  }

  function familyColour(family: string): string {
    return colour(`--op-${family}`) || colour("--text-off");
  }

  function mix(base: string, share: number): string {
    return `color-mix(in srgb, ${base} ${Math.round(share * 100)}%, ${colour("--bg-panel")})`;
  }

  /** Whether a path is shown and the bar is not on it. */
  function isAside(bar: Bar): boolean {
    return scene.path !== undefined && scene.path.place(bar.node, bar.start) === undefined;
  }

  function drawBars(
    bars: readonly Bar[],
    top: number,
    high: number,
    phase: boolean,
    leaf: boolean,
  ): void {
    const font = phase ? STRONG : SANS;
    g.font = `${font.weight} ${font.size}px ${sans}`;
    let lastRight = Number.NEGATIVE_INFINITY;
    const fills = new Map<string, string>();
    for (const bar of bars) {
      const left = Math.max(LEFT, x(bar.start));
      const right = Math.min(width, x(bar.end));
      if (right < LEFT || left > width) continue;
      // Bars below a pixel are drawn once per pixel, not once each.
      if (right - left < 1 && right - lastRight < 0.7 && bar.failed !== true) continue;
      const w = Math.max(1, right - left - (right - left > 3 ? 1 : 0));
      lastRight = right;
      const host = bar.host !== undefined || bar.between !== undefined;
      const key = `${bar.phase} ${bar.family} ${bar.host?.kind ?? bar.between === ""} ${host}`;
      let style = fills.get(key);
      if (style === undefined || bar.node === scene.current) {
        style = fill(bar, phase, leaf);
        fills.set(key, style);
      }
      g.globalAlpha = scene.hovered === undefined || scene.hovered === bar ? 1 : 0.75;
      if (leaf && isAside(bar)) g.globalAlpha *= ASIDE;
      g.fillStyle = style;
      g.fillRect(left, top, w, high);
      g.globalAlpha = 1;
      if (bar.failed === true) raised.push([left, w, top, high]);
      // A few letters of a sentence are meaningless.
      const text = w > (host ? 56 : 22) ? legible(barLabel(bar), host ? SANS : font, w - 10) : "";
      if (text !== "") {
        g.font = host ? `10px ${sans}` : `${font.weight} ${font.size}px ${sans}`;
        g.fillStyle = colour(
          style === colour("--now")
            ? "--on-now"
            : host
              ? "--text-2"
              : phase
                ? "--on-phase"
                : "--text",
        );
        g.fillText(text, left + 5, top + high / 2 + 3.5);
      }
    }
  }

  /** Nodes that have not run yet, at their times in the previous step, dashed. */
  function drawExpected(bars: readonly Bar[], top: number, high: number): void {
    g.strokeStyle = colour("--line-strong");
    g.setLineDash([3, 3]);
    g.font = `10px ${sans}`;
    for (const bar of bars) {
      const left = x(bar.start);
      const w = x(bar.end) - left - 1;
      if (w < 3 || left > width) continue;
      g.strokeRect(left + 0.5, top + 0.5, w - 1, high - 1);
      const text = legible(
        bar.label.replace(/, (after )?step [\d,]+$/, ", expected"),
        SANS,
        w - 10,
      );
      g.fillStyle = colour("--text-3");
      if (text !== "") g.fillText(text, left + 5, top + high / 2 + 3.5);
    }
    g.setLineDash([]);
  }

  /** Where the debugger held the program: a line with two bars at its head, without length. */
  function drawHolds(): void {
    let last = Number.NEGATIVE_INFINITY;
    for (const hold of scene.holds) {
      const at = Math.round(x(hold.at));
      if (at < LEFT || at > width || at - last < 5) continue;
      last = at;
      g.fillStyle = colour("--line-strong");
      g.fillRect(at - 0.5, AXIS, 1, height);
      g.fillStyle = colour("--text-3");
      g.fillRect(at - 3, AXIS - 4, 2, 6);
      g.fillRect(at + 1, AXIS - 4, 2, 6);
    }
  }

  /** The moment's own label, shifted inwards at an edge; undefined if it is not visible. */
  function momentChip(): Chip | undefined {
    const at = x(scene.moment);
    const empty = scene.lanes.length === 0 && scene.blocks.length === 0;
    if (at < LEFT - 1 || at > width + 1 || empty) return undefined;
    const text = formatDuration(scene.moment - scene.origin.at);
    const w = textWidth(text, { ...MONO, weight: 600 }) + 10;
    const left = Math.min(Math.max(LEFT, at - w / 2), width - w - 1);
    return { at, text, left, right: left + w };
  }

  /** Nodes that raised: a red frame, and a cross on red that is visible on narrow bars. */
  function drawRaised(): void {
    for (const [left, w, top, high] of raised) {
      const [x0, y0] = [left + w / 2, top + high];
      g.strokeStyle = colour("--break");
      g.lineWidth = 1.5;
      g.strokeRect(left + 0.5, top + 0.5, Math.max(1, w - 1), high - 1);
      g.fillStyle = colour("--break");
      g.beginPath();
      g.arc(x0, y0, 5.5, 0, 2 * Math.PI);
      g.fill();
      g.strokeStyle = colour("--bg-panel");
      g.beginPath();
      g.moveTo(x0 - 2.3, y0 - 2.3);
      g.lineTo(x0 + 2.3, y0 + 2.3);
      g.moveTo(x0 - 2.3, y0 + 2.3);
      g.lineTo(x0 + 2.3, y0 - 2.3);
      g.stroke();
      g.lineWidth = 1;
    }
  }

  function drawMoment(): void {
    const chip = momentChip();
    if (chip === undefined) return;
    const { at, text, left, right } = chip;
    g.fillStyle = colour("--now");
    g.fillRect(at - 0.75, AXIS - 3, 1.5, height);
    g.beginPath();
    g.roundRect(left, 3, right - left, 15, 3);
    g.fill();
    g.fillStyle = colour("--on-now");
    g.font = `600 10px ${mono}`;
    g.fillText(text, left + 5, 14);
  }

  function drawLabels(): void {
    if (scene.blocks.length > 0 || scene.lanes.length > 0) {
      g.fillStyle = colour("--text-3");
      g.font = `10px ${sans}`;
      const words = originWords(scene.origin).find((text) => textWidth(text, SANS) < LEFT - 14);
      if (words !== undefined) g.fillText(words, 12, 13);
    }
    if (scene.blocks.length > 0) {
      g.fillStyle = colour("--text-3");
      g.font = `10px ${sans}`;
      g.fillText("steps", 12, AXIS + 12);
    }
    if (memory !== undefined) {
      g.fillStyle = colour("--text");
      g.font = `500 11px ${sans}`;
      g.fillText("memory", 12, memory.y + 12);
      g.fillStyle = colour("--line");
      g.fillRect(0, memory.y + memory.height + 3, width, 1);
    }
    const names = laneNames(tops.map(({ lane }) => lane));
    tops.forEach(({ lane, y: top }, i) => {
      g.fillStyle = colour("--text");
      g.font = `500 11px ${sans}`;
      const name = names[i] ?? "";
      g.fillText(truncate(name, { face: "sans", weight: 500, size: 11 }, LEFT - 16), 12, top + 12);
      if (lane.levels.length > 1) {
        g.fillStyle = colour("--text-3");
        g.font = `10px ${mono}`;
        const ops = laneWords(operationsIn(lane, scene.window), scene.thinned);
        g.fillText(truncate(ops, MONO, LEFT - 16), 12, top + 26);
      }
      if (i > 0) {
        g.fillStyle = colour("--line");
        g.fillRect(0, top - 6, width, 1);
      }
    });
  }
}

/** A text cut to fit, or nothing if too few of its letters would remain. */
export function legible(text: string, font: Font, room: number): string {
  const cut = truncate(text, font, room);
  return cut === text || cut.length > FEWEST_LETTERS ? cut : "";
}

/** The text on a bar. */
export function barLabel(bar: Bar): string {
  if (bar.host !== undefined) {
    return `${hostTitle(bar.host)} · ${formatDuration(bar.end - bar.start)}`;
  }
  if (bar.between !== undefined) {
    const where = bar.between === "" ? "" : `${bar.between} · `;
    return `between operations · ${where}${formatDuration(bar.end - bar.start)}`;
  }
  return printable(bar.label);
}

/** The holds at a point, as one with their total length. */
export function hitHold(placed: Placed, holds: readonly Hold[], px: number): Hold | undefined {
  const [low, high] = [placed.time(px - 4), placed.time(px + 4)];
  const visible = holds.filter((hold) => hold.at >= low && hold.at <= high);
  const first = visible[0];
  return first && { at: first.at, trueNs: visible.reduce((sum, hold) => sum + hold.trueNs, 0) };
}

/** The memory needed at a point of the memory lane. */
export function hitMemory(
  placed: Placed,
  curve: MemoryCurve | undefined,
  px: number,
  py: number,
): CurvePoint | undefined {
  const { memory } = placed;
  if (curve === undefined || memory === undefined || px < LEFT) return undefined;
  if (py < memory.y || py >= memory.y + memory.height) return undefined;
  return pointAt(curve, placed.time(px));
}

/** The step at a point of the band, or of the stacks. */
export function hitStep(
  placed: Placed,
  blocks: readonly StepBlock[],
  px: number,
  py: number,
): StepBlock | undefined {
  if (px < LEFT || py < placed.steps.y || py > placed.steps.y + placed.steps.height) {
    return undefined;
  }
  const t = placed.time(px);
  const slack = Math.abs(placed.time(px + 1) - t);
  return (
    blocks.find((block) => t >= block.start && t < block.end) ??
    blocks.find((block) => t >= block.start - slack && t < block.end + slack)
  );
}

export function hitBar(placed: Placed, px: number, py: number): Bar | undefined {
  const row = placed.rows.find(
    (candidate) => py >= candidate.y && py < candidate.y + candidate.height,
  );
  if (row === undefined || px < LEFT) return undefined;
  const t = placed.time(px);
  const slack = Math.abs(placed.time(px + 1.5) - t);
  return (
    row.bars.find((bar) => t >= bar.start && t <= bar.end) ??
    row.bars.find((bar) => t >= bar.start - slack && t <= bar.end + slack)
  );
}
