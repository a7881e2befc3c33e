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

const BACK: readonly StepButton[] = [
  {
    testid: "reverse-continue",
    icon: "rewind",
    title: "Back to the last breakpoint",
    keys: "R",
    command: { type: "continue" },
  },
  {
    testid: "step-back",
    icon: "back",
    title: "Back to the node before",
    keys: "B",
    command: { type: "step_node" },
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
    if (state === "recorded") return "this is a recording: no program runs";
    if (state === "lost") return "the program is gone";
    if (!live()) return "the program has ended";
    return running() ? "the program is running" : "not now";
  };
  const past = (): boolean => props.store.cursor().kind === "past";
  const recorded = (): boolean => linked() && (props.store.model()?.seq ?? 0) > 0;
  const walks = (): boolean => stopped() || (recorded() && (past() || !live()));
  const rewinds = (): boolean => recorded() && !(running() && !past());
  const send = (command: Command): void => void props.store.control(command);
  return (
    <div class="debugger" role="toolbar" aria-label="Debugger">
      <button
        type="button"
        class="go"
        data-testid="continue"
        disabled={!walks()}
        title={
          walks()
            ? `Continue${stopped() && !past() ? "" : " through the recording"} (F5)`
            : `Continue (F5): ${why()}`
        }
        onClick={() => void props.store.walk({ type: "continue" })}
      >
        <Icon name="continue" />
        Continue
      </button>
      <IconButton
        icon="pause"
        label={running() ? "Pause (F6)" : `Pause (F6): ${stopped() ? "already paused" : why()}`}
        testid="pause"
        disabled={!running()}
        onClick={() => send({ type: "pause" })}
      />
      <For each={BACK}>
        {(step) => (
          <IconButton
            icon={step.icon}
            testid={step.testid}
            disabled={!rewinds()}
            label={`${step.title} (${step.keys})${rewinds() ? "" : `: ${why()}`}`}
            onClick={() => void props.store.travel(step.command, true)}
          />
        )}
      </For>
      <For each={STEPS}>
        {(step) => (
          <IconButton
            icon={step.icon}
            testid={step.testid}
            disabled={!walks()}
            label={`${step.title} (${step.keys})${walks() ? "" : `: ${why()}`}`}
            onClick={() => void props.store.walk(step.command)}
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
