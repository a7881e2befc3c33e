/**
 * The debugger's buttons, in the usual order and with the usual keys of debuggers.
 *
 * Invariant: an unavailable button is disabled and says why.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { abilities } from "@/store/debugger/abilities";
import type { Store } from "@/store/page/store";
import { Icon, IconButton, type IconName } from "@/widgets/icon";
import type { Command } from "@/wire/types.gen";

interface StepButton {
  readonly testid: string;
  readonly icon: IconName;
  readonly title: string;
  readonly keys: string;
  readonly command: Command;
}

const STEPS: readonly StepButton[] = [
  {
    testid: "step-over",
    icon: "over",
    title: "Step over this scope",
    keys: "F10",
    command: { type: "step_over" },
  },
  {
    testid: "step-node",
    icon: "node",
    title: "Step to the next node",
    keys: "F11",
    command: { type: "step_node" },
  },
  {
    testid: "step-in",
    icon: "into",
    title: "Step into the next scope",
    keys: "Ctrl F11",
    command: { type: "step_in" },
  },
  {
    testid: "step-out",
    icon: "out",
    title: "Step out of this scope",
    keys: "⇧F11",
    command: { type: "step_out" },
  },
  {
    testid: "next-step",
    icon: "next",
    title: "Run to the next training step",
    keys: "F8",
    command: { type: "next_step" },
  },
  {
    testid: "step-twin",
    icon: "twin",
    title: "Run to the backward node, or go back to the forward node",
    keys: "⇧F10",
    command: { type: "step_twin" },
  },
];

const BACK: readonly (StepButton & { readonly needs: "back" | "reverse" })[] = [
  {
    needs: "reverse",
    testid: "reverse-continue",
    icon: "rewind",
    title: "Back to the last breakpoint",
    keys: "R",
    command: { type: "continue" },
  },
  {
    needs: "back",
    testid: "step-back",
    icon: "back",
    title: "Back to the previous node",
    keys: "B",
    command: { type: "step_node" },
  },
];

export function DebuggerBar(props: { readonly store: Store }): JSX.Element {
  const can = createMemo(() => abilities(props.store));
  const live = (): boolean =>
    props.store.link().kind === "open" && props.store.model()?.info.state === "live";
  const stands = (): boolean =>
    props.store.stop() !== undefined && props.store.cursor().kind === "live";
  /** Whether commands go to the program; otherwise they move through the recording. */
  const ofProgram = (): boolean => stands() || (live() && props.store.cursor().kind === "live");
  const send = (command: Command): void => void props.store.control(command);
  const named = (title: string, keys: string, why: string): string =>
    `${title} (${keys})${why === "" ? "" : `: ${why}`}`;
  return (
    <div class="debugger" role="toolbar" aria-label="Debugger">
      <button
        type="button"
        class="go"
        classList={{ past: !ofProgram() }}
        data-testid="continue"
        disabled={can().continue !== ""}
        title={named(
          ofProgram() ? "Continue" : "Continue through the recording",
          "F5",
          can().continue,
        )}
        onClick={() => void props.store.walk({ type: "continue" })}
      >
        <Icon name="continue" />
        Continue
      </button>
      <IconButton
        icon="pause"
        label={named("Pause", "F6", can().pause)}
        testid="pause"
        disabled={can().pause !== ""}
        onClick={() => send({ type: "pause" })}
      />
      <For each={BACK}>
        {(step) => (
          <IconButton
            icon={step.icon}
            testid={step.testid}
            disabled={can()[step.needs] !== ""}
            label={named(step.title, step.keys, can()[step.needs])}
            onClick={() => void props.store.travel(step.command, true)}
          />
        )}
      </For>
      <For each={STEPS}>
        {(step) => (
          <IconButton
            icon={step.icon}
            testid={step.testid}
            disabled={can().step !== ""}
            label={named(step.title, step.keys, can().step)}
            onClick={() => void props.store.walk(step.command)}
          />
        )}
      </For>
      <Show when={can().detach === ""}>
        <IconButton
          icon="detach"
          testid="detach"
          label="Detach: let the program run on without stopping"
          onClick={() => send({ type: "detach" })}
        />
      </Show>
    </div>
  );
}
