/**
 * A one-line description of what is kept of a run, and the reasons for the rest.
 *
 * Invariant: pure; based on the recording alone.
 */

import { formatBytes, formatCount, formatNumber, listed, plural } from "@/base/numbers";
import { quoted } from "@/base/printable";
import type { Item } from "@/store/page/url";
import type { Governed, Keeping, Unwritten } from "@/wire/types.gen";

/** Below this, in seconds, a factor is meaningless. */
const LITTLE_S = 0.25;

/**
 * What is kept: "Statistics of every observed value, whole values of the last 2 observed steps".
 *
 * Args:
 *   trouble: What is wrong with the recording, or "". If the recording cannot be written to,
 *     `keeping` does not count what has been lost since.
 *   steps: How many steps have begun; the governor reports only now and then.
 */
export function keptWords(
  keeping: Keeping,
  governed: Governed | undefined,
  trouble = "",
  steps = 0,
): string {
  const partial = trouble !== "" && keeping.unwritten === null;
  if (keeping.everything) return wholeWords(keeping, partial);
  const statistics = `Statistics of ${partial ? "the values recorded" : withStatistics(governed)}`;
  if (keeping.newest_steps > 0 && keeping.level !== "values") {
    const newest =
      Math.max(steps, governed?.steps ?? 0) > 0
        ? `whole values of the last ${keeping.newest_steps} observed steps`
        : "the newest values whole";
    return `${statistics}, ${newest}${asFar(keeping)}${firstNonfinite(keeping)}`;
  }
  switch (keeping.level) {
    case "values":
      if ((governed?.arrays ?? 0) > 0) return "Whole values of some executions";
      return wholeWords(keeping, partial);
    case "summary":
      return statistics;
    case "timing":
      return "Times only";
    default:
      return "Structure only";
  }
}

/** What is kept if no operation was observed. */
export function nothingWords(live: boolean): string {
  return live ? "Nothing yet: no operation was observed" : "Nothing: no operation was observed";
}

/** Which values have statistics: "187 of 2,282 observed values". */
function withStatistics(governed: Governed | undefined): string {
  if (governed === undefined || governed.summaries === 0) return "every observed value";
  const { summaries, values } = governed;
  if (values === 0) return `the observed values except ${formatCount(summaries)}`;
  return `${formatCount(values - summaries)} of ${formatCount(values)} observed values`;
}

/** What is kept if every value was to be kept whole. */
function wholeWords(keeping: Keeping, partial: boolean): string {
  if (partial) return "Not every value kept";
  const { over_budget, behind, too_large, unwritten } = keeping;
  const missing = over_budget + behind + too_large + (unwritten?.arrays ?? 0);
  return missing === 0 ? "Every value kept" : `Every value but ${formatCount(missing)} kept`;
}

/** The limit on the memory for the newest steps, if values had to make room; else "". */
function asFar(keeping: Keeping): string {
  if (keeping.made_room === 0) return "";
  return ` as far as ${formatBytes(keeping.newest_bytes)} hold them`;
}

/** The steps of the first NaN and Inf, which are kept whole as well; else "". */
function firstNonfinite(keeping: Keeping): string {
  const steps = keeping.nonfinite_steps.filter((step) => step > 0).map(formatCount);
  const where = `step${steps.length === 1 ? "" : "s"} ${listed(steps)}`;
  const inside = steps.length > 0 ? ` and of ${where}, where NaN or Inf first appeared` : "";
  const outside = steps.length < keeping.nonfinite_steps.length;
  return inside + (outside ? " and around the first NaN or Inf outside of steps" : "");
}

/** The nodes among items as a `Keeping` lists them: sorted, without duplicates. */
export function lookedAt(items: readonly (Item | undefined)[]): readonly number[] {
  const nodes = items.flatMap((item) => (item?.kind === "node" ? [item.id] : []));
  return [...new Set(nodes)].sort((a, b) => a - b);
}

/** How many steps are observed, and the cost of observing; "" if neither is known. */
export function costWords(governed: Governed | undefined): string {
  if (governed === undefined) return "";
  const observed = governed.steps - governed.steps_left_out;
  return [
    governed.steps_left_out > 0
      ? `${formatCount(observed)} of ${formatCount(governed.steps)} steps observed`
      : "",
    slowerWords(governed),
  ]
    .filter(Boolean)
    .join(" · ");
}

/** How much longer the run takes, as a factor; for short times, in seconds. */
function slowerWords(governed: Governed): string {
  if (governed.slowdown < 1.005) return "";
  const seconds = governed.extra_s;
  if (seconds >= LITTLE_S) return `about ${times(governed.slowdown)} slower`;
  return seconds >= 0.05 ? `about ${formatNumber(seconds, 1)} s overhead` : "";
}

/** Why steps run unobserved: "to stay below 2×". */
export function leftOutWords(governed: Governed | undefined): string {
  return governed === undefined ? "to keep the limit" : `to stay below ${times(governed.limit)}`;
}

/**
 * Why something is missing, one line per reason.
 *
 * Args:
 *   over: Whether the run has ended. The governor's last reason applied to a moment of the run, not
 *     to the whole, and is left out then.
 */
export function reasonWords(
  keeping: Keeping,
  governed: Governed | undefined,
  over: boolean,
): string[] {
  const budget = formatBytes(keeping.budget_bytes);
  const why = leftOutWords(governed);
  const counts: (readonly [number, string])[] = [
    [governed?.steps_left_out ?? 0, `training steps ran unobserved, ${why}`],
    [governed?.calls_left_out ?? 0, `calls outside of steps ran unobserved, ${why}`],
    [governed?.summaries ?? 0, `values without statistics, ${why}`],
    [governed?.executions ?? 0, `executions counted only, ${why}`],
    [keeping.over_budget, `values made room for newer ones in the budget of ${budget}`],
    [keeping.behind, "values dropped for newer ones: the recorder fell behind"],
    [keeping.too_large, "values too large to be kept"],
    [
      keeping.made_room,
      `values of the newest steps beyond ${formatBytes(keeping.newest_bytes)} held in memory`,
    ],
  ];
  const lines = counts.filter(([count]) => count > 0);
  const unwritten = unwrittenWords(keeping.unwritten);
  const beyond = governed !== undefined && governed.slowdown > governed.limit;
  const because = beyond && !over && governed.because;
  return [
    ...(unwritten ? [unwritten] : []),
    ...lines.map(([count, noun]) => `${formatCount(count)} ${noun}`),
    ...(because ? [`Over the limit of ${times(governed.limit)}: ${because}`] : []),
  ];
}

/** What could not be written to the disk, and why; "" if nothing. */
function unwrittenWords(unwritten: Unwritten | null): string {
  if (unwritten === null) return "";
  const { structure, executions, summaries, arrays } = unwritten;
  const counts = [
    structure > 0 ? plural(structure, "graph definition") : "",
    executions > 0 ? plural(executions, "execution") : "",
    summaries > 0 ? plural(summaries, "statistic") : "",
    arrays > 0 ? plural(arrays, "array") : "",
  ].filter(Boolean);
  const last = formatCount(unwritten.last_step);
  const first = formatCount(Math.max(unwritten.first_step, 1));
  const steps =
    unwritten.last_step === 0
      ? ""
      : first === last
        ? ` of step ${last}`
        : ` of steps ${first} to ${last}`;
  const why = unwritten.cause === "full" ? "The disk was full" : "The disk was too slow at the end";
  return `${why}: ${counts.join(", ")}${steps} could not be recorded`;
}

export interface WayToMore {
  readonly what: string;
  readonly command: string;
}

/** Command lines for the next run, with the arguments of this one. */
export function waysToMore(keeping: Keeping, argv: readonly string[]): readonly WayToMore[] {
  const script = argv.map(quoted).join(" ") || "train.py";
  const run = (options: string): string => `nodescope run ${options} ${script}`;
  const ways: WayToMore[] = [];
  if (keeping.level !== "values" || keeping.limit !== null) {
    ways.push({ what: "Every value", command: run("--level values") });
  }
  if (keeping.limit !== null) {
    const more = Math.max(4, 2 * keeping.limit);
    ways.push({ what: `Up to ${times(more)} slower`, command: run(`--max-slowdown ${more}`) });
  }
  if (keeping.level !== "values") {
    ways.push({ what: "Values of one scope", command: run("--select 'scope:NAME=values'") });
  }
  if (keeping.over_budget > 0 || keeping.too_large > 0) {
    const more = Math.ceil((4 * keeping.budget_bytes) / 2 ** 20);
    // If only the newest values are whole, a larger budget alone keeps more of them.
    const newest = keeping.newest_steps > 0 && keeping.level !== "values";
    const level = newest ? "" : "--level values ";
    ways.push({ what: "A larger budget", command: run(`${level}--budget ${more}M`) });
  }
  return ways;
}

/** What was lost although it should have been kept, one sentence for each kind of loss. */
export function lossWords(keeping: Keeping | undefined, dropped: Losses): string[] {
  const unwritten = keeping?.unwritten ?? null;
  const words = unwrittenWords(unwritten);
  const lost = {
    blobs: dropped.blobs,
    summaries: dropped.summaries - (unwritten?.summaries ?? 0),
    executions: dropped.executions - (unwritten?.executions ?? 0),
  };
  return [
    words && `${words}.`,
    keeping !== undefined && keeping.behind > 0
      ? `${plural(keeping.behind, "value")} dropped for newer ones: the recorder fell behind. ` +
        "Their statistics are kept."
      : "",
    keeping === undefined && lost.blobs > 0
      ? `${plural(lost.blobs, "value")} not kept: the byte budget was used up, or the recorder ` +
        "was behind. Their statistics are kept."
      : "",
    lost.summaries > 0
      ? `${plural(lost.summaries, "value")} without statistics: the recorder fell behind.`
      : "",
    lost.executions > 0
      ? `${plural(lost.executions, "execution")} lost: the recorder fell behind.`
      : "",
  ].filter(Boolean);
}

interface Losses {
  readonly blobs: number;
  readonly summaries: number;
  readonly executions: number;
}

function times(factor: number): string {
  return `${Number(factor.toPrecision(factor >= 10 ? 2 : 3))}×`;
}
