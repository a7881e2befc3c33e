/**
 * The debugger's buttons, in the order and with the keys of every debugger.
 *
 * Invariant: a button that can do nothing now is disabled and says why.
 */

import { For, type JSX, Show } from "solid-js";
import type { Store } from "@/store/store";
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
    title: "Run to its backward node, or back to its forward node",
    keys: "⇧F10",
    command: { type: "step_twin" },
  },
];

export function DebuggerBar(props: { readonly store: Store }): JSX.Element {
  const linked = (): boolean => props.store.link().kind === "open";
  const live = (): boolean => linked() && props.store.model()?.info.state === "live";
  const stopped = (): boolean => live() && props.store.stop() !== undefined;
  const running = (): boolean => live() && props.store.session()?.phase === "running";
  const why = (): string => {
    if (!linked()) return "not connected";
    const state = props.store.model()?.info.state;
    if (state === "recorded") return "this is a recording; start the program to debug it";
    if (state === "lost") return "the program is gone";
    if (!live()) return "the program has ended";
    return running() ? "the program is running" : "not now";
  };
  const send = (command: Command): void => void props.store.control(command);
  return (
    <div class="debugger" role="toolbar" aria-label="Debugger">
      <button
        type="button"
        class="go"
        data-testid="continue"
        disabled={!stopped()}
        title={stopped() ? "Continue (F5)" : `Continue (F5): ${why()}`}
        onClick={() => send({ type: "continue" })}
      >
        <Icon name="continue" />
        Continue
      </button>
      <IconButton
        icon="pause"
        label={running() ? "Pause (F6)" : `Pause (F6): ${stopped() ? "it stands already" : why()}`}
        testid="pause"
        disabled={!running()}
        onClick={() => send({ type: "pause" })}
      />
      <For each={STEPS}>
        {(step) => (
          <IconButton
            icon={step.icon}
            testid={step.testid}
            disabled={!stopped()}
            label={`${step.title} (${step.keys})${stopped() ? "" : `: ${why()}`}`}
            onClick={() => send(step.command)}
          />
        )}
      </For>
      <Show when={live() && props.store.session()?.phase !== "detached"}>
        <IconButton
          icon="detach"
          testid="detach"
          label="Detach: let the program run to its end without stopping"
          onClick={() => send({ type: "detach" })}
        />
      </Show>
    </div>
  );
}
