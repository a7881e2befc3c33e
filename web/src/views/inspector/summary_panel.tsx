/**
 * Summary of a run that has ended: its outcome, its losses, its slowest parts, its problems, what
 * was kept, and what can be done with the recording.
 *
 * Invariant: every line that names a node or a moment leads there; numbers are the recording's.
 */

import { createSignal, For, type JSX, Show } from "solid-js";
import {
  formatBytes,
  formatCount,
  formatDuration,
  formatNumber,
  listed,
  plural,
} from "@/base/numbers";
import { printable, quoted } from "@/base/printable";
import { argumentsOf, outcomeTitle, outcomeTone } from "@/store/page/recordings_list";
import type { Store } from "@/store/page/store";
import type { Item } from "@/store/page/url";
import { offers } from "@/store/run/capabilities";
import { costWords, nothingWords, reasonWords, keptWords as whatIsKept } from "@/store/run/keeping";
import {
  NEVER_RAN,
  neverRan,
  observedWords,
  type Summing,
  sharesWords,
  timeWords,
  unsummed,
  withoutPlace,
} from "@/store/run/summary";
import { AdviceCard } from "@/widgets/advice";
import { Sparkline } from "@/widgets/charts";
import { Icon, IconButton } from "@/widgets/icon";
import type {
  Cost,
  Curve,
  KeptValues,
  RunSummary,
  RunTrouble,
  Share as StepShare,
} from "@/wire/types.gen";

export interface SummaryPanelProps {
  readonly store: Store;
  readonly summing: Summing;
  readonly theme: string;
  go(item: Item): void;
  /** Shows a node at a moment. */
  visit(node: number, seq: number): void;
}

export function SummaryPanel(props: SummaryPanelProps): JSX.Element {
  return (
    <Show
      when={props.summing.summary()}
      fallback={
        <div class="empty pad" data-testid="no-summary">
          <p>{unsummed(props.summing.problem(), props.store.link().kind)}</p>
          <Show when={props.store.link().kind === "ended" && props.store.model()?.info.recording}>
            {(path) => <CommandRow line={`nodescope open ${quoted(path())}`} does="opens it" />}
          </Show>
        </div>
      }
    >
      {(whole) => <Body {...props} whole={whole()} />}
    </Show>
  );
}

function Body(props: SummaryPanelProps & { readonly whole: RunSummary }): JSX.Element {
  const sum = () => props.whole.summary;
  const args = () => argumentsOf(props.whole.run);
  const unrun = () => neverRan(props.whole);
  const kept = (): readonly string[] => {
    const model = props.store.model();
    if (unrun()) return [NEVER_RAN];
    if (sum().operations === 0 && !model?.keeping?.unwritten) return [`${nothingWords(false)}.`];
    if (model?.keeping === undefined) return keptWords(sum().kept, props.whole.run.level);
    // What the program itself reported about the recording, with the reasons.
    const { trouble } = model.info;
    return [
      [whatIsKept(model.keeping, model.governed, trouble), costWords(model.governed)]
        .filter(Boolean)
        .join("; "),
      ...(model.keeping.unwritten === null ? [printable(trouble, 500)].filter(Boolean) : []),
      ...reasonWords(model.keeping, model.governed, true),
    ].map(sentence);
  };
  const hits = () => (props.store.session()?.watches ?? []).filter((watch) => watch.hits > 0);
  return (
    <div class="sum" data-testid="summary">
      <header class="sum-head">
        <div class="row sum-first">
          <span
            class={`lamp ${outcomeTone(sum().outcome, sum().broken_loss)}`}
            aria-hidden="true"
          />
          <h2 data-testid="summary-outcome">{unrun() ? "Graph" : outcomeTitle(sum())}</h2>
          <span class="sp" />
          <Show when={props.store.selection() !== undefined}>
            <IconButton
              small
              icon="close"
              label="Back to the selection"
              onClick={() => props.summing.show(false)}
            />
          </Show>
        </div>
        <p class="m t2 ell" title={printable(props.whole.run.argv.join(" "), 2000)}>
          {printable(props.whole.run.name, 80)} {printable(args(), 200)}
        </p>
      </header>
      <Show when={sum().error !== "" && sum().outcome !== "interrupted"}>
        <div class="sum-error">
          <b>{printable(withoutPlace(sum().error, sum().source), 500)}</b>
          <Show when={sum().source}>
            {(at) => (
              <span class="mi t2">
                {printable(at().file.split("/").at(-1) ?? "", 80)}:{at().line}
              </span>
            )}
          </Show>
        </div>
      </Show>
      <Show when={sum().outcome === "killed"}>
        <p class="sum-note">
          The program was killed or crashed. Everything recorded until then is here.
        </p>
      </Show>
      {/* If there is nothing to draw, the canvas shows the advice. */}
      <Show when={(props.store.model()?.graph.count ?? 0) > 0 ? sum().advice : null}>
        {(advice) => <AdviceCard advice={advice()} />}
      </Show>
      <dl class="sum-facts">
        <Show when={!unrun()}>
          <Fact title="Run time" value={formatDuration(sum().time.ran_ns)} />
          <Fact title="Steps" value={formatCount(sum().steps)} />
        </Show>
        <Fact title="Operations" value={formatCount(sum().nodes)} />
        <Show when={!unrun()}>
          <Fact title="Executions" value={formatCount(sum().operations)} />
        </Show>
      </dl>
      <Show when={!unrun()}>
        <p class="sum-note" data-testid="summary-time">
          {timeWords(sum())}
        </p>
      </Show>
      <Show
        when={sum().shares.length > 0}
        fallback={<Share within={sum().operations_ns} wall={sum().time.ran_ns} />}
      >
        <Shares shares={sum().shares} of={sharesWords(props.store.model()?.governed)} />
      </Show>
      <Show when={sum().curves.length > 0}>
        <section class="sec">
          <h3 class="h">
            <span class="lab">{sum().curves.length === 1 ? "Loss" : "Losses"}</span>
          </h3>
          <For each={sum().curves}>
            {(curve) => (
              <CurveRow curve={curve} theme={props.theme} visit={props.visit} go={props.go} />
            )}
          </For>
        </section>
      </Show>
      <section class="sec" hidden={unrun()}>
        <h3 class="h">
          <span class="lab">What went wrong first</span>
        </h3>
        <For
          each={sum().troubles}
          fallback={
            <p class="t3">
              {sum().outcome === "failed" ? "No operation raised; n" : "No error, n"}o unintended
              NaN or Inf in the recording.
            </p>
          }
        >
          {(trouble) => <TroubleRow trouble={trouble} visit={props.visit} />}
        </For>
        <For each={hits()}>
          {(watch) => (
            <div class="sum-row">
              <span class="wmark" aria-hidden="true" />
              <span class="ell sum-name">{printable(watch.text, 120)}</span>
              <span class="mi t2">{plural(watch.hits, "hit")}</span>
            </div>
          )}
        </For>
      </section>
      <Show when={offers(props.store, "timing") && sum().slow_scopes.length > 0}>
        <Slow
          title="Slowest scopes"
          of={observedWords(props.store.model()?.governed)}
          costs={sum().slow_scopes}
          total={sum().operations_ns}
          pick={(cost) => props.go({ kind: "scope", path: cost.name })}
        />
      </Show>
      <Show when={offers(props.store, "timing") && sum().slow_nodes.length > 0}>
        <Slow
          title="Slowest nodes"
          of=""
          costs={sum().slow_nodes}
          total={sum().operations_ns}
          pick={(cost) => props.go({ kind: "node", id: cost.node })}
        />
      </Show>
      <section class="sec">
        <h3 class="h">
          <span class="lab">What was kept</span>
          <span class="sp" />
          <span class="mi t3">{props.whole.run.level}</span>
        </h3>
        <For each={kept()}>{(line) => <p class="sum-kept t2">{line}</p>}</For>
      </section>
      <section class="sec sum-last">
        <h3 class="h">
          <span class="lab">Recording</span>
          <span class="sp" />
          <span class="mi t3">{formatBytes(props.whole.nbytes)}</span>
        </h3>
        <Show when={spaceWords(props.whole)}>{(words) => <p class="t2">{words()}</p>}</Show>
        <p class="mi t2 sum-path" title={printable(props.whole.run.recording, 2000)}>
          <bdi dir="ltr">{printable(props.whole.run.recording, 400)}</bdi>
        </p>
        <For each={props.whole.commands}>
          {(command) => <CommandRow line={command.line} does={command.does} />}
        </For>
      </section>
    </div>
  );
}

function Fact(props: { readonly title: string; readonly value: string }): JSX.Element {
  return (
    <div>
      <dt>{props.title}</dt>
      <dd class="m">{props.value}</dd>
    </div>
  );
}

/** Labels, and the classes of the timeline's colours. */
const PARTS: Readonly<Record<StepShare["part"], readonly [word: string, tone: string]>> = {
  forward: ["forward", "ph-forward"],
  backward: ["backward", "ph-backward"],
  optimizer: ["optimizer", "ph-optimizer"],
  other: ["other operations", "ph-recompute"],
  data: ["data", "host-data"],
  waiting: ["waiting", "host-waiting"],
  python: ["Python", "host-python"],
  compiling: ["compiling", "host-compiling"],
  between: ["between operations", "host-between"],
  held: ["held by the debugger", ""],
};
const LEAST_SHARE = 0.005;
const TOTAL = "Of all executions in observed steps; the outline shows the latest ones";

/** Where the time of the training steps went. */
function Shares(props: {
  readonly shares: readonly StepShare[];
  readonly of: string;
}): JSX.Element {
  const steps = () => props.shares.filter((share) => share.part !== "held");
  const total = () => steps().reduce((sum, share) => sum + share.ns, 0);
  const shares = () => steps().filter((step) => step.ns / total() >= LEAST_SHARE);
  return (
    <div class="sum-share" data-testid="summary-shares">
      <p class="t2">{props.of}</p>
      <div class="sum-bar" role="img" aria-label="Where the time of the training steps went">
        <For each={shares()}>
          {(share) => (
            <span
              class={PARTS[share.part][1]}
              title={`${PARTS[share.part][0]}: ${formatDuration(share.ns)}`}
              style={{ width: `${(100 * share.ns) / total()}%` }}
            />
          )}
        </For>
      </div>
      <ul class="sum-parts">
        <For each={shares()}>
          {(share) => (
            <li>
              <span class={`sw ${PARTS[share.part][1]}`} />
              <span class="t2">{PARTS[share.part][0]}</span>
              <span class="mi t3">{percent(share.ns / total())}</span>
            </li>
          )}
        </For>
      </ul>
    </div>
  );
}

/** The share of time spent in operations. */
function Share(props: { readonly within: number; readonly wall: number }): JSX.Element {
  const part = () => Math.min(1, props.wall > 0 ? props.within / props.wall : 0);
  return (
    <Show when={props.within > 0}>
      <div class="sum-share">
        <div class="sum-bar" role="img" aria-label={`${Math.round(part() * 100)} % in operations`}>
          <span style={{ width: `${part() * 100}%` }} />
        </div>
        <p class="mi t3">
          {formatDuration(props.within)} in operations ({percent(part())}); the rest is Python,
          data, recording and waiting
        </p>
      </div>
    </Show>
  );
}

function percent(part: number): string {
  return `${part > 0 && part < 0.1 ? (part * 100).toFixed(1) : Math.round(part * 100)} %`;
}

/** `2.697 → 0.01876 · lowest 0.000389`; a single finite value has no arrow. */
export function curveWords(curve: Omit<Curve, "node" | "name" | "points">): string {
  const { first, last, least, broken, total } = curve;
  if (first === null) return "never finite";
  const begins = formatNumber(first, 4);
  const parts = [total - broken > 1 ? `${begins} → ${formatNumber(last, 4)}` : begins];
  if (least !== null && least !== last) parts.push(`lowest ${formatNumber(least, 4)}`);
  if (broken > 0) parts.push(`${formatCount(broken)} of ${formatCount(total)} not finite`);
  return parts.join(" · ");
}

/** `46 %`; a small share is not shown as zero. */
export function wholePercent(part: number): string {
  return part > 0 && part < 0.005 ? "<1 %" : `${Math.round(part * 100)} %`;
}

function CurveRow(props: {
  readonly curve: Curve;
  readonly theme: string;
  visit(node: number, seq: number): void;
  go(item: Item): void;
}): JSX.Element {
  const points = () => props.curve.points;
  const words = () => curveWords(props.curve);
  return (
    <div class="sum-curve" data-testid="summary-curve">
      <div class="row sum-curve-head">
        <button
          type="button"
          class="ell sum-link"
          onClick={() => props.go({ kind: "node", id: props.curve.node })}
        >
          {printable(props.curve.name, 200)}
        </button>
        <span class="sp" />
        <span class="mi t2" classList={{ nan: props.curve.broken > 0 }}>
          {words()}
        </span>
      </div>
      <Show when={points().length > 1}>
        <Sparkline
          values={points().map((point) => point.value ?? Number.NaN)}
          label={`${props.curve.name} over the steps: ${words()}. Click a moment to look at it.`}
          theme={props.theme}
          marked={points().length - 1}
          onPick={(at) => {
            const point = points()[at];
            if (point !== undefined) props.visit(props.curve.node, point.seq);
          }}
        />
        <div class="sum-axis mi t3">
          <span>step {formatCount(points()[0]?.step ?? 0)}</span>
          <span>{formatCount(points().at(-1)?.step ?? 0)}</span>
        </div>
      </Show>
    </div>
  );
}

const KINDS: Readonly<
  Record<RunTrouble["kind"], { readonly word: string; readonly tone: string }>
> = {
  error: { word: "error", tone: "brk" },
  nan: { word: "NaN", tone: "nan" },
  inf: { word: "Inf", tone: "inf" },
};

function TroubleRow(props: {
  readonly trouble: RunTrouble;
  visit(node: number, seq: number): void;
}): JSX.Element {
  const kind = () => KINDS[props.trouble.kind];
  const where = () => {
    const at = props.trouble.source;
    return at === null ? "" : ` · ${at.file.split("/").at(-1) ?? ""}:${at.line}`;
  };
  return (
    <button
      type="button"
      class="sum-row sum-trouble"
      data-testid="summary-trouble"
      disabled={props.trouble.node === 0}
      onClick={() => props.visit(props.trouble.node, props.trouble.seq)}
    >
      <Show
        when={props.trouble.kind !== "error"}
        fallback={<span class="lamp bad" aria-hidden="true" />}
      >
        <span class="dia" classList={{ inf: props.trouble.kind === "inf" }} aria-hidden="true" />
      </Show>
      <span class={`sum-kind ${kind().tone}`}>{kind().word}</span>
      <span class="sum-name">
        <span class="ell">{printable(props.trouble.name, 200)}</span>
        <span class="mi t3 ell">
          step {formatCount(props.trouble.step)}
          {where()}
          {props.trouble.kind !== "error" && props.trouble.text ? ` · ${props.trouble.text}` : ""}
          {props.trouble.nodes > 1 ? ` · ${formatCount(props.trouble.nodes)} nodes in all` : ""}
        </span>
      </span>
    </button>
  );
}

/** A note on an execution that took more than all others of its node together; else "". */
function oddWords(cost: Cost): string {
  if (cost.odd_ns === 0) return "";
  const others = (cost.total_ns - cost.odd_ns) / (cost.times - 1);
  const step = cost.odd_step > 0 ? ` in step ${formatCount(cost.odd_step)}` : "";
  return `, once for ${formatDuration(cost.odd_ns)}${step}, otherwise ${formatDuration(others)} on average`;
}

function Slow(props: {
  readonly title: string;
  /** The steps that these costs belong to, if not all. */
  readonly of: string;
  readonly costs: readonly Cost[];
  readonly total: number;
  pick(cost: Cost): void;
}): JSX.Element {
  const most = () => Math.max(1, ...props.costs.map((cost) => cost.total_ns));
  return (
    <section class="sec">
      <h3 class="h">
        <span class="lab">{props.title}</span>
        <span class="sp" />
        <span class="mi t3" title={TOTAL}>
          total · share of operations
        </span>
      </h3>
      <Show when={props.of}>
        <p class="t2 sum-of">{props.of}</p>
      </Show>
      <For each={props.costs}>
        {(cost) => (
          <button
            type="button"
            class="sum-row sum-cost"
            title={`${printable(cost.name, 400)}: ran ${plural(cost.times, "time")}${oddWords(cost)}`}
            onClick={() => props.pick(cost)}
          >
            <span class="sum-fill" style={{ width: `${(100 * cost.total_ns) / most()}%` }} />
            <span class="ell sum-name">{printable(cost.name, 200)}</span>
            <Show when={cost.odd_ns > 0}>
              <span class="mi t3">{`max ${formatDuration(cost.odd_ns)}`}</span>
            </Show>
            <span class="mi">{formatDuration(cost.total_ns)}</span>
            <span class="mi t3 sum-part">
              {props.total > 0 ? wholePercent(cost.total_ns / props.total) : "0 %"}
            </span>
          </button>
        )}
      </For>
    </section>
  );
}

function CommandRow(props: { readonly line: string; readonly does: string }): JSX.Element {
  const [copied, setCopied] = createSignal(false);
  return (
    <button
      type="button"
      class="sum-command"
      title={`Copy: ${printable(props.line, 2000)}`}
      onClick={() =>
        void navigator.clipboard?.writeText(props.line).then(
          () => setCopied(true),
          () => setCopied(false),
        )
      }
    >
      <span class="m ell">{printable(shortened(props.line), 400)}</span>
      <span class="mi t3">{copied() ? "copied" : props.does}</span>
      <Icon name="copy" size={12} />
    </button>
  );
}

/** `nodescope export`: the path is shown above; the whole command is copied. */
function shortened(line: string): string {
  return line.split(" ", 2).join(" ");
}

/** " of step 4", " of steps 20 to 21 and 39 to 40"; "" without any. */
function stepsWords(ranges: KeptValues["ranges"]): string {
  const words = ranges.map(([first, last]) =>
    first === last ? formatCount(first) : `${formatCount(first)} to ${formatCount(last)}`,
  );
  const [only] = ranges;
  if (only === undefined) return "";
  const single = ranges.length === 1 && only[0] === only[1];
  return ` of step${single ? "" : "s"} ${listed(words)}`;
}

/** What takes the space of a recording; "" without whole values. */
export function spaceWords(whole: {
  readonly nbytes: number;
  readonly summary: { readonly kept: Pick<KeptValues, "arrays_bytes"> };
}): string {
  const arrays = whole.summary.kept.arrays_bytes;
  const rest = whole.nbytes - arrays;
  if (arrays === 0 || rest <= 0) return "";
  return `Whole values ${formatBytes(arrays)}; statistics, times and the graph ${formatBytes(rest)}.`;
}

/** What can be viewed later and what cannot, one sentence each. */
export function keptWords(kept: KeptValues, level: string): readonly string[] {
  const lines: string[] = [];
  if (kept.arrays > 0) {
    lines.push(
      `Every element of ${plural(kept.arrays, "value")}${stepsWords(kept.ranges)}, ` +
        `${formatBytes(kept.arrays_bytes)}.`,
    );
  } else if (level === "values") lines.push("No elements of any value.");
  else if (level === "summary")
    lines.push("Statistics of every value, no elements (level summary).");
  else lines.push(`Level ${level}: no statistics and no elements.`);
  const { dropped, governed } = kept;
  if (dropped.blobs > 0) {
    lines.push(`Only statistics of ${plural(dropped.blobs, "value")}.`);
  }
  if (dropped.summaries > 0) {
    lines.push(
      `${plural(dropped.summaries, "value")} without statistics: the recorder fell behind.`,
    );
  }
  if (dropped.executions > 0) {
    lines.push(`${plural(dropped.executions, "execution")} lost: the recorder fell behind.`);
  }
  if (governed !== null) {
    const left = governed.executions + governed.summaries + governed.arrays;
    const loss = left > 0 ? ` left out ${formatCount(left)} records` : " left nothing out";
    lines.push(
      `The limit of ${formatNumber(governed.limit, 3)}× slowdown${loss}; the run was ` +
        `${formatNumber(governed.slowdown, 3)}× as slow${governed.measured ? "" : " (estimated)"}.`,
    );
  }
  if (kept.steps_left_out > 0) {
    lines.push(`${plural(kept.steps_left_out, "step")} ran unobserved, to stay within the limit.`);
  }
  return lines;
}

function sentence(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}
