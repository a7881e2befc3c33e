/**
 * Draws the timeline on a canvas, and finds the bar under a point.
 *
 * Invariant: text is written only where it fits, with the fonts' own widths.
 */

import { textWidth, truncate } from "@/base/fonts_metrics";
import { formatDuration } from "@/base/numbers";
import type { Pause } from "@/views/timeline/pauses";
import { type Bar, type Lane, laneWords, tickStep } from "@/views/timeline/spans";
import type { StepRow } from "@/wire/types.gen";
import type { Surface } from "@/widgets/canvas";

export interface Scene {
  readonly lanes: readonly Lane[];
  /** More ran in this time than is drawn. */
  readonly thinned: boolean;
  readonly window: readonly [number, number];
  /** Time that the axis calls 0: the start of the step shown. */
  readonly zero: number;
  readonly moment: number;
  readonly now: StepRow | undefined;
  readonly before: StepRow | undefined;
  readonly hovered: Bar | undefined;
  readonly current: number;
  readonly pauses: readonly Pause[];
}

export interface Placed {
  readonly width: number;
  readonly time: (x: number) => number;
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

/** Whether a label of the axis would touch the moment's, which has the right of way. */
function meets(chip: Chip | undefined, left: number, right: number): boolean {
  return chip !== undefined && left < chip.right + 6 && right > chip.left - 6;
}

const LEFT = 76;
const RIGHT = 10;
const AXIS = 20;
const PHASE_H = 15;
const BAR_H = 13;
const GAP = 2;
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
  const stretch = Math.min(1.5, Math.max(1, (height - AXIS) / needed));
  const mono = colour("--mono");
  drawAxis();
  g.save();
  g.beginPath();
  g.rect(LEFT, 0, width - LEFT, height);
  g.clip();
  const rows: { y: number; height: number; bars: readonly Bar[] }[] = [];
  const tops: { lane: Lane; y: number }[] = [];
  let y = AXIS + 2;
  for (const lane of scene.lanes) {
    tops.push({ lane, y });
    lane.levels.forEach((bars, level) => {
      const high = Math.round((level === 0 ? PHASE_H : BAR_H) * stretch);
      rows.push({ y, height: high, bars });
      drawBars(bars, y, high, level === 0, level === lane.levels.length - 1);
      if (lane === scene.lanes[0]) drawExpected(bars, y, high);
      y += high + GAP;
    });
    y += LANE_GAP;
  }
  drawLeftOut(scene.before);
  drawLeftOut(scene.now);
  drawPauses();
  drawMoment();
  g.restore();
  drawLabels();
  return { width: room, time: (at) => t0 + ((at - LEFT) / room) * (t1 - t0), rows };

  function drawAxis(): void {
    const every = tickStep(((t1 - t0) / room) * 92);
    const chip = momentChip();
    g.font = `10px ${mono}`;
    g.textAlign = "center";
    for (let k = Math.ceil((t0 - scene.zero) / every); scene.zero + k * every <= t1; k++) {
      const at = Math.round(x(scene.zero + k * every)) + 0.5;
      if (at < LEFT) continue;
      g.strokeStyle = colour("--line");
      g.beginPath();
      g.moveTo(at, AXIS);
      g.lineTo(at, height);
      g.stroke();
      const text = k === 0 ? "0" : formatDuration(k * every);
      const half = textWidth(text, MONO) / 2;
      if (at - half < LEFT || at + half > width || meets(chip, at - half, at + half)) continue;
      g.fillStyle = colour("--text-3");
      g.fillText(text, at, 13);
    }
    g.textAlign = "left";
  }

  /** A step of which nothing was recorded, hatched. */
  function drawLeftOut(step: StepRow | undefined): void {
    if (step === undefined || step.observed) return;
    const left = Math.max(LEFT, x(step.start_ns));
    const right = Math.min(width, x(step.end_ns ?? scene.moment));
    if (right - left < 2) return;
    g.save();
    g.beginPath();
    g.rect(left, AXIS, right - left, height - AXIS);
    g.clip();
    g.strokeStyle = colour("--line");
    g.beginPath();
    for (let at = left - height; at < right; at += 8) {
      g.moveTo(at, height);
      g.lineTo(at + height, 0);
    }
    g.stroke();
    g.font = `10px ${sans}`;
    g.fillStyle = colour("--text-3");
    const text = truncate(`step ${step.step} was left out`, SANS, right - left - 8);
    if (text !== "") g.fillText(text, left + 4, AXIS + 13);
    g.restore();
  }

  function fill(bar: Bar, phase: boolean, leaf: boolean): string {
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
      if (right - left < 1 && right - lastRight < 0.7) continue;
      const w = Math.max(1, right - left - (right - left > 3 ? 1 : 0));
      lastRight = right;
      const key = `${bar.phase} ${bar.family} ${bar.node === scene.current}`;
      let style = fills.get(key);
      if (style === undefined || bar.node === scene.current) {
        style = fill(bar, phase, leaf);
        fills.set(key, style);
      }
      g.globalAlpha = scene.hovered === undefined || scene.hovered === bar ? 1 : 0.75;
      g.fillStyle = style;
      g.fillRect(left, top, w, high);
      g.globalAlpha = 1;
      const text = w > 22 ? truncate(bar.label, font, w - 10) : "";
      if (text !== "") {
        g.fillStyle = phase ? colour("--on-phase") : colour("--text");
        g.fillText(text, left + 5, top + high / 2 + 3.5);
      }
    }
  }

  /** What has not run yet, as it went in the step before, dashed. */
  function drawExpected(bars: readonly Bar[], top: number, high: number): void {
    const { now, before } = scene;
    if (now === undefined || before === undefined || now.end_ns !== null) return;
    const shift = now.start_ns - before.start_ns;
    g.strokeStyle = colour("--line-strong");
    g.setLineDash([3, 3]);
    g.font = `10px ${sans}`;
    for (const bar of bars) {
      if (bar.step !== before.step) continue;
      const start = Math.max(bar.start + shift, scene.moment);
      const left = x(start);
      const w = x(bar.end + shift) - left - 1;
      if (w < 3 || left > width) continue;
      g.strokeRect(left + 0.5, top + 0.5, w - 1, high - 1);
      const text = truncate(bar.label.replace(/, step \d+$/, ", expected"), SANS, w - 10);
      g.fillStyle = colour("--text-3");
      if (w > 40) g.fillText(text, left + 5, top + high / 2 + 3.5);
    }
    g.setLineDash([]);
  }

  /** A strip for each shortened pause, with its true length where there is room. */
  function drawPauses(): void {
    g.font = `10px ${sans}`;
    for (const pause of scene.pauses) {
      const left = x(pause.at);
      const w = x(pause.at + pause.drawn) - left;
      if (left + w < LEFT || left > width || w < 1) continue;
      g.fillStyle = colour("--bg-well");
      g.fillRect(left, AXIS, w, height);
      const text = `paused ${formatDuration(pause.trueNs)}`;
      if (w < 16) continue;
      g.save();
      g.translate(left + w / 2 + 3.5, Math.min(height - 4, AXIS + 90));
      g.rotate(-Math.PI / 2);
      g.fillStyle = colour("--text-3");
      g.fillText(truncate(text, SANS, Math.min(86, height - AXIS - 8)), 0, 0);
      g.restore();
    }
  }

  /** The moment's own label, moved inwards at an edge; undefined where it is not in sight. */
  function momentChip(): Chip | undefined {
    const at = x(scene.moment);
    if (at < LEFT - 1 || at > width + 1 || scene.lanes.length === 0) return undefined;
    const text = formatDuration(scene.moment - scene.zero);
    const w = textWidth(text, { ...MONO, weight: 600 }) + 10;
    const left = Math.min(Math.max(LEFT, at - w / 2), width - w - 1);
    return { at, text, left, right: left + w };
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
    tops.forEach(({ lane, y: top }, i) => {
      g.fillStyle = colour("--text");
      g.font = `500 11px ${sans}`;
      const name = i === 0 ? "main" : `thread ${i + 1}`;
      g.fillText(truncate(name, { face: "sans", weight: 500, size: 11 }, LEFT - 16), 12, top + 12);
      if (lane.levels.length > 1) {
        g.fillStyle = colour("--text-3");
        g.font = `10px ${mono}`;
        const ops = lane.levels.at(-1)?.length ?? 0;
        g.fillText(truncate(laneWords(ops, scene.thinned), MONO, LEFT - 16), 12, top + 26);
      }
      if (i > 0) {
        g.fillStyle = colour("--line");
        g.fillRect(0, top - 6, width, 1);
      }
    });
  }
}

export function hitBar(placed: Placed, px: number, py: number): Bar | undefined {
  const row = placed.rows.find((each) => py >= each.y && py < each.y + each.height);
  if (row === undefined || px < LEFT) return undefined;
  const t = placed.time(px);
  const slack = Math.abs(placed.time(px + 1.5) - t);
  return (
    row.bars.find((bar) => t >= bar.start && t <= bar.end) ??
    row.bars.find((bar) => t >= bar.start - slack && t <= bar.end + slack)
  );
}
