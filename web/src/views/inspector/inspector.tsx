/**
 * The inspector: the selected item, why the program is stopped there, its value and its origin.
 *
 * Invariant: the most informative part comes first, and everything refers to the moment shown.
 */

import {
  createEffect,
  createMemo,
  createSignal,
  For,
  type JSX,
  Match,
  Show,
  Switch,
} from "solid-js";

import { printable } from "@/base/printable";
import { leafName } from "@/base/scopes";
import { reasonWords, stopWords } from "@/store/debugger/stop_words";
import type { MarkedNodes } from "@/store/debugger/watch_marks";
import type { Branches } from "@/store/debugger/what_if";
import type { Moments } from "@/store/history/value_diff";
import type { Why } from "@/store/history/why";
import type { Store } from "@/store/page/store";
import { throttled } from "@/store/page/throttled";
import type { InspectorTab, Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import { foreignTo, offers, withheldWords } from "@/store/run/capabilities";
import { leftOutWords } from "@/store/run/keeping";
import { familyColour } from "@/store/run/node_text";
import { earlierWords, gradientOf, leftOutAt } from "@/store/run/run_model";
import { withoutPlace } from "@/store/run/summary";
import { Attributes } from "@/views/inspector/attributes_panel";
import { DiffPanel } from "@/views/inspector/diff_panel";
import {
  createHistory,
  executionBefore,
  StepsPanel,
  TimePanel,
} from "@/views/inspector/history_panel";
import { InputsPanel } from "@/views/inspector/inputs_panel";
import { MarkedNote } from "@/views/inspector/marked_note";
import { RewiredNote } from "@/views/inspector/rewired_note";
import { ScopeInspector } from "@/views/inspector/scope_inspector";
import { SourcePanel } from "@/views/inspector/source_panel";
import { ValuePanel } from "@/views/inspector/value_panel";
import { WhyPanel } from "@/views/inspector/why_panel";
import { Tabs } from "@/widgets/controls";
import { IconButton } from "@/widgets/icon";
import {
  type BreakpointStatus,
  FAILED,
  type Frame,
  type Node,
  type Stop,
  type ValueSlice,
} from "@/wire/types.gen";

export interface InspectorProps {
  readonly store: Store;
  readonly ui: Ui;
  readonly why: Why;
  readonly branches: Branches;
  readonly moments: Moments;
  readonly theme: string;
  /** Selects a node and brings it into view. */
  go(item: Item): void;
  /** Shows a node at a moment. */
  visit(node: number, seq: number): void;
  readonly marked: MarkedNodes;
  /** The last error of a node, or "". */
  errorOf(node: number): string;
  /** Queries the recording for all hits of a watch. */
  askWatch(text: string): void;
  /** Rings a node on the canvas, or none. */
  point(node: number | undefined): void;
  onSlice(node: number, slice: ValueSlice | undefined): void;
}

const RUNNING_REFRESH_MS = 400;
const NO_FRAMES: readonly Frame[] = [];

export function Inspector(props: InspectorProps): JSX.Element {
  const subject = createMemo(() => props.store.subject());
  const node = createMemo(() => {
    const item = subject();
    return item?.kind === "node" ? props.store.model()?.graph.nodes[item.id] : undefined;
  });
  return (
    <Show
      when={subject()}
      fallback={
        <p class="empty pad">
          Nothing selected. Click a node or a scope
          {props.store.stop() === undefined ? "." : ", or press F10 to take a step."}
        </p>
      }
    >
      {(item) => (
        <Switch>
          <Match when={node()}>
            {(now) => (
              <NodeInspector
                {...props}
                node={now()}
                pinned={props.store.pinned() !== undefined}
                onPin={() => props.store.setPinned(props.store.pinned() === undefined)}
              />
            )}
          </Match>
          <Match when={item().kind === "scope"}>
            <ScopeInspector store={props.store} go={props.go} path={scopePath(item())} />
          </Match>
        </Switch>
      )}
    </Show>
  );
}

function scopePath(item: Item): string {
  return item.kind === "scope" ? item.path : "";
}

const TABS: readonly { readonly id: InspectorTab; readonly title: string }[] = [
  { id: "value", title: "Value" },
  { id: "gradient", title: "Gradient" },
  { id: "inputs", title: "Inputs" },
  { id: "steps", title: "Steps" },
  { id: "diff", title: "Diff" },
  { id: "why", title: "Why" },
];

function NodeInspector(
  props: InspectorProps & {
    readonly node: Node;
    readonly pinned: boolean;
    onPin(): void;
  },
): JSX.Element {
  const [port, setPort] = createSignal(0);
  const id = createMemo(() => props.node.id);
  createEffect(() => {
    id();
    setPort(0);
  });
  const value = createMemo(() => props.node.outputs[port()] ?? props.node.outputs[0]);
  // The value changes when the node runs again; at a stop, the refresh is not throttled.
  const ran = createMemo(() => {
    props.store.tick();
    const columns = props.store.shown();
    return columns.seq[id()] ?? 0;
  });
  const calm = throttled(ran, RUNNING_REFRESH_MS);
  const refresh = createMemo(() => {
    const stop = props.store.stop();
    return stop === undefined ? `${calm()}` : `${ran()} ${stop.seq} ${stop.edits.length}`;
  });
  const gradient = createMemo(() => {
    const model = props.store.model();
    const at = value();
    return model === undefined || at === undefined
      ? undefined
      : gradientOf(model, at, props.store.seq() ?? undefined);
  });
  const gradientRan = createMemo(
    () => {
      refresh();
      props.store.tick();
      const producer = props.store.model()?.graph.values.get(gradient() ?? -1)?.producer;
      const columns = props.store.shown();
      return producer == null
        ? undefined
        : { seq: columns.seq[producer] ?? 0, step: columns.step[producer] ?? 0, node: producer };
    },
    undefined,
    { equals: (a, b) => a?.seq === b?.seq && a?.node === b?.node },
  );
  const gradientRefresh = throttled(gradientRan, RUNNING_REFRESH_MS);
  const history = createHistory(props.store, id, throttled(refresh, 250));
  const stop = createMemo(() => {
    const now = props.store.cursor().kind === "live" ? props.store.stop() : undefined;
    return now?.node === id() ? now : undefined;
  });
  const failed = createMemo(() => {
    ran();
    return ((props.store.shown().flags[id()] ?? 0) & FAILED) !== 0;
  });
  const leftOut = createMemo(() => {
    const cursor = props.store.cursor();
    const model = props.store.model();
    if (cursor.kind !== "past" || model === undefined) return "";
    return leftOutAt(model.steps, cursor.seq, leftOutWords(model.governed));
  });
  /**
   * A note that the value shown belongs to an earlier step; while the program runs, it soon belongs
   * to this one.
   */
  const earlier = createMemo(() => {
    const { store } = props;
    const live = store.cursor().kind === "live" && store.model()?.info.state === "live";
    if (live && store.stop() === undefined) return "";
    ran();
    const from = store.shown().step[id()] ?? 0;
    // Step 0 is before the first: values made there, above all parameters, belong to no step.
    if (from === 0 || leftOut() || from >= store.step()) return "";
    const model = store.model();
    return earlierWords(model?.steps ?? [], from, store.step(), leftOutWords(model?.governed));
  });
  /**
   * When the node took its inputs, just before it ran: its result may share the id of an input. If
   * the node raised, it made no result, and its inputs may be recorded with the error.
   */
  const took = (): number | null => {
    const at = ran();
    if (failed()) return at;
    return at === 0 || stop()?.when === "before" ? props.store.seq() : at - 1;
  };
  const tabs = () =>
    TABS.filter(({ id: tab }) => tab !== "gradient" || offers(props.store, "gradients", id()));
  const timed = () => offers(props.store, "timing", id());
  /** A tab missing for this node may have been chosen at another one. */
  const tab = (): InspectorTab =>
    tabs().some((shown) => shown.id === props.ui.inspectorTab())
      ? props.ui.inspectorTab()
      : "value";
  const absent = () =>
    props.store.cursor().kind === "past"
      ? "No value yet at this moment. Move the slider to the right."
      : stop()?.when === "before"
        ? "About to run: no value yet."
        : "Not run yet: no value.";

  return (
    <>
      <header class="insp-head">
        <div class="insp-names">
          <div class="row insp-first">
            <h2 class="ell" data-testid="inspector-title">
              {printable(leafName(props.node.name))}
            </h2>
            <span class="insp-family t3">
              <span class="sw" style={{ background: `var(${familyColour(props.node.family)})` }} />
              {props.node.family === props.node.op
                ? props.node.family
                : `${props.node.family}, ${props.node.op}`}
              <Show when={foreignTo(props.node)}>{(name) => ` · ${printable(name(), 40)}`}</Show>
            </span>
          </div>
          <div class="mi t3 ell" title={props.node.name} data-testid="inspector-path">
            {props.node.name}
          </div>
        </div>
        <IconButton
          icon="pin"
          label={props.pinned ? "Unpin: follow the selection" : "Pin this node"}
          pressed={props.pinned}
          onClick={() => props.onPin()}
        />
        <IconButton
          icon="copy"
          label="Copy the name"
          onClick={() =>
            void navigator.clipboard?.writeText(props.node.name).then(
              () => props.store.notify("ok", "Name copied."),
              () => props.store.notify("error", "The browser did not allow copying."),
            )
          }
        />
      </header>
      <Show when={stop()}>
        {(why) => (
          <div
            class="stop"
            classList={{ failed: why().reason === "exception" }}
            data-testid="inspector-reason"
          >
            <Show
              when={why().reason === "watch"}
              fallback={<span class={`bdot ${stopDot(why())}`} />}
            >
              <span class="wmark" />
            </Show>
            <span class="stop-text">
              <b>{stopWords(why())}</b>
              {why().error === "" ? ` ${printable(leafName(why().node_name))}` : ""}.{" "}
              {printable(
                withoutPlace(
                  reasonWords(why(), breakpointOf(props.store, why())?.breakpoint),
                  why().error === "" ? props.node.source : undefined,
                ),
                2000,
              )}
            </span>
            <Show when={breakpointOf(props.store, why())?.hits}>
              {(count) => <span class="mi t2">hit {count()}</span>}
            </Show>
            <Show when={why().edits.length > 0}>
              <div class="stop-edits">
                <For each={why().edits}>
                  {(edit) => (
                    <span class="stop-edit mi" data-testid="edited">
                      {printable(edit)}
                    </span>
                  )}
                </For>
              </div>
            </Show>
          </div>
        )}
      </Show>
      <Show when={failed() && stop() === undefined}>
        <div class="stop failed" data-testid="inspector-failed">
          <span class="bdot enabled" />
          <span class="stop-text">
            <b>Raised an error.</b> {printable(props.errorOf(id()), 2000)}
          </span>
        </div>
      </Show>
      <Show when={props.store.found()?.node === id() ? props.store.found() : undefined}>
        {(reached) => (
          <div class="stop found" data-testid="inspector-found">
            <span class="bdot enabled" />
            <span class="stop-text">
              <b>Found in the recording.</b> {printable(reached().text, 2000)}
            </span>
          </div>
        )}
      </Show>
      <MarkedNote
        node={id()}
        marked={props.marked.get(id())}
        visit={props.visit}
        ask={props.askWatch}
      />
      <RewiredNote store={props.store} node={props.node} go={props.go} />
      <div class="head insp-tabs">
        <Tabs label="Inspector" tabs={tabs()} active={tab()} onSelect={props.ui.setInspectorTab} />
        <span class="sp" />
        <Show when={props.node.outputs.length > 1}>
          <For each={props.node.outputs}>
            {(_, i) => (
              <button
                type="button"
                class="btn"
                classList={{ on: port() === i() }}
                onClick={() => setPort(i())}
              >
                out {i()}
              </button>
            )}
          </For>
        </Show>
      </div>
      <div class="insp-body">
        <Switch>
          <Match when={tab() === "value"}>
            <section class="sec" data-testid="inspector-value">
              <Show when={leftOut()}>{(why) => <p class="empty">{why()}</p>}</Show>
              <Show when={earlier()}>
                {(words) => (
                  <p class="gradient-note t3" data-testid="value-earlier">
                    {words()}
                  </p>
                )}
              </Show>
              <Show
                when={failed() ? undefined : value()}
                fallback={
                  <p class="empty">
                    {failed() ? "It raised an error, so it has no value." : "No output."}
                  </p>
                }
              >
                {(at) => (
                  <ValuePanel
                    store={props.store}
                    ui={props.ui}
                    why={props.why}
                    branches={props.branches}
                    moments={props.moments}
                    theme={props.theme}
                    value={at()}
                    refresh={refresh}
                    colour={familyColour(props.node.family)}
                    absent={absent()}
                    onSlice={(slice) => props.onSlice(id(), slice)}
                  />
                )}
              </Show>
            </section>
          </Match>
          <Match when={tab() === "gradient"}>
            <section class="sec" data-testid="inspector-gradient">
              <Show when={gradient()} fallback={<p class="empty">{noGradient(props.node)}</p>}>
                {(at) => (
                  <>
                    <Show when={gradientRan()}>
                      {(from) => (
                        <p class="gradient-note t3">
                          {from().step < props.store.step() ? `From step ${from().step} (` : ""}
                          <button
                            type="button"
                            class="link"
                            onClick={() => props.go({ kind: "node", id: from().node })}
                          >
                            {props.store.model()?.graph.nodes[from().node]?.name}
                          </button>
                          {from().step < props.store.step()
                            ? "). Not reached yet in this step."
                            : ""}
                        </p>
                      )}
                    </Show>
                    <ValuePanel
                      store={props.store}
                      ui={props.ui}
                      why={props.why}
                      branches={props.branches}
                      moments={props.moments}
                      theme={props.theme}
                      value={at()}
                      refresh={gradientRefresh}
                      colour="--ph-backward"
                      absent="The backward pass has not reached this node yet."
                    />
                  </>
                )}
              </Show>
            </section>
          </Match>
          <Match when={tab() === "inputs"}>
            <section class="sec" data-testid="inspector-inputs">
              <InputsPanel
                store={props.store}
                node={props.node}
                seq={took()}
                refresh={refresh}
                branches={props.branches}
                onJump={(to) => props.go({ kind: "node", id: to })}
              />
            </section>
          </Match>
          <Match when={tab() === "steps"}>
            <section class="sec" data-testid="inspector-steps">
              <StepsPanel
                history={history()}
                theme={props.theme}
                seq={props.store.seq()}
                timed={timed()}
                held={props.moments.held()?.seq}
                onPick={(seq) => void props.store.seek(seq)}
                onHold={(seq, step) => props.moments.hold({ seq, step })}
              />
            </section>
          </Match>
          <Match when={tab() === "diff"}>
            <section class="sec" data-testid="inspector-diff">
              <Show when={value()} fallback={<p class="empty">No output.</p>}>
                {(at) => (
                  <DiffPanel
                    store={props.store}
                    moments={props.moments}
                    theme={props.theme}
                    value={at()}
                    refresh={refresh}
                    before={executionBefore(history())}
                    edits={(history()?.edits ?? []).filter((edit) => edit.value === at())}
                  />
                )}
              </Show>
            </section>
          </Match>
          <Match when={tab() === "why"}>
            <section class="sec" data-testid="inspector-why">
              <WhyPanel
                branches={props.branches}
                store={props.store}
                why={props.why}
                visit={props.visit}
                point={props.point}
              />
            </section>
          </Match>
        </Switch>
        <Show when={tab() === "value" && withheldWords(props.store, id())}>
          {(words) => (
            <p class="withheld t3 small" data-testid="withheld">
              {printable(words(), 400)}
            </p>
          )}
        </Show>
        <SourcePanel
          store={props.store}
          source={props.node.source}
          stack={stop()?.stack ?? NO_FRAMES}
          raised={(stop()?.error ?? "") !== ""}
        />
        <Show when={!failed() && timed() && !["steps", "diff", "why"].includes(tab())}>
          <TimePanel
            history={history()}
            theme={props.theme}
            onPick={(seq) => void props.store.seek(seq)}
            onHold={(seq, step) => props.moments.hold({ seq, step })}
          />
        </Show>
        <Attributes node={props.node} go={props.go} store={props.store} refresh={calm} />
      </div>
    </>
  );
}

function breakpointOf(store: Store, stop: Stop): BreakpointStatus | undefined {
  return store
    .session()
    ?.breakpoints.find((breakpoint) => breakpoint.breakpoint.id === stop.breakpoint);
}

function noGradient(node: Node): string {
  if (node.phase !== "forward")
    return `A node of the ${node.phase} phase has no gradient of its own.`;
  return "No gradient yet. It appears once backward() reaches this node.";
}

/** Red for a breakpoint and for an error, as in the strip above. */
function stopDot(stop: Stop): string {
  return stop.breakpoint > 0 || stop.reason === "exception" ? "enabled" : "here";
}
