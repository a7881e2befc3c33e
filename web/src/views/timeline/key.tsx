/**
 * The colours of the timeline by name: phases, and time between nodes.
 *
 * Invariant: rare phases are listed only in runs that have them.
 */

import { createMemo, For, type JSX } from "solid-js";
import type { Store } from "@/store/page/store";
import { PHASES } from "@/wire/types.gen";

const HOST = [
  ["data", "data"],
  ["waiting", "waiting"],
  ["python", "Python"],
  ["compiling", "compiling"],
  ["between", "between"],
] as const;

const TITLES = {
  data: "Data loading: fetching the next item of ns.steps",
  waiting: "Waiting: a sleep, a file, a lock, your input",
  python: "Python and libraries, by the line where the program was",
  compiling: "Tracing functions and compiling their graphs",
  between: "Between operations: Python and recording overhead",
} as const;

export function TimelineKey(props: { readonly store: Store }): JSX.Element {
  const phases = createMemo(
    () => {
      const nodes = props.store.model()?.graph.nodes ?? [];
      const recomputes = nodes.some((node) => node?.phase === "recompute");
      return PHASES.filter((phase) => phase !== "other" && (phase !== "recompute" || recomputes));
    },
    undefined,
    { equals: (a, b) => a.join() === b.join() },
  );
  const compiles = createMemo(
    () => props.store.model()?.graph.nodes.some((node) => (node?.graph ?? 0) > 0) ?? false,
  );
  return (
    <span class="phase-key wide">
      <For each={phases()}>
        {(phase) => (
          <span>
            <span class={`sw ph-${phase}`} aria-hidden="true" />
            {phase}
          </span>
        )}
      </For>
      <For each={HOST.filter(([kind]) => kind !== "compiling" || compiles())}>
        {([kind, name]) => (
          <span title={TITLES[kind]}>
            <span class={`sw host-${kind}`} aria-hidden="true" />
            {name}
          </span>
        )}
      </For>
    </span>
  );
}
