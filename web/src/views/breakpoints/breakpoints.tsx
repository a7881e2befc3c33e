/**
 * The table of breakpoints, and the form that adds one.
 *
 * Invariant: the table shows the session's state; an edit is sent as a whole and comes back from
 * the session.
 */

import { createMemo, createSignal, For, type JSX, Show } from "solid-js";
import { keepKey } from "@/base/keys";
import { unbreakable } from "@/store/debugger/abilities";
import {
  added,
  changed,
  effectText,
  markOf,
  optionsText,
  removed,
  switched,
} from "@/store/debugger/breakpoints";
import type { Store } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import { neverRuns } from "@/store/run/run_model";
import { BreakpointForm } from "@/views/breakpoints/form";
import { FieldError } from "@/widgets/field_error";
import { IconButton } from "@/widgets/icon";
import type { Breakpoint, BreakpointStatus, Command } from "@/wire/types.gen";

function setOf(breakpoints: readonly Breakpoint[]): Command {
  return { type: "set_breakpoints", breakpoints };
}

/** The button that opens the form for a new breakpoint. */
export function AddBreakpoint(props: { readonly store: Store; readonly ui: Ui }): JSX.Element {
  return (
    <button
      type="button"
      class="btn"
      data-testid="breakpoint-new"
      disabled={!props.store.breakable()}
      onClick={() => props.ui.setAdding(!props.ui.adding())}
    >
      Add…
    </button>
  );
}

export function Breakpoints(props: {
  readonly store: Store;
  readonly adding: boolean;
  onAdding(open: boolean): void;
}): JSX.Element {
  const statuses = () => props.store.session()?.breakpoints ?? [];
  const live = () => props.store.model()?.info.state === "live";
  const breakable = () => props.store.breakable();
  const send = (set: readonly Breakpoint[]): void => void props.store.setBreakpoints(set);
  const [editing, setEditing] = createSignal(0);
  // By id: a hit changes a status, and must not replace the field being typed into.
  const ids = createMemo(() => statuses().map((status) => status.breakpoint.id), [], {
    equals: (a, b) => a.join() === b.join(),
  });
  const statusOf = (id: number) => statuses().find((status) => status.breakpoint.id === id);
  const groups = () => {
    const named = statuses().filter((status) => status.breakpoint.group !== "");
    return [...new Set(named.map((status) => status.breakpoint.group))].sort().map((name) => {
      const members = named.filter((status) => status.breakpoint.group === name);
      return {
        name,
        count: members.length,
        on: members.some((member) => member.breakpoint.enabled),
      };
    });
  };
  const hit = (status: BreakpointStatus): boolean =>
    props.store.stop()?.breakpoint === status.breakpoint.id && status.breakpoint.id > 0;
  return (
    <div class="bps">
      <Show when={props.adding}>
        <BreakpointForm
          store={props.store}
          start={null}
          onClose={() => props.onAdding(false)}
          onSave={async (wanted) => {
            const why = await props.store.refusal(setOf(added(statuses(), wanted)));
            if (why === "") props.onAdding(false);
            return why;
          }}
        />
      </Show>
      <Show when={statusOf(editing()) === undefined ? 0 : editing()} keyed>
        {(id) => (
          <BreakpointForm
            store={props.store}
            start={statusOf(id)?.breakpoint ?? null}
            onClose={() => setEditing(0)}
            onSave={async (wanted) => {
              const set = changed(statuses(), id, wanted);
              const why = await props.store.refusal(setOf(set));
              if (why === "") setEditing(0);
              return why;
            }}
          />
        )}
      </Show>
      <Show when={groups().length > 0}>
        <div class="bp-groups">
          <For each={groups()}>
            {(group) => (
              <label class="bp-group">
                <input
                  type="checkbox"
                  checked={group.on}
                  disabled={!breakable()}
                  onChange={(event) =>
                    send(switched(statuses(), group.name, event.currentTarget.checked))
                  }
                />
                {group.name} <span class="t3">{group.count}</span>
              </label>
            )}
          </For>
        </div>
      </Show>
      <Show
        when={statuses().length > 0}
        fallback={
          <Show when={!props.adding}>
            <p class="empty">
              {live()
                ? "No breakpoints. Click the left edge of a node, press F9, or Add…"
                : neverRuns(props.store.model(), props.store.live)
                  ? "No breakpoints. The graph was not run: there is nothing to stop at."
                  : breakable()
                    ? "No breakpoints. Set some: F5 and R find them in the recording."
                    : `No breakpoints. ${unbreakable(props.store)}`}
            </p>
          </Show>
        }
      >
        <Show when={!live() && breakable()}>
          <p class="bp-note t3 small" data-testid="breakpoints-recorded">
            Breakpoints are matched against the recording: F5 searches forward, R back.
          </p>
        </Show>
        <table class="bp-table">
          <thead>
            <tr>
              <th class="bp-on">
                <span class="sr">Enabled</span>
              </th>
              <th>Where</th>
              <th>Condition</th>
              <th class="r bp-hits">Hits</th>
              <th class="bp-x">
                <span class="sr">Remove</span>
              </th>
            </tr>
          </thead>
          <tbody>
            <For each={ids()}>
              {(id) => (
                <Show when={statusOf(id)}>
                  {(status) => (
                    <tr
                      data-testid="breakpoint-row"
                      classList={{
                        here: hit(status()),
                        off: markOf(status()) !== "enabled",
                      }}
                    >
                      <td class="bp-on">
                        <label
                          class="bp-check"
                          title={status().breakpoint.enabled ? "Enabled" : "Disabled"}
                        >
                          <input
                            type="checkbox"
                            checked={status().breakpoint.enabled}
                            disabled={!breakable()}
                            aria-label={`Enable the breakpoint on ${status().breakpoint.target}`}
                            onChange={(event) =>
                              send(
                                changed(statuses(), status().breakpoint.id, {
                                  enabled: event.currentTarget.checked,
                                }),
                              )
                            }
                          />
                          <span class={`bdot ${markOf(status())}`} />
                        </label>
                      </td>
                      <td
                        class="bp-name"
                        title={[effectText(status().breakpoint), status().message]
                          .filter(Boolean)
                          .join("\n")}
                        onDblClick={() => breakable() && setEditing(status().breakpoint.id)}
                      >
                        <div class="ell">
                          <Show when={status().breakpoint.kind !== "node"}>
                            <span class="t3">{status().breakpoint.kind} </span>
                          </Show>
                          {status().breakpoint.target}
                        </div>
                        <Show when={status().message || !status().verified}>
                          <div class="t3 bp-message">{status().message || "not seen yet"}</div>
                        </Show>
                        <Show when={optionsText(status().breakpoint).length > 0}>
                          <div class="bp-options">
                            <For each={optionsText(status().breakpoint)}>
                              {(option) => <span class="bp-option ell">{option}</span>}
                            </For>
                          </div>
                        </Show>
                      </td>
                      <td class="bp-cond">
                        <ConditionField store={props.store} status={status()} live={breakable()} />
                      </td>
                      <td
                        class="r m bp-hits"
                        title={
                          live()
                            ? ""
                            : "Hits while the program ran; in a recording none are counted"
                        }
                      >
                        {live() || status().hits > 0 ? status().hits : "–"}
                      </td>
                      <td class="bp-x">
                        <span class="bp-acts">
                          <IconButton
                            small
                            icon="edit"
                            testid="breakpoint-edit"
                            disabled={!breakable()}
                            label={`Edit the breakpoint on ${status().breakpoint.target}`}
                            onClick={() => setEditing(status().breakpoint.id)}
                          />
                          <IconButton
                            small
                            icon="close"
                            testid="breakpoint-remove"
                            disabled={!breakable()}
                            label={`Remove the breakpoint on ${status().breakpoint.target}`}
                            onClick={() => send(removed(statuses(), status().breakpoint.id))}
                          />
                        </span>
                      </td>
                    </tr>
                  )}
                </Show>
              )}
            </For>
          </tbody>
        </table>
      </Show>
    </div>
  );
}

/** The condition in the table; an invalid one stays for correction, with the reason below it. */
function ConditionField(props: {
  readonly store: Store;
  readonly status: BreakpointStatus;
  readonly live: boolean;
}): JSX.Element {
  const [fault, setFault] = createSignal("");
  const [text, setText] = createSignal("");
  /** The field's content while it differs from the condition in force. */
  const [draft, setDraft] = createSignal<string>();
  const current = () => props.status.breakpoint.condition;
  const send = async (wanted: string): Promise<void> => {
    const statuses = props.store.session()?.breakpoints ?? [];
    const change = { condition: wanted };
    setText(wanted);
    const refusal = await props.store.refusal(
      setOf(changed(statuses, props.status.breakpoint.id, change)),
    );
    setFault(refusal);
    if (refusal === "") setDraft(undefined);
  };
  return (
    <>
      {/* A field does not grow with its text; this hidden copy does, and the field fills its cell. */}
      <span class="bp-width m" aria-hidden="true">
        {`${draft() ?? current()} `}
      </span>
      <textarea
        class="bp-condition m"
        classList={{ bad: fault() !== "" }}
        rows={1}
        value={current()}
        disabled={!props.live}
        placeholder="always"
        spellcheck={false}
        data-testid="breakpoint-row-condition"
        aria-invalid={fault() !== ""}
        title={current() === "" ? "No condition. Type one, such as value > 3" : current()}
        aria-label={`Condition of the breakpoint on ${props.status.breakpoint.target}`}
        onKeyDown={(event) => {
          keepKey(event);
          if (event.key === "Enter") {
            event.preventDefault(); // a condition is one line, even where it wraps
            event.currentTarget.blur();
          }
          if (event.key === "Escape") {
            event.currentTarget.value = current();
            setDraft(undefined);
            setFault("");
            event.currentTarget.blur();
          }
        }}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onChange={(event) => {
          void send(event.currentTarget.value.replaceAll(/\s*\n\s*/g, " ").trim());
        }}
      />
      <FieldError text={fault()} condition={text()} />
    </>
  );
}
