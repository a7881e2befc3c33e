/**
 * Facts about the picked nodes: fate with its rules, error, times, kernel.
 *
 * Invariant: if nothing is picked, the function as a whole is shown, never an empty pane; a missing
 * measurement states its reason.
 */

import { createMemo, createResource, For, type JSX, Match, Show, Switch } from "solid-js";
import { formatBytes, formatCount, formatDuration, formatNumber, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import {
  errorBars,
  errorWords,
  FATE_WORDS,
  kernelsOf,
  ruleWords,
  tracedOf,
  worstOf,
} from "@/store/history/compare";
import { familyColour } from "@/store/run/node_text";
import { CheckFacts } from "@/views/compare/check_facts";
import { Fact, Name, ratio } from "@/views/compare/facts";
import { FateSwatch } from "@/views/compare/fate_legend";
import type { CompareState } from "@/views/compare/state";
import { matchWords } from "@/views/compare/tables";
import { Whole } from "@/views/compare/whole_panel";
import { get } from "@/wire/rest";
import { isLeaf } from "@/wire/roles";
import type {
  ComparedFunction,
  ComparedNode,
  ErrorHistory,
  Kernel,
  KernelCost,
} from "@/wire/types.gen";

const SHOWN = 6;

export function PairPanel(props: { readonly state: CompareState }): JSX.Element {
  const { state } = props;
  const traced = createMemo(() => {
    const links = state.links();
    const picked = state.picked();
    return links === undefined || picked === undefined ? [] : tracedOf(links, picked);
  });
  const kernels = createMemo((): readonly Kernel[] => {
    const links = state.links();
    const picked = state.picked();
    if (links === undefined || picked === undefined) return [];
    const own = picked.side === "compiled" ? links.kernels.get(picked.id) : undefined;
    return own === undefined ? kernelsOf(links, traced()) : [own];
  });
  const computed = createMemo(() => traced().filter((node) => !isLeaf(node)));
  // Of several nodes, show one whose values could be compared.
  const shown = createMemo(
    () => computed().find((node) => worstOf(node) !== undefined) ?? computed()[0] ?? traced()[0],
  );
  return (
    <Show when={state.fn()}>
      {(fn) => (
        <div class="cmp-pair" data-testid="pair">
          <Switch fallback={<Whole fn={fn()} state={state} />}>
            <Match when={state.picked() !== undefined && traced().length === 0}>
              <p class="empty">
                {state.picked()?.side === "eager"
                  ? "This node is not part of the compiled function."
                  : "Created by a pass; no traced node corresponds to it."}
              </p>
            </Match>
            <Match when={state.picked() !== undefined && traced().length > 0}>
              <Show when={shown()} keyed>
                {(first) => (
                  <>
                    <Fates nodes={computed().length > 0 ? computed() : traced()} state={state} />
                    <Values node={first} count={computed().length} state={state} />
                    <Times nodes={computed()} kernels={kernels()} />
                    <Compiled kernels={kernels()} nodes={traced()} fn={fn()} />
                  </>
                )}
              </Show>
            </Match>
          </Switch>
        </div>
      )}
    </Show>
  );
}

function Fates(props: {
  readonly nodes: readonly ComparedNode[];
  readonly state: CompareState;
}): JSX.Element {
  const first = () => props.nodes[0] as ComparedNode;
  return (
    <section class="cmp-block" data-testid="pair-fate">
      <h3 class="lab">
        {props.nodes.length > 1 ? `${formatCount(props.nodes.length)} traced nodes` : "Node"}
      </h3>
      <Show
        when={props.nodes.length > 1}
        fallback={
          <>
            <p class="cmp-name cmp-line">
              <Name text={first().name} />
            </p>
            <p class="cmp-line">
              <span class="sw" style={{ background: `var(${familyColour(first().family)})` }} />
              {first().op} <span class="t3">{first().phase}</span>
            </p>
            <p class="cmp-line">
              <FateSwatch fate={first().fate} />
              <b>{first().fate}</b>
              <span class="t3 ell">{FATE_WORDS[first().fate]}</span>
            </p>
            <For each={first().by}>{(rule) => <p class="cmp-line t2">by {ruleWords(rule)}</p>}</For>
            <p class="cmp-line t3">
              {first().matched === ""
                ? "no match in the eager run"
                : `matched in the eager run by ${matchWords(first())}`}
            </p>
          </>
        }
      >
        <ul class="cmp-list">
          <For each={props.nodes}>
            {(node) => (
              <li>
                <button
                  type="button"
                  class="cmp-item"
                  disabled={node.eager === 0}
                  onClick={() => props.state.pick({ side: "eager", id: node.eager })}
                >
                  <FateSwatch fate={node.fate} />
                  <Name text={node.name} />
                  <span class="sp" />
                  <span class="mi t3">
                    {node.eager_ns === null ? "" : formatDuration(node.eager_ns)}
                  </span>
                </button>
              </li>
            )}
          </For>
        </ul>
      </Show>
    </section>
  );
}

function Values(props: {
  readonly node: ComparedNode;
  readonly count: number;
  readonly state: CompareState;
}): JSX.Element {
  const shown = createMemo(
    () => props.node.values.find((value) => value.worst !== null) ?? props.node.values[0],
  );
  const worst = () => shown()?.worst ?? undefined;
  const measured = () => worst() !== undefined && worst()?.source !== "none";
  const [history] = createResource(
    () => {
      const fn = props.state.fn();
      const both = props.state.comparison();
      return fn === undefined || both === undefined || !measured()
        ? undefined
        : { eager: both.eager, compiled: both.compiled, owner: fn.owner, node: props.node.id };
    },
    (query) => get<ErrorHistory>("compare/history", query).catch(() => undefined),
  );
  return (
    <section class="cmp-block" data-testid="pair-values">
      <h3 class="lab ell" title={printable(props.node.name, 10_000)}>
        Values<Show when={props.count > 1}> of {printable(props.node.name)}</Show>
      </h3>
      <CheckFacts state={props.state} node={props.node} />
      <Show
        when={measured() && worst()}
        fallback={<p class="empty cmp-why">{shown()?.why || worst()?.why || "No value."}</p>}
      >
        {(measure) => (
          <>
            <p class="cmp-verdict" data-testid="pair-verdict">
              {measure().equal
                ? measure().source === "arrays"
                  ? "Bit-equal"
                  : "Equal statistics"
                : errorWords(props.node)}
            </p>
            <dl class="cmp-facts">
              <Fact name="max abs error" value={formatNumber(measure().max_abs)} />
              <Fact name="max rel error" value={formatNumber(measure().max_rel)} />
              <Fact name="ULP distance" value={formatNumber(measure().ulp)} />
              <Fact name="beyond tolerance" value={share(measure().mismatched)} />
              <Fact name="NaN eager, compiled" value={measure().nan.map(formatCount).join(", ")} />
              <Fact name="Inf eager, compiled" value={measure().inf.map(formatCount).join(", ")} />
            </dl>
            <p class="t3 small">
              {measure().source === "arrays"
                ? `all ${plural(measure().elements, "element")}`
                : "only statistics were kept"}
              {steps(shown()?.steps ?? [])}
            </p>
            <Show when={history.state === "ready" && history()}>
              {(history) => <Errors history={history()} />}
            </Show>
          </>
        )}
      </Show>
    </section>
  );
}

/** The error by step, as bars; words if all are equal. */
function Errors(props: { readonly history: ErrorHistory }): JSX.Element {
  const bars = () => errorBars(props.history);
  return (
    <Show
      when={bars().some((bar) => bar.part > 0)}
      fallback={
        <p class="t3 small">
          {bars().length === 1
            ? "no error at this step"
            : `no error at any of ${plural(bars().length, "step")}`}
        </p>
      }
    >
      <div class="cmp-errors" role="img" aria-label="Error by step">
        <For each={bars()}>
          {(bar) => (
            <span
              classList={{ odd: bar.odd }}
              style={{ height: `${bar.part > 0 ? Math.max(8, bar.part * 100) : 2}%` }}
              title={`step ${bar.step}: ${bar.words}`}
            />
          )}
        </For>
      </div>
    </Show>
  );
}

function Times(props: {
  readonly nodes: readonly ComparedNode[];
  readonly kernels: readonly Kernel[];
}): JSX.Element {
  // A kernel that covers more than the picked nodes is compared as a whole.
  const now = () => props.kernels.reduce((sum, kernel) => sum + (kernel.ns ?? 0), 0);
  const was = () => props.kernels.reduce((sum, kernel) => sum + (kernel.eager_ns ?? 0), 0);
  const alone = () => props.nodes.reduce((sum, node) => sum + (node.eager_ns ?? 0), 0);
  const most = () => Math.max(now(), was(), alone(), 1);
  const covered = () => props.kernels.reduce((sum, kernel) => sum + kernel.covers.length, 0);
  return (
    <section class="cmp-block" data-testid="pair-times">
      <h3 class="lab">Time, node by node (median)</h3>
      <Show when={props.nodes.length === 1 && covered() !== 1}>
        <Bar name="eager, this node" ns={alone()} most={most()} tone="was" />
      </Show>
      <Show
        when={props.kernels.length > 0}
        fallback={<p class="t3 small">Not executed in the compiled function.</p>}
      >
        <Bar
          name={`eager, ${plural(Math.max(1, covered()), "node")}`}
          ns={was()}
          most={most()}
          tone="was"
        />
        <Show when={now() > 0} fallback={<p class="t3 small">Not timed in the compiled run.</p>}>
          <Bar name="compiled" ns={now()} most={most()} tone="now" />
          <p class="cmp-verdict">{ratio(was(), now())}</p>
        </Show>
      </Show>
    </section>
  );
}

function Bar(props: {
  readonly name: string;
  readonly ns: number;
  readonly most: number;
  readonly tone: "was" | "now";
}): JSX.Element {
  return (
    <div class="cmp-bar">
      <span class="t2 ell">{props.name}</span>
      <span class="m r">{props.ns > 0 ? formatDuration(props.ns) : "–"}</span>
      <span class="cmp-bar-line">
        <span class={props.tone} style={{ width: `${(props.ns / props.most) * 100}%` }} />
      </span>
    </div>
  );
}

function Compiled(props: {
  readonly kernels: readonly Kernel[];
  readonly nodes: readonly ComparedNode[];
  readonly fn: ComparedFunction;
}): JSX.Element {
  const kernel = () => props.kernels[0];
  const apart = createMemo(() =>
    props.fn.unfused
      .filter((note) => props.nodes.some((node) => mentions(note, node)))
      .slice(0, SHOWN),
  );
  return (
    <section class="cmp-block" data-testid="pair-compiled">
      <h3 class="lab">Runs in</h3>
      <Show when={kernel()} fallback={<p class="t3 small">nothing: it is not executed.</p>}>
        {(pair) => (
          <>
            <p class="cmp-name cmp-line">
              <Name text={pair().name} />
            </p>
            <Show when={pair().pattern}>
              <p class="cmp-line">
                <span class="sw kernel" />
                kernel <b>{pair().pattern}</b>
              </p>
            </Show>
            <Cost cost={pair().cost} />
            <Show when={props.kernels.length > 1}>
              <p class="t3 small">and {plural(props.kernels.length - 1, "other node")}</p>
            </Show>
          </>
        )}
      </Show>
      <Show when={apart().length > 0}>
        <h3 class="lab cmp-apart">Not fused, because</h3>
        <For each={apart()}>{(note) => <p class="t2 small">{printable(note)}</p>}</For>
      </Show>
    </section>
  );
}

/** Whether a note names the node: by its name, or by its id as in `@12`. */
function mentions(note: string, node: ComparedNode): boolean {
  return new RegExp(`(^|[^\\w/])@${node.id}(?!\\d)`).test(note) || words(note).has(node.name);
}

function words(note: string): ReadonlySet<string> {
  return new Set(note.split(/[\s,;:()]+/));
}

function Cost(props: { readonly cost: KernelCost | null }): JSX.Element {
  return (
    <Show when={props.cost}>
      {(cost) => (
        <p class="cmp-line t2 small">
          {formatNumber(cost().flops, 4)} flops · {formatBytes(cost().bytes)} · bound by{" "}
          {cost().bound}
        </p>
      )}
    </Show>
  );
}

function share(part: number | null): string {
  if (part === null) return "–";
  return part === 0 ? "none" : `${formatNumber(part * 100, 3)} %`;
}

function steps(all: readonly number[]): string {
  if (all.length === 0 || (all.length === 1 && all[0] === 0)) return "";
  return ` at step${all.length > 1 ? "s" : ""} ${all.join(", ")}`;
}
