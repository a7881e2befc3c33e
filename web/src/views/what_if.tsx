/**
 * What-if: the tree of branches, and the changed numbers of the chosen one.
 *
 * Invariant: says what was rerun and what was not; nothing here touches the program.
 */

import { createSignal, For, type JSX, onMount, Show } from "solid-js";
import { keepKey } from "@/base/keys";
import { formatCount, formatIndex, formatNumber, plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import {
  type Branches,
  type BranchRow,
  differing,
  numbersOf,
  outcome,
} from "@/store/debugger/what_if";
import type { Store } from "@/store/page/store";
import { takeFocus } from "@/widgets/focus";
import { IconButton } from "@/widgets/icon";
import type { BranchAnswer, BranchInfo, ChangedValue } from "@/wire/types.gen";

export interface WhatIfProps {
  readonly store: Store;
  readonly branches: Branches;
  /** Shows a node at a moment. */
  visit(node: number, seq: number): void;
}

export function WhatIf(props: WhatIfProps): JSX.Element {
  return (
    <div class="what-if" data-testid="what-if">
      <Show
        when={props.branches.rows().length > 0}
        fallback={
          <p class="empty">
            No branches yet. At a recorded moment, press <kbd>E</kbd> on a value and choose
            <b> What if…</b>: everything that depends on it is re-run, and the recording stays as it
            is.
          </p>
        }
      >
        <div class="branch-tree" role="group" aria-label="Branches">
          <div class="branch origin t3">as recorded</div>
          <For each={props.branches.rows()}>
            {(row) => <BranchLine branches={props.branches} row={row} />}
          </For>
          <For each={props.branches.notes()}>
            {(note) => <p class="t3 small branch-note">{printable(note, 300)}</p>}
          </For>
        </div>
        <Show when={props.branches.detail()}>
          {(detail) => <Changes {...props} detail={detail()} />}
        </Show>
      </Show>
    </div>
  );
}

function NameField(props: { readonly name: string; onName(name: string): void }): JSX.Element {
  let field!: HTMLInputElement;
  takeFocus(() => field);
  onMount(() => field.select());
  return (
    <input
      ref={field}
      class="m"
      aria-label="Branch name"
      data-testid="branch-rename"
      value={props.name}
      onKeyDown={(event) => {
        keepKey(event);
        if (event.key === "Enter") {
          event.preventDefault(); // it would press the next focused element
          field.blur();
        }
        if (event.key === "Escape") {
          field.value = props.name;
          field.blur();
        }
      }}
      onBlur={() => props.onName(field.value)}
    />
  );
}

/** Characters at the end of a branch's name that are never cut; more if they are whole words. */
const BRANCH_END = 9;
const MOST_WORDS = 20;

function stepsWords(info: BranchInfo): string {
  return info.last_step > info.step
    ? `steps ${formatCount(info.step)} to ${formatCount(info.last_step)}`
    : `step ${formatCount(info.step)}`;
}

function BranchLine(props: { readonly branches: Branches; readonly row: BranchRow }): JSX.Element {
  const [editing, setEditing] = createSignal(false);
  const info = () => props.row.info;
  return (
    <div
      class="branch"
      classList={{ on: props.branches.chosen() === info().id }}
      style={{ "padding-left": `${14 + 14 * props.row.depth}px` }}
      data-testid="branch"
    >
      <Show
        when={editing()}
        fallback={
          <button
            type="button"
            class="branch-name"
            aria-pressed={props.branches.chosen() === info().id}
            title={`${info().edit}, ${stepsWords(info())}: ${plural(info().changed, "value")} changed with it`}
            onClick={() => props.branches.choose(info().id)}
            onDblClick={() => setEditing(true)}
          >
            <BranchName name={printable(info().name, 80)} />
            <Show when={info().changed > 0}>
              <span class="mi t3">{formatCount(info().changed)} ≠</span>
            </Show>
          </button>
        }
      >
        <NameField
          name={info().name}
          onName={(name) => {
            setEditing(false);
            props.branches.rename(info().id, name);
          }}
        />
      </Show>
      <IconButton
        small
        icon="edit"
        label="Rename"
        testid="branch-edit"
        onClick={() => setEditing(true)}
      />
      <IconButton
        small
        icon="close"
        label="Delete this branch and the branches that start from it"
        testid="branch-drop"
        onClick={() => props.branches.drop(info().id)}
      />
    </div>
  );
}

/** Branches of one node differ at the end of their names, which stays visible. */
function BranchName(props: { readonly name: string }): JSX.Element {
  const cut = (): number => {
    const words = props.name.indexOf(" ");
    const whole = words > 0 && props.name.length - words <= MOST_WORDS;
    return whole ? words : Math.max(0, props.name.length - BRANCH_END);
  };
  return (
    <span class="branch-words-of">
      <span class="ell">{props.name.slice(0, cut())}</span>
      <span class="branch-end">{props.name.slice(cut())}</span>
    </span>
  );
}

function Changes(props: WhatIfProps & { readonly detail: BranchAnswer }): JSX.Element {
  const info = () => props.detail.info;
  return (
    <div class="branch-changes">
      <p class="branch-words small t2" data-testid="branch-words">
        <b>{printable(info().edit, 200)}</b>: {outcome(props.detail)}{" "}
        <span class="t3">{props.detail.redone}</span>
      </p>
      <table class="branch-table">
        <thead>
          <tr>
            <th>Node</th>
            <Show when={info().last_step > info().step}>
              <th class="r branch-step">step</th>
            </Show>
            <th class="r">before</th>
            <th class="r">now</th>
            <th class="r" title="Largest difference of an element">
              difference
            </th>
            <th class="r branch-count">differ</th>
          </tr>
        </thead>
        <tbody>
          <For each={props.detail.changes}>
            {(changed) => (
              <Row change={changed} step={info().last_step > info().step} visit={props.visit} />
            )}
          </For>
          <For each={props.detail.blocked}>
            {(blocked) => (
              <tr
                tabindex={0}
                onClick={() => props.visit(blocked.node, blocked.seq)}
                onKeyDown={(event) => {
                  if (event.key === "Enter") props.visit(blocked.node, blocked.seq);
                }}
              >
                <td class="ell" title={blocked.name}>
                  {printable(blocked.name, 120)}
                </td>
                <td
                  colspan={info().last_step > info().step ? 5 : 4}
                  class="t2"
                  title={blocked.reason}
                >
                  not run again: {printable(blocked.reason, 300)}
                </td>
              </tr>
            )}
          </For>
        </tbody>
      </table>
      <Show when={props.detail.unlisted > 0}>
        <p class="t3 small">
          and {formatCount(props.detail.unlisted)} more values, marked ≠ on the graph
        </p>
      </Show>
    </div>
  );
}

function Row(props: {
  readonly change: ChangedValue;
  /** Whether the training step is shown. */
  readonly step: boolean;
  visit(node: number, seq: number): void;
}): JSX.Element {
  const numbers = () => numbersOf(props.change);
  const go = (): void => props.visit(props.change.node, props.change.seq);
  return (
    <tr
      tabindex={0}
      data-testid="branch-change"
      classList={{ edited: props.change.edited }}
      title={where(props.change)}
      onClick={go}
      onKeyDown={(event) => {
        if (event.key === "Enter") go();
      }}
    >
      <td class="ell">
        {printable(props.change.name, 160)}{" "}
        <span class="t3 small">
          {props.change.edited ? `${numbers().what}, edited` : numbers().what}
        </span>
      </td>
      <Show when={props.step}>
        <td class="r m t3 branch-step">{formatCount(props.change.step)}</td>
      </Show>
      <td class="r m t2" classList={{ nan: numbers().old === "NaN" }}>
        {numbers().old}
      </td>
      <td class="r m" classList={{ nan: numbers().new === "NaN" }}>
        {numbers().new}
      </td>
      <td class="r m">{formatNumber(props.change.largest, 4)}</td>
      <td class="r m t3 branch-count">{differing(props.change)}</td>
    </tr>
  );
}

function where(change: ChangedValue): string {
  const at = change.at.length > 0 ? ` at ${formatIndex(change.at)}` : "";
  const element = change.before === "" ? "" : `: ${change.before} → ${change.after}${at}`;
  return `${change.name}${element}`;
}
