/**
 * Which page the address asks for: a run, or the comparison of two.
 *
 * Invariant: both know of each other here alone; going from one to the other changes the address.
 */

import {
  createEffect,
  createRenderEffect,
  createSignal,
  type JSX,
  onCleanup,
  onMount,
  Show,
} from "solid-js";
import { App, type AppProps } from "@/app/app";
import { type CompareAddress, readCompare, type Side, writeCompare } from "@/store/compare";
import type { GraphView } from "@/render/types";
import { ComparePage } from "@/views/compare/compare_page";
import { type CompareState, createCompare } from "@/views/compare/state";

export interface RootProps extends AppProps {
  readonly compare: CompareAddress | undefined;
  onCompare(
    state: CompareState | undefined,
    views: Readonly<Partial<Record<Side, GraphView>>>,
  ): void;
}

export function Root(props: RootProps): JSX.Element {
  const [compare, setCompare] = createSignal(props.compare);
  // Back from a run to the comparison, or another address typed in.
  const onPop = (): void => {
    const wanted = readCompare(location.hash);
    if (wanted !== undefined) setCompare(wanted);
  };
  onMount(() => {
    window.addEventListener("popstate", onPop);
    onCleanup(() => window.removeEventListener("popstate", onPop));
  });
  return (
    <Show when={compare()} keyed fallback={<App {...props} />}>
      {(address) => (
        <Compared
          {...props}
          address={address}
          openRun={(run) => {
            history.pushState(null, "", `${location.pathname}#run=${run}`);
            props.onCompare(undefined, {});
            props.store.openRun(run);
            setCompare(undefined);
          }}
        />
      )}
    </Show>
  );
}

function Compared(
  props: RootProps & { readonly address: CompareAddress; openRun(run: string): void },
): JSX.Element {
  const state = createCompare(props.address);
  props.onCompare(state, {});
  createRenderEffect(() => {
    document.documentElement.dataset.theme = props.preferences.theme();
  });
  createEffect(() => {
    history.replaceState(null, "", `${location.pathname}#${writeCompare(state.address())}`);
  });
  const name = (): string => {
    const run = props.store.runs().find((each) => each.id === props.address.compiled);
    return (run?.name ?? "").replace(/ · compiled$/, "");
  };
  createEffect(() => {
    document.title = [name(), "eager and compiled", "nodescope"].filter(Boolean).join(" · ");
  });
  return (
    <ComparePage
      state={state}
      preferences={props.preferences}
      name={name()}
      openRun={(run) => props.openRun(run)}
      onViews={(views) => props.onCompare(state, views)}
    />
  );
}
