/**
 * What is kept of a run, in one line, and why the rest is not.
 *
 * Invariant: pure; says what the recording tells and no more.
 */

import { formatBytes, formatCount, plural } from "@/base/numbers";
import type { Item } from "@/store/url";
import type { Governed, Keeping } from "@/wire/types.gen";

/** What is kept, such as "Statistics everywhere, whole values of the last 2 steps". */
export function keptWords(keeping: Keeping, governed: Governed | undefined): string {
  if (keeping.everything) return "Every value kept";
  const lowered = (governed?.summaries ?? 0) > 0 || (governed?.executions ?? 0) > 0;
  if (keeping.newest_steps > 0 && keeping.level !== "values") {
    const most = lowered ? "Statistics of most values" : "Statistics everywhere";
    const newest =
      governed !== undefined && governed.steps > 0
        ? `whole values of the last ${keeping.newest_steps} steps`
        : "the newest values whole";
    return `${most}, ${newest}`;
  }
  switch (keeping.level) {
    case "values":
      return (governed?.arrays ?? 0) > 0 ? "Whole values of some nodes" : "Every value kept";
    case "summary":
      return lowered ? "Statistics of most values" : "Statistics everywhere";
    case "timing":
      return "Times only";
    default:
      return "Structure only";
  }
}

/** The nodes among items, as a `Keeping` names them: in order, each once. */
export function lookedAt(items: readonly (Item | undefined)[]): readonly number[] {
  const nodes = items.flatMap((item) => (item?.kind === "node" ? [item.id] : []));
  return [...new Set(nodes)].sort((a, b) => a - b);
}

/** How many steps are observed, and what watching costs; "" where neither is known. */
export function costWords(governed: Governed | undefined): string {
  if (governed === undefined) return "";
  const observed = governed.steps - governed.steps_left_out;
  return [
    governed.steps_left_out > 0
      ? `${formatCount(observed)} of ${formatCount(governed.steps)} steps observed`
      : "",
    governed.slowdown >= 1.005 ? `about ${times(governed.slowdown)} slower` : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

/** Why something is not there, a line for each reason. */
export function reasonWords(keeping: Keeping, governed: Governed | undefined): string[] {
  const budget = formatBytes(keeping.budget_bytes);
  const found: (readonly [number, string])[] = [
    [
      governed?.steps_left_out ?? 0,
      `training steps ran unobserved, to stay below ${times(governed?.limit ?? 1)}`,
    ],
    [
      governed?.summaries ?? 0,
      `outputs without statistics, to stay below ${times(governed?.limit ?? 1)}`,
    ],
    [
      governed?.executions ?? 0,
      `executions counted only, to stay below ${times(governed?.limit ?? 1)}`,
    ],
    [keeping.over_budget, `values made room for newer ones in the budget of ${budget}`],
    [keeping.behind, "values dropped for newer ones: the recorder fell behind"],
    [keeping.too_large, "values too large to be kept"],
    [
      keeping.made_room,
      `values of the newest steps beyond ${formatBytes(keeping.newest_bytes)} held in memory`,
    ],
  ];
  const lines = found.filter(([count]) => count > 0);
  const because = governed !== undefined && governed.slowdown > governed.limit && governed.because;
  return [
    ...lines.map(([count, what]) => `${formatCount(count)} ${what}`),
    ...(because ? [`Over the limit of ${times(governed.limit)}: ${because}`] : []),
  ];
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
    ways.push({ what: "A larger budget", command: run(`--level values --budget ${more}M`) });
  }
  return ways;
}

/** What was lost though it was to be kept; "" if nothing was. */
export function lossWords(keeping: Keeping | undefined, lost: Losses): string[] {
  return [
    keeping !== undefined && keeping.behind > 0
      ? `${plural(keeping.behind, "value")} dropped for newer ones: the recorder fell behind. ` +
        "Their statistics are kept."
      : "",
    keeping === undefined && lost.blobs > 0
      ? `${plural(lost.blobs, "value")} not kept: the byte budget was used up, or the recorder ` +
        "was behind. Their statistics are kept."
      : "",
    lost.summaries > 0
      ? `${plural(lost.summaries, "output")} without statistics: the recorder fell behind.`
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

/** An argument as a shell takes it. */
function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}
