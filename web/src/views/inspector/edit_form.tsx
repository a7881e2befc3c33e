/**
 * Changes a value: whole, some elements, or from a file; in the program, or as a what-if.
 *
 * Invariant: the program is changed only where it is stopped; at any recorded moment the same edit
 * can be tried beside the recording. Refused input stays in the form, with the reason.
 */

import { createSignal, For, type JSX, Match, Show, Switch } from "solid-js";
import { keepKey } from "@/base/keys";
import { plural } from "@/base/numbers";
import { printable } from "@/base/printable";
import { branchable, editable } from "@/store/debugger/editing";
import type { Branches } from "@/store/debugger/what_if";
import type { Store } from "@/store/page/store";
import { FieldError } from "@/widgets/field_error";
import { takeFocus } from "@/widgets/focus";
import { IconButton } from "@/widgets/icon";
import type { SetValue } from "@/wire/types.gen";

type How = NonNullable<SetValue["how"]>;

const HOWS: readonly { readonly id: How; readonly title: string; readonly hint: string }[] = [
  { id: "set", title: "set to", hint: "0" },
  { id: "add", title: "add", hint: "0.1" },
  { id: "scale", title: "scale by", hint: "0.5" },
  { id: "clip", title: "clip to", hint: "" },
  { id: "noise", title: "add noise of", hint: "0.01" },
  { id: "npy", title: "load from file", hint: "" },
];
const NUMBERS: Readonly<Record<string, number>> = {
  nan: Number.NaN,
  inf: Number.POSITIVE_INFINITY,
  "-inf": Number.NEGATIVE_INFINITY,
};

export function EditForm(props: {
  readonly store: Store;
  readonly branches: Branches;
  readonly value: number;
  onClose(): void;
}): JSX.Element {
  let form!: HTMLFormElement;
  takeFocus(() => form, "[data-testid=edit-number]");
  const [how, setHow] = createSignal<How>("set");
  const [index, setIndex] = createSignal("");
  const [number, setNumber] = createSignal("");
  const [low, setLow] = createSignal("");
  const [high, setHigh] = createSignal("");
  const [seed, setSeed] = createSignal("0");
  const [file, setFile] = createSignal<File>();
  const [fault, setFault] = createSignal("");
  const [busy, setBusy] = createSignal(false);
  const live = () => editable(props.store, props.value);
  const branching = () => branchable(props.store, props.value);
  /**
   * The node at which the program is stopped after it ran, if the value is only one of its inputs.
   */
  const hasRun = () => {
    const stop = props.store.stop();
    const node = props.store.model()?.graph.nodes[stop?.node ?? -1];
    const only =
      stop?.when === "after" && node !== undefined && !node.outputs.includes(props.value);
    return only ? node.name : undefined;
  };
  /** Branches of this step, from which this one may start. */
  const bases = () =>
    props.branches
      .rows()
      .filter(
        (row) => row.info.step <= props.store.step() && props.store.step() <= row.info.last_step,
      );
  /** The chosen branch; if that branch changes this very value, the branch it starts from. */
  const shownBase = () => {
    const chosen = bases().find((row) => row.info.id === props.branches.chosen())?.info;
    if (chosen === undefined) return 0;
    const node = props.store.model()?.graph.nodes[chosen.node];
    const again = chosen.step === props.store.step() && node?.outputs.includes(props.value);
    return again ? chosen.parent : chosen.id;
  };
  const [far, setFar] = createSignal<number | null>(0);
  const [base, setBase] = createSignal<number | undefined>();
  /** The number of recorded steps after the moment's own. */
  const after = () => {
    const last = props.store.model()?.steps.at(-1)?.step ?? 0;
    return Math.max(0, last - props.store.step());
  };
  const fars = (): readonly { readonly steps: number | null; readonly title: string }[] => [
    { steps: 0, title: "to the end of this step" },
    ...[1, 10, 100]
      .filter((count) => count < after())
      .map((count) => ({ steps: count, title: `${plural(count, "more step")}` })),
    ...(after() > 0 ? [{ steps: null, title: `to the end, ${plural(after(), "more step")}` }] : []),
  ];
  const apply = async (whatIf: boolean): Promise<void> => {
    const numbers = [number(), low(), high(), seed()].map(read);
    if (numbers.some((number) => number === undefined)) {
      setFault("Not a number. nan, inf and -inf are accepted, too.");
      return;
    }
    if (how() !== "clip" && how() !== "npy" && number().trim() === "") {
      setFault("Enter a number.");
      return;
    }
    const chosen = file();
    if (how() === "npy" && chosen === undefined) {
      setFault("Choose a .npy file.");
      return;
    }
    const edit = {
      type: "set_value",
      value: props.value,
      how: how(),
      index: index().trim(),
      number: numbers[0] ?? 0,
      low: low().trim() === "" ? null : (numbers[1] ?? null),
      high: high().trim() === "" ? null : (numbers[2] ?? null),
      seed: Math.trunc(numbers[3] ?? 0),
      npy: chosen !== undefined && how() === "npy" ? await bytesOf(chosen) : new Uint8Array(),
    } as const;
    setBusy(true);
    const why = whatIf
      ? await props.branches.whatIf(edit, base() ?? shownBase(), far())
      : await props.store.refusal(edit);
    setBusy(false);
    setFault(why);
    if (why === "") props.onClose();
  };
  return (
    <form
      ref={form}
      class="edit-form"
      data-testid="edit-form"
      onKeyDown={(event) => {
        if (event.key === "Escape") props.onClose();
        keepKey(event);
      }}
      onInput={() => setFault("")}
      onSubmit={(event) => {
        event.preventDefault();
        void apply(!live());
      }}
    >
      <Field label="Elements" hint="all" text={index()} testid="index" onText={setIndex} />
      <select
        aria-label="How"
        value={how()}
        data-testid="edit-how"
        onChange={(event) => setHow(event.currentTarget.value as How)}
      >
        <For each={HOWS}>{(how) => <option value={how.id}>{how.title}</option>}</For>
      </select>
      <Switch
        fallback={
          <Field
            label="Number"
            hint={HOWS.find((candidate) => candidate.id === how())?.hint ?? ""}
            text={number()}
            testid="number"
            onText={setNumber}
          />
        }
      >
        <Match when={how() === "clip"}>
          <Field label="Lower bound" hint="low" text={low()} testid="low" onText={setLow} />
          <Field label="Upper bound" hint="high" text={high()} testid="high" onText={setHigh} />
        </Match>
        <Match when={how() === "npy"}>
          <input
            type="file"
            accept=".npy"
            aria-label="File"
            data-testid="edit-file"
            onChange={(event) => setFile(event.currentTarget.files?.[0])}
          />
        </Match>
      </Switch>
      <Show when={how() === "noise"}>
        <Field label="Seed" hint="0" text={seed()} testid="seed" onText={setSeed} />
      </Show>
      <Show when={branching() && bases().length > 0}>
        <select
          class="edit-base"
          aria-label="What-if: start from"
          title="What-if: start from"
          value={String(base() ?? shownBase())}
          data-testid="edit-base"
          onChange={(event) => setBase(Number(event.currentTarget.value))}
        >
          <option value="0">the recording</option>
          <For each={bases()}>
            {(row) => <option value={String(row.info.id)}>{row.info.name}</option>}
          </For>
        </select>
      </Show>
      <Show when={branching() && fars().length > 1}>
        <select
          class="edit-base"
          aria-label="What-if: how far to re-run"
          title="What-if: how far to re-run"
          value={String(far())}
          data-testid="edit-far"
          onChange={(event) => {
            const text = event.currentTarget.value;
            setFar(text === "null" ? null : Number(text));
          }}
        >
          <For each={fars()}>{(far) => <option value={String(far.steps)}>{far.title}</option>}</For>
        </select>
      </Show>
      <span class="form-does">
        <Show when={live()}>
          <button type="submit" class="btn" data-testid="edit-apply" disabled={busy()}>
            Apply
          </button>
        </Show>
        <Show when={branching()}>
          <button
            type={live() ? "button" : "submit"}
            class="btn"
            data-testid="edit-what-if"
            title="Re-run everything that depends on this value; the recording stays as it is"
            disabled={busy()}
            onClick={() => {
              if (live()) void apply(true);
            }}
          >
            {busy() ? "Running…" : "What if…"}
          </button>
        </Show>
        <IconButton small icon="close" label="Cancel" onClick={() => props.onClose()} />
      </span>
      <p class="t3">
        <Show
          when={live()}
          fallback="Everything that depends on it is re-run; the recording stays as it is. "
        >
          <Show
            when={hasRun()}
            fallback="Apply: the program continues with the new value, and gradients flow as if the operation had returned it. "
          >
            {(name) => (
              <span data-testid="edit-unaffected">
                Apply: {printable(name(), 120)} has already run with the old value and does not run
                again; only what reads it later gets the new one. To see it with the new value,{" "}
                {branching() ? "use What if, or stop before it" : "stop before it"}.{" "}
              </span>
            )}
          </Show>
          <Show when={branching()}>
            What if: the operations that depend on it are re-run, as far as the program has run.{" "}
          </Show>
        </Show>
        Elements in NumPy notation, <code>0, 2:5</code>, or <code>isnan</code>,{" "}
        <code>negative</code>; without any, all elements.
      </p>
      <FieldError text={fault()} condition="" />
    </form>
  );
}

function Field(props: {
  readonly label: string;
  readonly hint: string;
  readonly text: string;
  readonly testid: string;
  onText(text: string): void;
}): JSX.Element {
  return (
    <input
      class="m"
      aria-label={props.label}
      title={props.label}
      placeholder={props.hint}
      spellcheck={false}
      value={props.text}
      data-testid={`edit-${props.testid}`}
      onInput={(event) => props.onText(event.currentTarget.value)}
    />
  );
}

/** The number denoted by a text; 0 for empty text, undefined if it is not a number. */
function read(text: string): number | undefined {
  const plain = text.trim().toLowerCase();
  if (plain === "") return 0;
  if (plain in NUMBERS) return NUMBERS[plain];
  const number = Number(plain);
  return Number.isNaN(number) ? undefined : number;
}

async function bytesOf(file: File): Promise<Uint8Array> {
  return new Uint8Array(await file.arrayBuffer());
}
