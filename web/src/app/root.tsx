/**
 * Root: which page the address requests: a run, the comparison of two, or the list of all.
 *
 * Invariant: only this file knows all of them; switching changes the address.
 */

import {
  createEffect,
  createMemo,
  createRenderEffect,
  createSignal,
  type JSX,
  onCleanup,
  onMount,
  Show,
} from "solid-js";
import { App, type AppProps } from "@/app/app";
import type { GraphView } from "@/render/scene/types";
import { type CompareAddress, readCompare, type Side, writeCompare } from "@/store/history/compare";
import { ComparePage } from "@/views/compare/compare_page";
import { type CompareState, createCompare } from "@/views/compare/state";
import { StartPage } from "@/views/start/start_page";

const START = "#runs";

export interface RootProps extends Omit<AppProps, "showRuns"> {
  /** Whether the list of runs is shown. */
  onStart(shown: boolean): void;
  readonly compare: CompareAddress | undefined;
  onCompare(
    state: CompareState | undefined,
    views: Readonly<Partial<Record<Side, GraphView>>>,
  ): void;
}

export function Root(props: RootProps): JSX.Element {
  const [compare, setCompare] = createSignal(props.compare);
  const [startAsked, setAsked] = createSignal(location.hash === START);
  /** Whether to show the list: it was requested, or there is nothing else to show. */
  const start = createMemo(
    () =>
      startAsked() ||
      (props.store.link().kind === "open" &&
        props.store.runId() === undefined &&
        props.store.runs().length === 0),
  );
  createRenderEffect(() => props.onStart(start()));
  const showRuns = (): void => {
    history.pushState(null, "", `${location.pathname}${START}`);
    setAsked(true);
  };
  const openRun = (run: string): void => {
    history.pushState(null, "", `${location.pathname}#run=${run}`);
    setAsked(false);
    props.store.openRun(run);
  };
  // The user went back from a run to the comparison, or typed another address.
  const onPop = (): void => {
    const wanted = readCompare(location.hash);
    if (wanted !== undefined) setCompare(wanted);
    setAsked(location.hash === START);
  };
  onMount(() => {
    window.addEventListener("popstate", onPop);
    onCleanup(() => window.removeEventListener("popstate", onPop));
  });
  return (
    <Show
      when={compare()}
      keyed
      fallback={
        <Show when={start()} fallback={<App {...props} showRuns={showRuns} />}>
          <StartPage
            store={props.store}
            preferences={props.preferences}
            openRun={openRun}
            openComparison={(eager, compiled) => {
              history.pushState(null, "", `${location.pathname}#compare=${eager},${compiled}`);
              setAsked(false);
              setCompare(readCompare(location.hash));
            }}
          />
        </Show>
      }
    >
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
    const run = props.store.runs().find((candidate) => candidate.id === props.address.compiled);
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
