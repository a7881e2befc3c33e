/**
 * One value at two moments: what differs, by how much, where, and the distribution of differences.
 *
 * Invariant: all elements are compared if both are available; otherwise the statistics are, and the
 * reason is given.
 */

import { type Accessor, createMemo, For, type JSX, Show } from "solid-js";
import { formatCount, formatIndex, formatNumber, MINUS } from "@/base/numbers";
import { printable } from "@/base/printable";
import {
  type Moment,
  type Moments,
  missing,
  momentWords,
  statisticRows,
  verdict,
} from "@/store/history/value_diff";
import { answered, createQuery, failureOf } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import { createWindow, IndexChips, Pager, VECTOR_WINDOW, WINDOW } from "@/views/inspector/slicing";
import { Histogram } from "@/widgets/charts";
import { HeatMap } from "@/widgets/heat_map";
import { IconButton } from "@/widgets/icon";
import { decodeElements } from "@/wire/decode";
import type { CompareMoments, EditRow, ElementPair, MomentsCompared } from "@/wire/types.gen";

export interface DiffPanelProps {
  readonly store: Store;
  readonly moments: Moments;
  readonly theme: string;
  readonly value: number;
  readonly refresh: Accessor<unknown>;
  /** The previous execution: A, unless a moment is held. */
  readonly before: Moment | undefined;
  /** The user's edit of this value. */
  readonly edits: readonly EditRow[];
}

export function DiffPanel(props: DiffPanelProps): JSX.Element {
  const window = createWindow(props.store, () => props.value);
  const earlier = (): Moment | undefined => props.moments.held() ?? props.before;
  const answer = createQuery(
    props.store,
    "moments_compared",
    (): CompareMoments | undefined => {
      const run = props.store.runId();
      const from = earlier();
      if (run === undefined || from === undefined) return undefined;
      return {
        type: "compare_moments",
        run,
        value: props.value,
        one: from.seq,
        other: props.moments.other()?.seq ?? props.store.seq(),
        ...window.request(),
      };
    },
    props.refresh,
    (before, after) =>
      before.type === "compare_moments" &&
      after.type === "compare_moments" &&
      before.value === after.value,
  );
  const compared = createMemo(() => answered(answer()));
  const failure = () => failureOf(answer());
  return (
    <div class="diff" data-testid="diff">
      <Sides {...props} one={earlier()} comparison={compared()} />
      <Show when={props.edits.length > 0}>
        <div class="diff-edits">
          <For each={props.edits.slice(-4)}>
            {(edit) => (
              <button
                type="button"
                class="btn diff-edit"
                data-testid="diff-edit"
                title={`Before and after: ${edit.how}`}
                onClick={() => props.moments.edited(edit)}
              >
                <span class="ell">
                  edited in step {formatCount(edit.step)}: {printable(edit.how, 120)}
                </span>
              </button>
            )}
          </For>
        </div>
      </Show>
      <Show
        when={earlier() !== undefined}
        fallback={
          <p class="empty">
            No earlier execution. Press <kbd>M</kbd> to mark this moment as A, then move with the
            slider, <kbd>F8</kbd> or a row of Steps.
          </p>
        }
      >
        <Show when={failure()}>{(text) => <p class="empty">{text()}</p>}</Show>
        <Show when={compared()}>
          {(now) => (
            <Compared
              comparison={now()}
              theme={props.theme}
              onIndex={window.setIndex}
              onWindow={window.moveTo}
            />
          )}
        </Show>
      </Show>
    </div>
  );
}

/** A and B, and the actions on them. */
function Sides(
  props: DiffPanelProps & {
    readonly one: Moment | undefined;
    readonly comparison: MomentsCompared | undefined;
  },
): JSX.Element {
  const other = (): Moment => props.moments.other() ?? props.moments.here();
  const hasHeld = () => props.moments.held() !== undefined;
  const note = (side: MomentsCompared["one"] | undefined, moment: Moment | undefined): string => {
    if (side === undefined || moment === undefined) return "";
    if (!side.found) return "not computed yet";
    return side.step === moment.step ? "" : `from step ${formatCount(side.step)}`;
  };
  return (
    <div class="diff-sides">
      <div class="diff-side">
        <b class="moment-a">A</b>
        <Show when={props.one} fallback={<span class="t3">none</span>}>
          {(moment) => (
            <>
              <button
                type="button"
                class="link ell"
                title="Go to this moment"
                onClick={() => void props.store.seek(moment().seq)}
              >
                {momentWords(moment())}
              </button>
              <span class="t3 small ell">
                {[hasHeld() ? "" : "the previous execution", note(props.comparison?.one, moment())]
                  .filter(Boolean)
                  .join(", ")}
              </span>
            </>
          )}
        </Show>
      </div>
      <div class="diff-side">
        <b class="moment-b">B</b>
        <span class="ell">{momentWords(other())}</span>
        <span class="t3 small ell">
          {[
            props.moments.other() === undefined ? "shown" : "",
            note(props.comparison?.other, other()),
          ]
            .filter(Boolean)
            .join(", ")}
        </span>
      </div>
      <span class="diff-acts">
        <IconButton
          small
          icon="hold"
          testid="diff-hold"
          label="Mark the moment shown as A (M)"
          onClick={() => props.moments.hold()}
        />
        <IconButton
          small
          icon="swap"
          testid="diff-swap"
          label="Swap: go to A and mark this moment (X)"
          disabled={!hasHeld()}
          onClick={() => props.moments.swap()}
        />
        <IconButton
          small
          icon="close"
          testid="diff-clear"
          label="Release A"
          disabled={!hasHeld()}
          onClick={() => props.moments.clear()}
        />
      </span>
    </div>
  );
}

function Compared(props: {
  readonly comparison: MomentsCompared;
  readonly theme: string;
  onIndex(index: readonly number[]): void;
  onWindow(row: number, col: number): void;
}): JSX.Element {
  const measure = () => props.comparison.measure;
  const facts = (): readonly (readonly [string, string])[] => [
    ["max abs", formatNumber(measure().max_abs)],
    ["max rel", formatNumber(measure().max_rel)],
    ["ULP", formatNumber(measure().ulp)],
    [
      "beyond tolerance",
      measure().mismatched === null
        ? "–"
        : `${formatNumber(100 * (measure().mismatched ?? 0), 3)}\u202f%`,
    ],
  ];
  return (
    <>
      <p class="diff-verdict" data-testid="diff-verdict">
        {verdict(props.comparison)}
      </p>
      <Show when={missing(props.comparison)}>{(text) => <p class="t3 small">{text()}</p>}</Show>
      <Show when={measure().source !== "none" && !props.comparison.same}>
        <dl class="kv wide2" data-testid="diff-facts">
          <For each={facts()}>
            {([name, text]) => (
              <div>
                <dt>{name}</dt>
                <dd>{text}</dd>
              </div>
            )}
          </For>
        </dl>
        <Place name="first" pair={props.comparison.first} />
        <Place name="largest" pair={props.comparison.largest} />
      </Show>
      <Show when={(props.comparison.differ ?? 0) > 0 && measure().elements > 1}>
        <Gap {...props} />
      </Show>
      <Show when={!props.comparison.same && statisticRows(props.comparison).length > 0}>
        <table class="diff-table">
          <thead>
            <tr>
              <th>
                <span class="sr">Statistic</span>
              </th>
              <th class="r">A</th>
              <th class="r">B</th>
              <th class="r">B − A</th>
            </tr>
          </thead>
          <tbody>
            <For each={statisticRows(props.comparison)}>
              {(row) => (
                <tr>
                  <td class="t3">{row.name}</td>
                  <td class="r m">{row.one}</td>
                  <td class="r m">{row.other}</td>
                  <td class="r m" classList={{ t3: row.difference === "=" }}>
                    {row.difference}
                  </td>
                </tr>
              )}
            </For>
          </tbody>
        </table>
      </Show>
    </>
  );
}

function Place(props: { readonly name: string; readonly pair: ElementPair | null }): JSX.Element {
  return (
    <Show when={props.pair}>
      {(pair) => (
        <p class="diff-place m" data-testid={`diff-${props.name}`}>
          <span class="t3 diff-place-name">{props.name}</span>
          <Show when={pair().at.length > 0}>
            <span class="t3">{formatIndex(pair().at)}</span>
          </Show>
          <Numeral text={pair().one} /> <span class="t3">→</span> <Numeral text={pair().other} />
        </p>
      )}
    </Show>
  );
}

/** A number in Python notation, converted to the page's form: `-6.3e-06` as `−6.3e−6`. */
export function numeralText(text: string): string {
  return text.replace(/e\+?(-?)0*(\d)/g, "e$1$2").replaceAll("-", MINUS);
}

/** A number as text; NaN and Inf by name and in their colour. */
function Numeral(props: { readonly text: string }): JSX.Element {
  const named = () => {
    if (props.text === "nan") return { text: "NaN", tone: "nan" };
    const infinite = /^([+-]?)inf$/.exec(props.text);
    if (infinite === null) return { text: numeralText(props.text), tone: "" };
    return { text: `${infinite[1] === "-" ? MINUS : "+"}Inf`, tone: "inf" };
  };
  return <span class={named().tone}>{named().text}</span>;
}

/** The differences as a picture, and their distribution. */
function Gap(props: {
  readonly comparison: MomentsCompared;
  readonly theme: string;
  onIndex(index: readonly number[]): void;
  onWindow(row: number, col: number): void;
}): JSX.Element {
  const window = createMemo(() => {
    const [row, col, rows, cols] = props.comparison.window;
    const data =
      props.comparison.data.byteLength > 0
        ? decodeElements(props.comparison.data, rows * cols)
        : new Float64Array(0);
    return { row, col, rows, cols, data };
  });
  const summary = () => props.comparison.difference;
  /** Zero is the middle of the scale. */
  const range = (): readonly [number, number] | undefined => {
    const { min, max } = summary() ?? { min: null, max: null };
    if (min === null || max === null) return undefined;
    const most = Math.max(Math.abs(min), Math.abs(max));
    return most > 0 ? [-most, most] : undefined;
  };
  return (
    <div class="diff-gap">
      <div class="h">
        <span class="lab">B − A by element</span>
        <span class="sp" />
        <Pager
          slice={props.comparison}
          onWindow={props.onWindow}
          stride={props.comparison.shape.length < 2 ? VECTOR_WINDOW : WINDOW}
          quiet={false}
        />
      </div>
      <Show when={props.comparison.shape.length > 2}>
        <IndexChips
          shape={props.comparison.shape}
          index={props.comparison.index}
          onChange={props.onIndex}
        />
      </Show>
      <div class="diff-pictures">
        <HeatMap
          data={window().data}
          rows={window().rows}
          cols={window().cols}
          row={window().row}
          col={window().col}
          index={props.comparison.index}
          rank={props.comparison.shape.length}
          range={range()}
          scale="div"
          theme={props.theme}
        />
        <Show when={summary()}>
          {(spread) => (
            <div class="diff-spread">
              <Histogram
                counts={spread().histogram}
                min={spread().min}
                max={spread().max}
                nan={spread().nan_count}
                inf={spread().inf_count}
                colour="--change"
              />
              <p class="mi t3">of {formatCount(props.comparison.measure.elements)}, log count</p>
            </div>
          )}
        </Show>
      </div>
    </div>
  );
}
