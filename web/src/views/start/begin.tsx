/**
 * How to begin: the commands, and a file to open.
 */

import { createSignal, type JSX, Show } from "solid-js";
import { Icon } from "@/widgets/icon";

/** The ways to begin a run; all of them while there is none. */
export function Begin(props: {
  readonly waits: boolean;
  readonly first: boolean;
  readonly busy: boolean;
  take(file: File | undefined): void;
}): JSX.Element {
  let chosen!: HTMLInputElement;
  return (
    <section class="start-begin" classList={{ first: props.first }} data-testid="start-begin">
      <h2>{props.first ? "No run yet" : "Start another run"}</h2>
      <dl>
        <div>
          <dt>
            <Typed text="nodescope run train.py" />
          </dt>
          <dd>a script with its arguments, under the debugger</dd>
        </div>
        <Show
          when={props.waits}
          fallback={
            <div>
              <dt>
                <Typed text="nodescope serve" />
              </dt>
              <dd>waits for programs and notebooks that call ns.attach()</dd>
            </div>
          }
        >
          <div>
            <dt>
              <Typed text="import nodescope as ns; ns.attach()" />
            </dt>
            <dd>
              in a program or a notebook: this server waits for it, and the run appears here
              automatically
            </dd>
          </div>
        </Show>
        <Show when={props.first}>
          <div>
            <dt>
              <Typed text="nodescope demo" />
            </dt>
            <dd>a small network that learns handwritten digits</dd>
          </div>
          <div>
            <dt>
              <Typed text="nodescope open run.nscope" />
            </dt>
            <dd>a recording from anywhere</dd>
          </div>
        </Show>
        <div>
          <dt>
            <button
              type="button"
              class="btn"
              disabled={props.busy}
              data-testid="start-file"
              onClick={() => chosen.click()}
            >
              {props.busy ? "Opening…" : "Open a file…"}
            </button>
            <input
              ref={chosen}
              type="file"
              hidden
              data-testid="start-file-input"
              onChange={(event) => {
                props.take(event.currentTarget.files?.[0]);
                event.currentTarget.value = "";
              }}
            />
          </dt>
          <dd>
            or drop it here: a recording, ONNX, TensorFlow (.pb, .pbtxt), DOT, Model Explorer
            (.json)
          </dd>
        </div>
      </dl>
    </section>
  );
}

function Typed(props: { readonly text: string }): JSX.Element {
  const [copied, setCopied] = createSignal(false);
  return (
    <button
      type="button"
      class="typed m"
      title="Copy"
      onClick={() =>
        void navigator.clipboard?.writeText(props.text).then(
          () => setCopied(true),
          () => setCopied(false),
        )
      }
    >
      {props.text}
      <span class="typed-copied t3">{copied() ? "copied" : <Icon name="copy" size={12} />}</span>
    </button>
  );
}
