/**
 * The form that adds a breakpoint, or changes one.
 *
 * Invariant: refused input stays in the form, with the reason; nothing typed is lost.
 */

import { batch, createSignal, For, type JSX, Show } from "solid-js";
import { keepKey } from "@/base/keys";
import {
  kindAndTarget,
  optionsText,
  specOf,
  stepsOf,
  stepsText,
} from "@/store/debugger/breakpoints";
import type { Store } from "@/store/page/store";
import { offers, withheldWords } from "@/store/run/capabilities";
import { FieldError } from "@/widgets/field_error";
import { takeFocus } from "@/widgets/focus";
import { IconButton } from "@/widgets/icon";
import { inWords } from "@/wire/socket";
import type { Breakpoint, BreakpointKind } from "@/wire/types.gen";

const KINDS: readonly {
  readonly id: BreakpointKind;
  readonly title: string;
  readonly hint: string;
}[] = [
  { id: "node", title: "node", hint: "loss/mean" },
  { id: "glob", title: "glob", hint: "hidden*/tanh" },
  { id: "regex", title: "regex", hint: "hidden_[12]/.*" },
  { id: "op", title: "op", hint: "softmax" },
  { id: "scope", title: "scope", hint: "loss" },
  { id: "source", title: "line", hint: "train.py:42" },
];
const PHASES = ["forward", "backward", "optimizer", "recompute", "other"] as const;
const MOST_NAMES = 400;

export type Wanted = Omit<Breakpoint, "id" | "enabled"> & Partial<Pick<Breakpoint, "enabled">>;

export function BreakpointForm(props: {
  readonly store: Store;
  /** The breakpoint to be changed; null for a new one. */
  readonly start: Breakpoint | null;
  /** "" if it was accepted, else the reason, for the user. */
  onSave(wanted: Wanted): Promise<string>;
  onClose(): void;
}): JSX.Element {
  let form!: HTMLFormElement;
  let target!: HTMLInputElement;
  const start = props.start;
  const [kind, setKind] = createSignal<BreakpointKind>(start?.kind ?? "node");
  const [when, setWhen] = createSignal(start?.when ?? "after");
  const [condition, setCondition] = createSignal(start?.condition ?? "");
  const [phase, setPhase] = createSignal(start?.phase ?? "");
  const [steps, setSteps] = createSignal(start === null ? "" : stepsText(start));
  const [hits, setHits] = createSignal(start?.hits ?? "");
  const [log, setLog] = createSignal(start?.log ?? "");
  const [group, setGroup] = createSignal(start?.group ?? "");
  const [once, setOnce] = createSignal(start?.once ?? false);
  const [more, setMore] = createSignal(start !== null);
  const [enabled, setEnabled] = createSignal(true);
  const [fault, setFault] = createSignal("");
  /** The text that the fault's column refers to, if not the condition. */
  const [faulty, setFaulty] = createSignal<string>();
  takeFocus(() => form, "[data-testid=breakpoint-target]");
  const names = () => {
    const graph = props.store.model()?.graph;
    const nodes = (graph?.nodes ?? []).flatMap((node) => (node ? [node] : []));
    if (kind() === "op") return [...new Set(nodes.map((node) => node.op))];
    if (kind() === "scope") {
      const scopes = [...(props.store.tree()?.scopes ?? [])];
      return scopes.flatMap(([path, { stack }]) => (path === "" || stack ? [] : [path]));
    }
    if (kind() === "source") {
      return [
        ...new Set(
          nodes.flatMap(({ source }) =>
            source ? [`${source.file.split(/[\\/]/).at(-1)}:${source.line}`] : [],
          ),
        ),
      ];
    }
    return [...(graph?.byName.keys() ?? [])];
  };
  /**
   * Fills the fields from a breakpoint typed in command-line syntax; returns whether that worked.
   */
  const read = async (text: string): Promise<boolean> => {
    const run = props.store.runId() ?? "";
    const { breakpoint, fault } = await props.store
      .request({ type: "read_breakpoint", run, text }, "breakpoint_read")
      .catch((error: unknown) => ({ breakpoint: null, fault: inWords(error) }));
    if (breakpoint === null) {
      setFaulty(text);
      setFault(fault);
      return false;
    }
    batch(() => {
      setKind(breakpoint.kind);
      target.value = breakpoint.target;
      if (breakpoint.when === "before") setWhen("before");
      if (breakpoint.condition !== "") setCondition(breakpoint.condition);
      if (breakpoint.phase !== "") setPhase(breakpoint.phase);
      if (stepsText(breakpoint) !== "") setSteps(stepsText(breakpoint));
      if (breakpoint.hits !== "") setHits(breakpoint.hits);
      if (breakpoint.log !== "") setLog(breakpoint.log);
      if (breakpoint.group !== "") setGroup(breakpoint.group);
      if (breakpoint.once) setOnce(true);
      setEnabled(breakpoint.enabled);
      if (optionsText({ ...breakpoint, when: "after" }).length > 0) setMore(true);
    });
    return true;
  };
  const submit = async (): Promise<void> => {
    const text = target.value.trim();
    const known = names().includes(text) || (text === start?.target && kind() === start.kind);
    const spec = known ? "" : specOf(kind(), text);
    setFaulty(undefined);
    if (spec === "" || (await read(spec))) save();
  };
  const save = (): void => {
    const typed = kindAndTarget(kind(), target.value);
    const text = typed.target;
    const range = stepsOf(steps());
    if (text === "") target.focus();
    else if (range === null) setFault(`“${steps()}” is not a range of steps: 3, 3.., ..7 or 3..7`);
    else {
      const wanted = {
        ...typed,
        when: when(),
        condition: condition().trim(),
        phase: phase(),
        ...range,
        hits: hits().trim(),
        log: log().trim(),
        once: once(),
        group: group().trim(),
        ...(enabled() ? {} : { enabled: false }),
      };
      void props.onSave(wanted).then(setFault);
    }
  };
  return (
    <form
      ref={form}
      class="bp-form"
      data-testid="breakpoint-form"
      onKeyDown={(event) => {
        if (event.key === "Escape") props.onClose();
        keepKey(event);
      }}
      onInput={() => setFault("")}
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <select
        aria-label="Kind"
        value={kind()}
        onChange={(event) => setKind(event.currentTarget.value as BreakpointKind)}
      >
        <For each={KINDS}>{(kind) => <option value={kind.id}>{kind.title}</option>}</For>
      </select>
      <input
        ref={target}
        class="m bp-target"
        classList={{ bad: fault() !== "" && faulty() !== undefined }}
        aria-invalid={fault() !== "" && faulty() !== undefined}
        aria-label="Where"
        list="bp-names"
        spellcheck={false}
        value={start?.target ?? ""}
        placeholder={KINDS.find((candidate) => candidate.id === kind())?.hint}
        data-testid="breakpoint-target"
      />
      <datalist id="bp-names">
        <For each={names().slice(0, MOST_NAMES)}>{(name) => <option value={name} />}</For>
      </datalist>
      <Show
        when={offers(props.store, "before")}
        fallback={
          <span class="t3" title={withheldWords(props.store, undefined, ["before"])}>
            after
          </span>
        }
      >
        <select
          aria-label="When"
          value={when()}
          onChange={(event) => setWhen(event.currentTarget.value as "before" | "after")}
        >
          <option value="after">after</option>
          <option value="before">before</option>
        </select>
      </Show>
      <input
        class="m bp-when"
        aria-label="Condition"
        placeholder="isnan(value).any()"
        spellcheck={false}
        value={condition()}
        data-testid="breakpoint-condition"
        classList={{ bad: fault() !== "" && faulty() === undefined }}
        aria-invalid={fault() !== "" && faulty() === undefined}
        onInput={(event) => setCondition(event.currentTarget.value)}
      />
      <span class="form-does">
        <button
          type="button"
          class="btn ghost"
          aria-expanded={more()}
          data-testid="breakpoint-more"
          onClick={() => setMore(!more())}
        >
          {more() ? "Less" : "More"}
        </button>
        <button type="submit" class="btn" data-testid="breakpoint-add">
          {start === null ? "Add" : "Save"}
        </button>
        <IconButton small icon="close" label="Cancel" onClick={() => props.onClose()} />
      </span>
      <FieldError text={fault()} condition={faulty() ?? condition()} />
      <Show when={more()}>
        <div class="bp-more">
          <label>
            Phase
            <select
              value={phase()}
              onChange={(event) => setPhase(event.currentTarget.value as Breakpoint["phase"])}
            >
              <option value="">any</option>
              <For each={PHASES}>{(phase) => <option value={phase}>{phase}</option>}</For>
            </select>
          </label>
          <Text label="Steps" hint="3..7" text={steps()} testid="steps" onText={setSteps} />
          <Text label="Hits" hint="% 5" text={hits()} testid="hits" onText={setHits} />
          <Text label="Group" hint="none" text={group()} testid="group" onText={setGroup} />
          <label class="bp-once">
            <input
              type="checkbox"
              checked={once()}
              data-testid="breakpoint-once"
              onChange={(event) => setOnce(event.currentTarget.checked)}
            />
            once
          </label>
          <Text
            label="Log instead of stopping"
            hint="loss {value} at {node}"
            text={log()}
            testid="log"
            wide
            onText={setLog}
          />
        </div>
      </Show>
    </form>
  );
}

function Text(props: {
  readonly label: string;
  readonly hint: string;
  readonly text: string;
  readonly testid: string;
  readonly wide?: boolean;
  onText(text: string): void;
}): JSX.Element {
  return (
    <label classList={{ "bp-long": props.wide ?? false }}>
      {props.label}
      <input
        class="m"
        spellcheck={false}
        placeholder={props.hint}
        value={props.text}
        data-testid={`breakpoint-${props.testid}`}
        onInput={(event) => props.onText(event.currentTarget.value)}
      />
    </label>
  );
}
