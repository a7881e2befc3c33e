/**
 * The trace in one line above the graph: its start, its depth and its summary.
 *
 * Invariant: shown exactly while there is a trace.
 */

import { type JSX, Match, Show, Switch } from "solid-js";
import type { ShownTrace, Tracing } from "@/store/page/tracing";
import { IconButton } from "@/widgets/icon";

const TITLES = { inputs: "Inputs of", outputs: "Outputs of", paths: "Paths" } as const;
const KEYS = { inputs: "I", outputs: "U", paths: "J" } as const;

export function TraceChip(props: { readonly tracing: Tracing }): JSX.Element {
  return (
    <Show when={props.tracing.shown()}>
      {(trace) => (
        <div class="trace-chip" data-testid="trace">
          <span class="ell" role="status">
            <span class="t3">{TITLES[trace().kind]} </span>
            <b class="m" title={trace().from}>
              {trace().from}
            </b>
            <Show when={trace().to}>
              {(to) => (
                <>
                  <span class="t3"> to </span>
                  <b class="m" title={to()}>
                    {to()}
                  </b>
                </>
              )}
            </Show>
            <span class="t2" data-testid="trace-words">
              {`: ${trace().words}`}
            </span>
          </span>
          <Show when={trace().kind !== "paths"}>
            <Depth tracing={props.tracing} trace={trace()} />
          </Show>
          <IconButton
            small
            icon="close"
            label="End the trace (Esc)"
            testid="trace-end"
            onClick={() => props.tracing.end()}
          />
        </div>
      )}
    </Show>
  );
}

function Depth(props: { readonly tracing: Tracing; readonly trace: ShownTrace }): JSX.Element {
  const depth = () => props.trace.depth;
  return (
    <span class="trace-depth" role="group" aria-label="Depth of the trace">
      <button
        type="button"
        disabled={depth() <= 1 || depth() === Number.POSITIVE_INFINITY}
        aria-label="One step less"
        title="One step less"
        onClick={() => props.tracing.setDepth(depth() - 1)}
      >
        −
      </button>
      <span class="m" data-testid="trace-depth">
        <Switch fallback={`${depth()} deep`}>
          <Match when={depth() === Number.POSITIVE_INFINITY}>all</Match>
          <Match when={!props.trace.more}>{depth()} deep, all</Match>
        </Switch>
      </span>
      <button
        type="button"
        disabled={!props.trace.more}
        aria-label="One step more"
        title={`One step more (${KEYS[props.trace.kind]})`}
        onClick={() => props.tracing.setDepth(depth() + 1)}
      >
        +
      </button>
      <button
        type="button"
        disabled={!props.trace.more}
        data-testid="trace-all"
        title="To its end"
        onClick={() => props.tracing.setDepth(Number.POSITIVE_INFINITY)}
      >
        all
      </button>
    </span>
  );
}
