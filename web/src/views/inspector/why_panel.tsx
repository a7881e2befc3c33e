/**
 * The Why tab: the answer in words, then the chain of elements that led to the one in question.
 *
 * Invariant: a link moves the page to its node and moment; the question stays the same.
 */

import { createMemo, createSignal, For, type JSX, Match, Show, Switch } from "solid-js";
import { formatCount, formatIndex, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { toneAt } from "@/render/scene/path";
import type { Branches } from "@/store/debugger/what_if";
import { baseName, inWords, linesOf, shortened, spelled, type Why } from "@/store/history/why";
import { answered, failureOf } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import type { WhyGroup, WhyLink, WhyOperand } from "@/wire/types.gen";

export interface WhyPanelProps {
  readonly store: Store;
  readonly why: Why;
  readonly branches: Branches;
  /** Shows a node at a moment. */
  visit(node: number, seq: number): void;
  /** Rings a node on the canvas, or none. */
  point(node: number | undefined): void;
}

export function WhyPanel(props: WhyPanelProps): JSX.Element {
  const failure = () => failureOf(props.why.answer());
  const chain = () => answered(props.why.answer());
  return (
    <div class="why" data-testid="why">
      <Show when={props.why.canGoBack()}>
        <button type="button" class="link why-back" onClick={() => props.why.back()}>
          Back to the previous question
        </button>
      </Show>
      <Switch fallback={<p class="empty">Tracing the elements…</p>}>
        <Match when={props.why.question() === undefined}>
          <p class="empty">
            Select a node and press <kbd>W</kbd>, or click an element of a value.
          </p>
        </Match>
        <Match when={failure()}>
          {(text) => (
            <p class="empty" data-testid="why-failed">
              {printable(text(), 600)}
            </p>
          )}
        </Match>
        <Match when={chain()}>
          {(now) => (
            <>
              <BranchNote branches={props.branches} differs={now().branch > 0} />
              <Show when={raisedLater(props.store, props.why)}>
                {(words) => (
                  <p class="t2 small" data-testid="why-raised">
                    {words()}
                  </p>
                )}
              </Show>
              <Show when={now().groups.length > 1 || now().elements > 1}>
                <p class="t3 small">
                  {formatCount(now().elements)} elements, {formatCount(now().followed)} of them
                  followed:
                </p>
                <div class="chips">
                  <For each={now().groups}>
                    {(group, i) => (
                      <button
                        type="button"
                        class="btn"
                        classList={{ on: props.why.groupAt() === i() }}
                        onClick={() => props.why.setGroupAt(i())}
                      >
                        {group.count} from {culpritName(group)}
                      </button>
                    )}
                  </For>
                </div>
              </Show>
              <Show when={props.why.group()}>
                {(group) => <Chain {...props} group={group()} />}
              </Show>
            </>
          )}
        </Match>
      </Switch>
    </div>
  );
}

/** Which of two values is explained: that of the branch, or the recorded one. */
function BranchNote(props: {
  readonly branches: Branches;
  readonly differs: boolean;
}): JSX.Element {
  const asRecorded = () => props.branches.asRecorded();
  return (
    <Show when={props.branches.shown()}>
      {(branch) => (
        <div class="row branch-value" data-testid="why-branch">
          <span class="ell" title={branch().name}>
            {asRecorded()
              ? "As recorded, without "
              : props.differs
                ? "What if: "
                : "The same without "}
            <b>{printable(branch().name, 80)}</b>
          </span>
          <span class="sp" />
          <Show when={asRecorded() || props.differs}>
            <button type="button" class="btn" onClick={() => props.branches.turn()}>
              {asRecorded() ? "Explain the branch" : "Explain as recorded"}
            </button>
          </Show>
        </div>
      )}
    </Show>
  );
}

/** A note if the node raised, and therefore has no value: the chain explains its last value. */
export function raisedLater(store: Store, why: Why): string {
  const target = why.question()?.value;
  const raised = store.model()?.graph.nodes[store.raised()];
  const explained = why.group()?.links[0];
  if (target === undefined || explained === undefined || explained.kind === "raised") return "";
  if (raised === undefined || !raised.outputs.includes(target)) return "";
  return (
    `${printable(raised.name, 120)} raised an error and has no value there. ` +
    `This explains its last value, of step ${formatCount(explained.step)}:`
  );
}

function culpritName(group: WhyGroup): string {
  return printable(group.links.find((link) => link.culprit)?.name ?? "", 60);
}

function Chain(props: WhyPanelProps & { readonly group: WhyGroup }): JSX.Element {
  const [unfolded, setUnfolded] = createSignal<ReadonlySet<number>>(new Set());
  const lines = createMemo(() => linesOf(props.group.links, unfolded()));
  return (
    <>
      <p class="why-sentence" data-testid="why-sentence">
        {printable(shortened(props.group), 800)}
      </p>
      <ol class="why-chain" onPointerLeave={() => props.point(undefined)}>
        <For each={lines()}>
          {(line) => (
            <Show
              when={line.kind === "link" ? line : undefined}
              fallback={
                <li class="why-passing">
                  <Show when={line.kind === "passing" ? line : undefined}>
                    {(row) => (
                      <button
                        type="button"
                        class="link"
                        onClick={() => setUnfolded(new Set([...unfolded(), row().from]))}
                      >
                        {plural(row().count, "node")} in between pass it on
                      </button>
                    )}
                  </Show>
                </li>
              }
            >
              {(row) => <Link {...props} link={row().link} at={row().at} />}
            </Show>
          )}
        </For>
      </ol>
    </>
  );
}

function Link(props: WhyPanelProps & { readonly link: WhyLink; readonly at: number }): JSX.Element {
  /** Whether the inspector shows this execution; its error is then written at the top. */
  const isCurrent = () => {
    const item = props.store.selection();
    if (item?.kind !== "node" || item.id !== props.link.node) return false;
    props.store.tick();
    return props.store.shown().seq[item.id] === props.link.seq;
  };
  const facts = () =>
    [
      props.link.op,
      props.link.phase === "forward" ? "" : props.link.phase,
      `step ${formatCount(props.link.step)}`,
      props.link.how === "recorded" ? "" : props.link.how,
    ]
      .filter(Boolean)
      .join(", ");
  const operands = () =>
    props.link.operands.length > 1 || props.link.kind === "raised" ? props.link.operands : [];
  const tone = () => {
    const path = props.why.path();
    return path === undefined || props.link.node === 0
      ? props.link.state
      : toneAt(path, props.link.node);
  };
  const visit = (): void => {
    if (props.link.node > 0) props.visit(props.link.node, props.link.seq);
  };
  return (
    <li
      class="why-link"
      classList={{ culprit: props.link.culprit, here: isCurrent() }}
      data-testid="why-link"
      onPointerEnter={() => props.point(props.link.node)}
    >
      <button
        type="button"
        class="why-head"
        title="Go to this node at this moment"
        onClick={visit}
        onFocus={() => props.point(props.link.node)}
      >
        <span class={`why-at m tone-${tone()}`}>{props.at + 1}</span>
        <span class="why-name">
          {printable(props.link.name, 200)}
          <span class="m t3 why-place">{formatIndex(props.link.at)}</span>
        </span>
        <b class={`m state-${props.link.state}`}>{linkNumber(props.link)}</b>
      </button>
      <div class="why-more">
        <Show when={props.link.recorded}>
          {(text) => <p class="mi branch-mark">recorded: {inWords(text()).replaceAll("-", "−")}</p>}
        </Show>
        <Show when={props.link.culprit}>
          <span
            class="why-culprit"
            classList={{ plain: props.link.state !== "nan" && props.link.state !== "inf" }}
          >
            {props.link.birth || endWords(props.link.kind)}
          </span>
        </Show>
        <Show when={isCurrent() ? "" : props.link.error}>
          {(message) => <p>{printable(message(), 400)}</p>}
        </Show>
        <Show when={props.link.words}>{(words) => <p>{printable(inWords(words()), 400)}</p>}</Show>
        <p class="mi t3">{facts()}</p>
        <Show when={operands().length > 0}>
          <ul class="why-operands">
            <For each={operands()}>
              {(input) => <Operand {...props} link={props.link} operand={input} />}
            </For>
            <Show when={props.link.others > 0}>
              <li class="t3 small">and {formatCount(props.link.others)} others</li>
            </Show>
          </ul>
        </Show>
        <For each={props.link.ranges}>
          {(range) => <p class="mi t2 why-range">{printable(range, 200)}</p>}
        </For>
        <Show when={props.link.file}>
          <p class="why-source mi" title={props.link.file}>
            <span class="t3">
              {baseName(props.link.file)}:{props.link.line}
            </span>{" "}
            {printable(props.link.code, 200)}
          </p>
        </Show>
      </div>
    </li>
  );
}

/** The text of a link: the number of its element, or "" for a value as a whole. */
function linkNumber(link: WhyLink): string {
  if (link.kind === "raised") return "raised";
  return link.number === "" && link.kind !== "missing" ? "" : spelled(link.number, link.state);
}

function Operand(
  props: WhyPanelProps & { readonly link: WhyLink; readonly operand: WhyOperand },
): JSX.Element {
  const value = createMemo(() => {
    const graph = props.store.model()?.graph;
    const node = graph?.nodes[graph.byName.get(props.operand.name.replace(/:\d+$/, "")) ?? -1];
    return node?.outputs.find((id) => graph?.values.get(id)?.value.name === props.operand.name);
  });
  const words = () => (
    <>
      <span class="why-element" title={props.operand.name}>
        <span class="ell why-operand-name">
          <bdi>{printable(props.operand.name, 200)}</bdi>
        </span>
        <span class="m t3">{props.operand.at === null ? "" : formatIndex(props.operand.at)}</span>
      </span>
      <span class={`m state-${props.operand.state}`}>
        {props.operand.at === null ? "" : spelled(props.operand.number, props.operand.state)}
      </span>
      <span class="why-share" title={shareWords(props.operand)}>
        <Show when={props.operand.share !== null}>
          <span style={{ width: `${Math.round(100 * (props.operand.share ?? 0))}%` }} />
        </Show>
      </span>
      <span class="m t3 why-percent">
        {props.operand.share !== null
          ? `${Math.round(100 * props.operand.share)}${"\u202f"}%`
          : props.operand.selects
            ? "selects"
            : ""}
      </span>
    </>
  );
  return (
    <li>
      <Show
        when={props.operand.at !== null ? value() : undefined}
        fallback={<span class="why-operand">{words()}</span>}
      >
        {(id) => (
          <button
            type="button"
            class="why-operand"
            title="Explain this element"
            onClick={() => props.why.ask(id(), props.operand.at, props.link.seq - 1)}
          >
            {words()}
          </button>
        )}
      </Show>
    </li>
  );
}

function endWords(kind: WhyLink["kind"]): string {
  if (kind === "raised") return "the error";
  if (kind === "set") return "the edit";
  if (kind === "missing") return "the trail ends here";
  return kind === "limit" ? "not followed further" : "it starts here";
}

function shareWords(operand: WhyOperand): string {
  return operand.term === "" ? "" : `adds ${operand.term}`;
}
