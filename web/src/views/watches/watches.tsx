/**
 * The watches of the run: the list, the hits, and queries on the recording.
 *
 * Invariant: refused input stays in the field, with the reason below it; only listed watches are
 * active.
 */

import { createEffect, createSignal, For, type JSX, Show } from "solid-js";
import { keepKey } from "@/base/keys";
import { plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { type Watches as Model, shortText } from "@/store/debugger/watches";
import { AnswerPane } from "@/views/watches/answer";
import { Gallery } from "@/views/watches/gallery";
import { FieldError } from "@/widgets/field_error";
import { takeFocus } from "@/widgets/focus";
import { IconButton } from "@/widgets/icon";
import type { WatchStatus } from "@/wire/types.gen";

const OVER = "The run has ended: watches can only be checked against the recording";

export interface WatchesProps {
  readonly watches: Model;
  /** Id of the watch at which the program is stopped, or 0. */
  readonly here: number;
  /** Shows a node at a moment. */
  visit(node: number, seq: number): void;
}

export function Watches(props: WatchesProps): JSX.Element {
  const [editing, setEditing] = createSignal(0);
  // By id: a hit changes a status, and must not replace the field being typed into.
  const ids = () => props.watches.statuses().map((status) => status.id);
  const statusOf = (id: number) => props.watches.statuses().find((status) => status.id === id);
  const side = () => props.watches.gallery() || props.watches.query() !== undefined;
  return (
    <div class="watches" classList={{ split: side() }} data-testid="watches">
      <div class="watch-main">
        <Field watches={props.watches} />
        <div class="watch-list">
          <Show
            when={props.watches.statuses().length > 0}
            fallback={
              <p class="empty">
                {props.watches.live()
                  ? "No watches yet. Add… shows all rules, and those recommended for this program."
                  : "No watches. This run has ended: any rule can be evaluated against the recording."}
              </p>
            }
          >
            <For each={ids()}>
              {(id) => (
                <Show when={statusOf(id)}>
                  {(status) => (
                    <Show
                      when={editing() === id}
                      fallback={<Row {...props} status={status()} onEdit={() => setEditing(id)} />}
                    >
                      <Editor
                        status={status()}
                        watches={props.watches}
                        onClose={() => setEditing(0)}
                      />
                    </Show>
                  )}
                </Show>
              )}
            </For>
          </Show>
        </div>
      </div>
      <Show when={props.watches.gallery()}>
        <Gallery watches={props.watches} />
      </Show>
      <Show when={props.watches.query()}>
        {(question) => (
          <AnswerPane
            query={question()}
            visit={props.visit}
            onClose={() => props.watches.closeAnswer()}
          />
        )}
      </Show>
    </div>
  );
}

/** The field for a new watch, or for a query. */
function Field(props: { readonly watches: Model }): JSX.Element {
  const [fault, setFault] = createSignal("");
  const [tried, setTried] = createSignal("");
  const text = () => props.watches.draft().trim();
  const attempt = async (act: (text: string) => Promise<string>): Promise<boolean> => {
    setTried(text());
    const why = await act(text());
    setFault(why);
    return why === "";
  };
  const add = async (): Promise<void> => {
    if (await attempt(props.watches.add)) props.watches.setDraft("");
  };
  return (
    <form
      class="watch-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (text() === "") props.watches.setGallery(true);
        else if (props.watches.live()) void add();
        else void attempt(props.watches.ask);
      }}
    >
      <input
        class="m"
        classList={{ bad: fault() !== "" }}
        aria-label="Watch: rule, where, actions"
        aria-invalid={fault() !== ""}
        placeholder='nan; condition(condition="value < 1") on loss'
        title='For example: nan on scope:loss -> stop, or condition(condition="value < 1") on loss/mean'
        spellcheck={false}
        data-testid="watch-text"
        value={props.watches.draft()}
        onInput={(event) => {
          props.watches.setDraft(event.currentTarget.value);
          setFault("");
        }}
        onKeyDown={(event) => {
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
      <button
        type="button"
        class="btn"
        data-testid="watch-ask"
        disabled={text() === "" && props.watches.enabled().length === 0}
        title={
          text() === ""
            ? props.watches.enabled().length > 0
              ? "Evaluate the enabled watches on the recording"
              : "Add or enable a watch first, or type one"
            : "Evaluate this watch on the recording, without adding it"
        }
        onClick={() => void attempt(text() === "" ? props.watches.askAll : props.watches.ask)}
      >
        Check the recording
      </button>
      <button
        type="submit"
        class="btn"
        data-testid="watch-add"
        aria-expanded={props.watches.gallery()}
        disabled={!props.watches.live() && text() !== ""}
        title={
          text() === ""
            ? "All rules, and those recommended for this program"
            : props.watches.live()
              ? "Add this watch"
              : OVER
        }
      >
        {text() === "" ? "Add…" : "Add"}
      </button>
      <FieldError text={fault()} condition={tried()} />
    </form>
  );
}

function Row(props: WatchesProps & { readonly status: WatchStatus; onEdit(): void }): JSX.Element {
  const status = () => props.status;
  let row!: HTMLDivElement;
  createEffect(() => {
    if (props.here === status().id) row.scrollIntoView({ block: "nearest" });
  });
  return (
    <div
      ref={row}
      class="watch-row"
      classList={{ here: props.here === status().id, off: !status().enabled }}
      data-testid="watch-row"
    >
      <label
        class="bp-check"
        title={`${status().enabled ? "Enabled" : "Disabled"}${props.watches.live() ? "" : `. ${OVER}`}`}
      >
        <input
          type="checkbox"
          checked={status().enabled}
          disabled={!props.watches.live()}
          aria-label={`Enable ${status().text}`}
          onChange={(event) => props.watches.enable(status().id, event.currentTarget.checked)}
        />
        <span class="wmark" classList={{ off: !status().enabled }} />
      </label>
      <span class="watch-text">
        <span
          class="m ell"
          title={status().text}
          onDblClick={() => props.watches.live() && props.onEdit()}
        >
          {printable(shortText(status().text), 300)}
        </span>
        <Show when={status().message !== ""}>
          <span class="watch-message">{printable(status().message, 300)}</span>
        </Show>
        <Show when={status().last !== ""}>
          <button
            type="button"
            class="watch-last ell"
            data-testid="watch-last"
            title={status().last}
            onClick={() => props.visit(status().node, status().seq)}
          >
            {printable(withoutRule(status()), 300)}
          </button>
        </Show>
      </span>
      <span class="mi t2 r watch-hits">{plural(status().hits, "hit")}</span>
      <span class="bp-acts">
        <IconButton
          small
          icon="edit"
          testid="watch-edit"
          disabled={!props.watches.live()}
          label={`Edit ${status().text}${props.watches.live() ? "" : `: ${OVER}`}`}
          onClick={() => props.onEdit()}
        />
        <IconButton
          small
          icon="close"
          testid="watch-remove"
          disabled={!props.watches.live()}
          label={`Remove ${status().text}${props.watches.live() ? "" : `: ${OVER}`}`}
          onClick={() => props.watches.remove(status().id)}
        />
      </span>
    </div>
  );
}

/** The description of the last hit; the rule is shown above it. */
function withoutRule(status: WatchStatus): string {
  const start = `${status.rule}: `;
  return status.last.startsWith(start) ? status.last.slice(start.length) : status.last;
}

function Editor(props: {
  readonly status: WatchStatus;
  readonly watches: Model;
  onClose(): void;
}): JSX.Element {
  const [fault, setFault] = createSignal("");
  const [tried, setTried] = createSignal("");
  const text = props.status.text;
  let form!: HTMLFormElement;
  let field!: HTMLInputElement;
  takeFocus(() => form);
  const save = async (): Promise<void> => {
    const text = field.value.trim();
    setTried(text);
    const why = await props.watches.edit(props.status.id, text);
    setFault(why);
    if (why === "") props.onClose();
  };
  return (
    <form
      ref={form}
      class="watch-form"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
      onKeyDown={(event) => {
        keepKey(event);
        if (event.key === "Escape") props.onClose();
      }}
    >
      <input
        ref={field}
        class="m"
        classList={{ bad: fault() !== "" }}
        aria-label="Watch"
        aria-invalid={fault() !== ""}
        spellcheck={false}
        data-testid="watch-edit-text"
        value={text}
        onInput={() => setFault("")}
      />
      <button type="submit" class="btn" data-testid="watch-save">
        Save
      </button>
      <IconButton small icon="close" label="Cancel" onClick={() => props.onClose()} />
      <FieldError text={fault()} condition={tried()} />
    </form>
  );
}
