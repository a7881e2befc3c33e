/**
 * A value at the moment shown: shape, picture or numbers, statistics, distribution.
 *
 * Invariant: elements are requested by window, never as a whole; if there are none, the reason is
 * given.
 */

import { type Accessor, createEffect, createMemo, type JSX, Show } from "solid-js";
import { finiteRange, scaleFor } from "@/base/colour_scale";
import { elementCount, isInteger, tensorBytes } from "@/base/dtypes";
import { formatBytes, formatCount, formatNumber, formatShape, MINUS } from "@/base/numbers";
import { printable } from "@/base/printable";
import { branchable, editable } from "@/store/debugger/editing";
import type { Branches } from "@/store/debugger/what_if";
import { type Moments, momentWords } from "@/store/history/value_diff";
import type { Why } from "@/store/history/why";
import { answered, createQuery, failureOf } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import { ChannelGrid, channelAxis } from "@/views/inspector/channel_grid";
import { EditForm } from "@/views/inspector/edit_form";
import { createWindow, IndexChips, Pager, VECTOR_WINDOW, WINDOW } from "@/views/inspector/slicing";
import { Statistics } from "@/views/inspector/statistics";
import { Histogram, Sparkline } from "@/widgets/charts";
import { Segmented } from "@/widgets/controls";
import { HeatMap } from "@/widgets/heat_map";
import { IconButton } from "@/widgets/icon";
import { NumberGrid } from "@/widgets/number_grid";
import { decodeElements } from "@/wire/decode";
import { typeOf } from "@/wire/spec";
import type { GetValue, TensorSummary, ValueSlice } from "@/wire/types.gen";

/** Up to this many elements, the numbers come first. */
const SMALL = 64;

export interface ValuePanelProps {
  readonly store: Store;
  readonly ui: Ui;
  readonly why: Why;
  readonly branches: Branches;
  readonly moments: Moments;
  readonly theme: string;
  readonly value: number;
  /** Changes when the value may have changed. */
  readonly refresh: Accessor<unknown>;
  readonly colour: string;
  /** The text if the value has not been computed by the moment shown. */
  readonly absent: string;
  onSlice?(slice: ValueSlice | undefined): void;
}

export function ValuePanel(props: ValuePanelProps): JSX.Element {
  const window = createWindow(props.store, () => props.value);
  const answer = createQuery(
    props.store,
    "value_slice",
    (): GetValue | undefined => {
      const run = props.store.runId();
      if (run === undefined) return undefined;
      return {
        type: "get_value",
        run,
        value: props.value,
        seq: props.store.seq(),
        branch: props.branches.valuesOf(),
        ...window.request(),
      };
    },
    props.refresh,
    (before, after) =>
      before.type === "get_value" && after.type === "get_value" && before.value === after.value,
  );
  const slice = createMemo(() => answered(answer()));
  createEffect(() => props.onSlice?.(slice()));
  const failure = () => failureOf(answer());

  const live = () => editable(props.store, props.value);
  const branching = () => branchable(props.store, props.value);

  return (
    <div class="value">
      <Show when={failure()}>{(text) => <p class="empty">{text()}</p>}</Show>
      <Show when={slice()}>
        {(now) => (
          <Show when={now().found} fallback={<p class="empty">{props.absent}</p>}>
            <BranchNote branches={props.branches} slice={now()} />
            <Head
              slice={now()}
              edit={
                live()
                  ? `Edit this value: continue with it${branching() ? ", or try a what-if" : ""} (E)`
                  : branching()
                    ? "What if this value were different? (E)"
                    : ""
              }
              onEdit={() => props.ui.setEditing(!props.ui.editing())}
              moments={props.moments}
            />
            <Show when={props.ui.editing() && (live() || branching())}>
              <EditForm
                store={props.store}
                branches={props.branches}
                value={props.value}
                onClose={() => props.ui.setEditing(false)}
              />
            </Show>
            <Show when={now().shape.length > 2}>
              <IndexChips shape={now().shape} index={now().index} onChange={window.setIndex} />
            </Show>
            <Elements {...props} slice={now()} onWindow={window.moveTo} onIndex={window.setIndex} />
            <Show
              when={now().summary}
              fallback={
                <p class="empty">
                  <Show
                    when={["graph", "timing"].includes(props.store.model()?.info.level ?? "")}
                    fallback="No statistics were kept for this execution."
                  >
                    No statistics at the capture level {props.store.model()?.info.level}. Run with{" "}
                    <code>--level summary</code> to have them.
                  </Show>
                </p>
              }
            >
              {(summary) => (
                <Show
                  when={
                    summary().histogram.length > 0 &&
                    elementCount(now().shape) > 1 &&
                    summary().min !== summary().max
                  }
                >
                  <div class="h">
                    <span class="lab">Distribution</span>
                    <span class="sp" />
                    <span class="mi t3">
                      {formatCount(elementCount(now().shape))} elements, log count
                    </span>
                  </div>
                  <Histogram
                    counts={summary().histogram}
                    min={summary().min}
                    max={summary().max}
                    nan={summary().nan_count}
                    inf={summary().inf_count}
                    colour={props.colour}
                  />
                </Show>
              )}
            </Show>
          </Show>
        )}
      </Show>
    </div>
  );
}

/** Which of two values is shown: that of the branch, or the recorded one. */
function BranchNote(props: {
  readonly branches: Branches;
  readonly slice: ValueSlice;
}): JSX.Element {
  const shown = () =>
    props.slice.branch > 0 || props.branches.asRecorded() ? props.branches.shown() : null;
  return (
    <Show when={shown()}>
      {(branch) => (
        <div class="row branch-value" data-testid="branch-value">
          <span class="ell" title={branch().name}>
            {props.branches.asRecorded() ? "As recorded, without " : "What if: "}
            <b>{printable(branch().name, 80)}</b>
          </span>
          <span class="sp" />
          <button type="button" class="btn" onClick={() => props.branches.turn()}>
            {props.branches.asRecorded() ? "Show the branch" : "Show as recorded"}
          </button>
        </div>
      )}
    </Show>
  );
}

function Head(props: {
  readonly slice: ValueSlice;
  /** The effect of the pencil; "" for none. */
  readonly edit: string;
  onEdit(): void;
  readonly moments: Moments;
}): JSX.Element {
  const heldMoment = () => props.moments.held();
  const dtype = () => typeOf(props.slice.spec ?? props.slice.summary?.spec);
  return (
    <div class="row value-head">
      <span class="m">
        {dtype()} {formatShape(props.slice.shape)}
        <Show when={dtype().startsWith("complex")}>
          <span class="t3"> magnitudes</span>
        </Show>
      </span>
      <span class="sp" />
      <span class="m t2">
        {formatBytes(props.slice.summary?.nbytes ?? tensorBytes(props.slice.shape, dtype()))}
      </span>
      <Show when={heldMoment()}>
        {(moment) => (
          <button
            type="button"
            class="btn moment-chip"
            data-testid="moment-chip"
            title={`Compare with ${momentWords(moment())} (D)`}
            onClick={() => props.moments.show()}
          >
            <b class="moment-a">A</b> {momentWords(moment())}
          </button>
        )}
      </Show>
      <IconButton
        small
        icon="hold"
        testid="moment-hold"
        label="Mark this moment as A for comparison (M)"
        onClick={() => props.moments.hold()}
      />
      <Show when={props.edit}>
        <IconButton
          small
          icon="edit"
          testid="value-edit"
          label={props.edit}
          onClick={() => props.onEdit()}
        />
      </Show>
    </div>
  );
}

function Elements(
  props: ValuePanelProps & {
    readonly slice: ValueSlice;
    onWindow(row: number, col: number): void;
    onIndex(index: readonly number[]): void;
  },
): JSX.Element {
  const window = createMemo(() => {
    const [row, col, rows, cols] = props.slice.window;
    const data =
      props.slice.available && props.slice.data.byteLength > 0
        ? decodeElements(props.slice.data, rows * cols)
        : new Float64Array(0);
    return { row, col, rows, cols, data };
  });
  const count = () => elementCount(props.slice.shape);
  const scalar = () => count() === 1;
  /** The number that all elements equal; undefined if there is none. */
  const constant = (): number | undefined => {
    const summary = props.slice.summary;
    if (summary === null || summary.nan_count + summary.inf_count > 0) return undefined;
    return summary.min === summary.max ? (summary.min ?? undefined) : undefined;
  };
  const why = (row: number, col: number): void => {
    const rank = props.slice.shape.length;
    const at = rank < 2 ? [Math.max(row, col)].slice(0, rank) : [...props.slice.index, row, col];
    props.why.ask(props.value, at, props.slice.seq);
  };
  const vector = () => props.slice.grid[0] === 1 || props.slice.grid[1] === 1;
  const small = () => count() <= SMALL;
  const form = () => (small() ? props.ui.smallForm() : props.ui.valueForm());
  const range = createMemo((): readonly [number, number] | undefined => {
    const { summary } = props.slice;
    return summary?.min !== undefined && summary.min !== null && summary.max !== null
      ? [summary.min, summary.max]
      : undefined;
  });
  const colours = createMemo(() => {
    const all = range() ?? finiteRange(window().data);
    return all === undefined ? undefined : scaleFor(all);
  });
  const single = () =>
    window().data[0] ?? props.slice.summary?.preview[0] ?? props.slice.summary?.mean ?? undefined;
  return (
    <Show
      when={!scalar()}
      fallback={
        <div class="scalar m" classList={{ nan: Number.isNaN(single() ?? 0) }}>
          {scalarText(single(), props.slice)}
        </div>
      }
    >
      <Show when={count() === 0}>
        <p class="constant t3">No elements: a dimension is 0.</p>
      </Show>
      <Show
        when={constant() === undefined}
        fallback={
          <>
            <div class="scalar m">{formatNumber(constant(), 7)}</div>
            <p class="constant t3">in all {formatCount(count())} elements</p>
            <Statistics summary={props.slice.summary} wide={true} />
          </>
        }
      >
        <Show
          when={props.slice.available && count() > 0}
          fallback={
            <div class="unkept">
              <Show when={count() > 0}>
                <p class="t2">{props.slice.reason || "The elements were not kept."}</p>
              </Show>
              <Show when={(props.slice.summary?.preview.length ?? 0) > 0}>
                <p class="mi t3 ell">
                  {props.slice.summary?.preview.map((number) => formatNumber(number, 4)).join("  ")}{" "}
                  …
                </p>
              </Show>
              <Statistics summary={props.slice.summary} wide={true} />
            </div>
          }
        >
          <div class="row value-form">
            <Segmented
              label="View as"
              active={form()}
              options={[
                { id: "picture", title: "Picture" },
                { id: "numbers", title: "Numbers" },
              ]}
              onSelect={(now) => (small() ? props.ui.setSmallForm : props.ui.setValueForm)(now)}
            />
            <span class="sp" />
            <Pager
              slice={props.slice}
              onWindow={props.onWindow}
              stride={props.slice.shape.length < 2 ? VECTOR_WINDOW : WINDOW}
              quiet={form() === "numbers"}
            />
          </div>
          <Show
            when={form() === "picture"}
            fallback={
              <>
                <NumberGrid
                  rows={props.slice.grid[0]}
                  cols={props.slice.grid[1]}
                  vector={vector()}
                  window={window()}
                  onWindow={props.onWindow}
                  onPick={why}
                />
                <Statistics summary={props.slice.summary} wide={true} />
              </>
            }
          >
            <Show when={channelAxis(props.slice.shape) >= 0}>
              <ChannelGrid
                store={props.store}
                slice={props.slice}
                range={range()}
                theme={props.theme}
                onPick={props.onIndex}
              />
            </Show>
            <Show when={props.slice.shape.length === 1 && window().data.length > 2}>
              <VectorLine
                data={window().data}
                first={Math.max(window().row, window().col)}
                theme={props.theme}
                onPick={(at) => why(0, at)}
              />
            </Show>
            <div class="picture">
              <HeatMap
                data={window().data}
                rows={window().rows}
                cols={window().cols}
                row={window().row}
                col={window().col}
                index={props.slice.index}
                rank={props.slice.shape.length}
                range={colours()?.range}
                scale={colours()?.scale ?? "seq"}
                theme={props.theme}
                onPick={why}
              />
              <Statistics summary={props.slice.summary} wide={false} />
            </div>
          </Show>
        </Show>
      </Show>
    </Show>
  );
}

/** A vector plotted over its index. */
function VectorLine(props: {
  readonly data: Float64Array;
  readonly first: number;
  readonly theme: string;
  onPick(at: number): void;
}): JSX.Element {
  const range = () => finiteRange(props.data);
  const words = () =>
    `Elements ${props.first} to ${props.first + props.data.length - 1}, from ` +
    `${formatNumber(range()?.[0], 4)} to ${formatNumber(range()?.[1], 4)}. Click one to ask why.`;
  return (
    <div class="value-line" data-testid="value-line" title={words()}>
      <Sparkline
        values={[...props.data]}
        label={words()}
        theme={props.theme}
        onPick={(at) => props.onPick(props.first + at)}
      />
      <div class="row mi t3">
        <span>{formatCount(props.first)}</span>
        <span>{formatCount(props.first + props.data.length - 1)}</span>
      </div>
    </div>
  );
}

function scalarText(value: number | undefined, slice: ValueSlice): string {
  const { summary } = slice;
  if (value === undefined) return summary === null ? "not kept" : nameless(summary);
  // A count is shown to its last digit.
  if (isInteger(typeOf(slice.spec)) && Number.isSafeInteger(value)) {
    return `${value < 0 ? MINUS : ""}${formatCount(Math.abs(value))}`;
  }
  return formatNumber(value, 7);
}

function nameless(summary: TensorSummary): string {
  if (summary.nan_count > 0) return "NaN";
  return summary.inf_count > 0 ? "Inf" : "not kept";
}
