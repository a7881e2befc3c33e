/**
 * The table of breakpoints, and the form that adds one.
 *
 * Invariant: the table shows what the session holds; an edit is sent whole and comes back from it.
 */

import { createEffect, createSignal, For, type JSX, Show } from "solid-js";
import { added, changed, markOf, removed } from "@/store/breakpoints";
import type { Store } from "@/store/store";
import type { Breakpoint, BreakpointKind, BreakpointStatus, Command } from "@/wire/types.gen";
import { IconButton } from "@/widgets/icon";

const KINDS: readonly {
  readonly id: BreakpointKind;
  readonly title: string;
  readonly hint: string;
}[] = [
  { id: "node", title: "node", hint: "loss/mean" },
  { id: "glob", title: "glob", hint: "hidden*/tanh" },
  { id: "op", title: "op", hint: "softmax" },
  { id: "scope", title: "scope", hint: "loss" },
];

function setOf(breakpoints: readonly Breakpoint[]): Command {
  return { type: "set_breakpoints", breakpoints };
}

export function Breakpoints(props: {
  readonly store: Store;
  readonly adding: boolean;
  onAdding(open: boolean): void;
}): JSX.Element {
  const statuses = () => props.store.session()?.breakpoints ?? [];
  const live = () => props.store.model()?.info.state === "live";
  const send = (set: readonly Breakpoint[]): void => void props.store.setBreakpoints(set);
  const hit = (status: BreakpointStatus): boolean =>
    props.store.stop()?.breakpoint === status.breakpoint.id && status.breakpoint.id > 0;
  return (
    <div class="bps">
      <Show when={props.adding}>
        <AddForm
          store={props.store}
          onClose={() => props.onAdding(false)}
          onAdd={async (wanted) => {
            const why = await props.store.refusal(setOf(added(statuses(), wanted)));
            if (why === "") props.onAdding(false);
            return why;
          }}
        />
      </Show>
      <Show
        when={statuses().length > 0}
        fallback={
          <Show when={!props.adding}>
            <p class="empty">
              {live()
                ? "No breakpoints. Click the left edge of a node, press F9, or Add…"
                : "No breakpoints. This run is over: nothing stops any more."}
            </p>
          </Show>
        }
      >
        <table class="bp-table">
          <thead>
            <tr>
              <th class="bp-on">
                <span class="sr">Enabled</span>
              </th>
              <th class="bp-where">Where</th>
              <th>Condition</th>
              <th class="r bp-hits">Hits</th>
              <th class="bp-x">
                <span class="sr">Remove</span>
              </th>
            </tr>
          </thead>
          <tbody>
            <For each={statuses()}>
              {(status) => (
                <tr
                  data-testid="breakpoint-row"
                  classList={{
                    here: hit(status),
                    off: markOf(status) !== "enabled",
                  }}
                >
                  <td class="bp-on">
                    <label
                      class="bp-check"
                      title={status.breakpoint.enabled ? "Enabled" : "Disabled"}
                    >
                      <input
                        type="checkbox"
                        checked={status.breakpoint.enabled}
                        disabled={!live()}
                        aria-label={`Enable the breakpoint on ${status.breakpoint.target}`}
                        onChange={(event) =>
                          send(
                            changed(statuses(), status.breakpoint.id, {
                              enabled: event.currentTarget.checked,
                            }),
                          )
                        }
                      />
                      <span class={`bdot ${markOf(status)}`} />
                    </label>
                  </td>
                  <td class="ell" title={status.message || status.breakpoint.target}>
                    <Show when={status.breakpoint.kind !== "node"}>
                      <span class="t3">{status.breakpoint.kind} </span>
                    </Show>
                    {status.breakpoint.target}
                    <Show when={status.breakpoint.when === "before"}>
                      <span class="t3"> before</span>
                    </Show>
                    <Show when={status.message || !status.verified}>
                      <span class="t3 bp-message"> {status.message || "not seen yet"}</span>
                    </Show>
                  </td>
                  <td>
                    <ConditionField store={props.store} status={status} live={live()} />
                  </td>
                  <td class="r m bp-hits">{status.hits}</td>
                  <td class="bp-x">
                    <IconButton
                      small
                      icon="close"
                      testid="breakpoint-remove"
                      disabled={!live()}
                      label={`Remove the breakpoint on ${status.breakpoint.target}`}
                      onClick={() => send(removed(statuses(), status.breakpoint.id))}
                    />
                  </td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </Show>
    </div>
  );
}

/** The condition in the table; a wrong one stays to be mended, with the reason below it. */
function ConditionField(props: {
  readonly store: Store;
  readonly status: BreakpointStatus;
  readonly live: boolean;
}): JSX.Element {
  const [fault, setFault] = createSignal("");
  const [text, setText] = createSignal("");
  const held = () => props.status.breakpoint.condition;
  const send = async (wanted: string): Promise<void> => {
    const statuses = props.store.session()?.breakpoints ?? [];
    const change = { condition: wanted };
    setText(wanted);
    setFault(
      await props.store.refusal(setOf(changed(statuses, props.status.breakpoint.id, change))),
    );
  };
  return (
    <>
      <input
        class="bp-condition m"
        classList={{ bad: fault() !== "" }}
        value={held()}
        disabled={!props.live}
        placeholder="always"
        spellcheck={false}
        data-testid="breakpoint-row-condition"
        aria-invalid={fault() !== ""}
        title={held() === "" ? "Stops each time. Type a condition, such as value > 3" : held()}
        aria-label={`Condition of the breakpoint on ${props.status.breakpoint.target}`}
        onKeyDown={(event) => {
          event.stopPropagation();
          if (event.key === "Enter") event.currentTarget.blur();
          if (event.key === "Escape") {
            event.currentTarget.value = held();
            setFault("");
            event.currentTarget.blur();
          }
        }}
        onChange={(event) => void send(event.currentTarget.value.trim())}
      />
      <FieldError text={fault()} condition={text()} />
    </>
  );
}

const COLUMN = /,? \(?(?:at )?column (\d+)\)?/;

/** Why a condition was refused, with a mark below the place. */
function FieldError(props: { readonly text: string; readonly condition: string }): JSX.Element {
  const column = () => Number(COLUMN.exec(props.text)?.[1] ?? 0);
  return (
    <Show when={props.text !== ""}>
      <div class="field-error" role="alert" data-testid="condition-error">
        <Show when={column() > 0}>
          <pre aria-hidden="true">{`${props.condition}\n${" ".repeat(column() - 1)}^`}</pre>
        </Show>
        <span>{props.text}</span>
      </div>
    </Show>
  );
}

function AddForm(props: {
  readonly store: Store;
  /** "" when it was taken, else why not. */
  onAdd(wanted: Pick<Breakpoint, "kind" | "target" | "condition" | "when">): Promise<string>;
  onClose(): void;
}): JSX.Element {
  let target!: HTMLInputElement;
  const [kind, setKind] = createSignal<BreakpointKind>("node");
  const [when, setWhen] = createSignal<"before" | "after">("after");
  const [condition, setCondition] = createSignal("");
  const [fault, setFault] = createSignal("");
  createEffect(() => target.focus());
  const names = () => {
    const graph = props.store.model()?.graph;
    if (kind() === "op") {
      return [...new Set((graph?.nodes ?? []).flatMap((node) => (node ? [node.op] : [])))];
    }
    if (kind() === "scope") return [...(props.store.tree()?.scopes.keys() ?? [])].filter(Boolean);
    return [...(graph?.byName.keys() ?? [])];
  };
  return (
    <form
      class="bp-form"
      data-testid="breakpoint-form"
      onKeyDown={(event) => {
        if (event.key === "Escape") props.onClose();
        event.stopPropagation();
      }}
      onSubmit={(event) => {
        event.preventDefault();
        const text = target.value.trim();
        if (text === "") target.focus();
        else {
          const wanted = { target: text, condition: condition().trim(), when: when() };
          void props.onAdd({ kind: kind(), ...wanted }).then(setFault);
        }
      }}
    >
      <select
        aria-label="Kind"
        value={kind()}
        onChange={(event) => setKind(event.currentTarget.value as BreakpointKind)}
      >
        <For each={KINDS}>{(each) => <option value={each.id}>{each.title}</option>}</For>
      </select>
      <input
        ref={target}
        class="m"
        aria-label="Where"
        list="bp-names"
        spellcheck={false}
        placeholder={KINDS.find((each) => each.id === kind())?.hint}
        data-testid="breakpoint-target"
      />
      <datalist id="bp-names">
        <For each={names().slice(0, 400)}>{(name) => <option value={name} />}</For>
      </datalist>
      <select
        aria-label="When"
        value={when()}
        onChange={(event) => setWhen(event.currentTarget.value as "before" | "after")}
      >
        <option value="after">after</option>
        <option value="before">before</option>
      </select>
      <input
        class="m"
        aria-label="Condition"
        placeholder="isnan(value).any()"
        spellcheck={false}
        value={condition()}
        data-testid="breakpoint-condition"
        classList={{ bad: fault() !== "" }}
        aria-invalid={fault() !== ""}
        onInput={(event) => {
          setCondition(event.currentTarget.value);
          setFault("");
        }}
      />
      <button type="submit" class="btn" data-testid="breakpoint-add">
        Add
      </button>
      <IconButton small icon="close" label="Cancel" onClick={() => props.onClose()} />
      <FieldError text={fault()} condition={condition()} />
    </form>
  );
}
