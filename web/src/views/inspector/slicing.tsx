/**
 * The part of a tensor being viewed: the index of its leading axes, and the window of the last two.
 *
 * Invariant: sends no requests; the view that shows a slice requests the chosen one.
 */

import { type Accessor, createEffect, createSignal, For, type JSX, on, Show } from "solid-js";
import { shownPlane } from "@/base/fold";
import { formatCount, formatShape } from "@/base/numbers";
import type { Store } from "@/store/page/store";
import { valueShown } from "@/store/run/past_values";
import { shapeOf } from "@/wire/spec";
import type { ValueSlice } from "@/wire/types.gen";

export const WINDOW = 128;
/** For a vector, as many elements at once as the server sends. */
export const VECTOR_WINDOW = 512;

/** The part of a value being viewed; starts at its beginning when another value is shown. */
export function createWindow(store: Store, value: Accessor<number>) {
  const [index, setIndex] = createSignal<readonly number[]>([]);
  const [corner, setCorner] = createSignal<readonly [number, number]>([0, 0]);
  createEffect(
    on(
      value,
      () => {
        setIndex([]);
        setCorner([0, 0]);
      },
      { defer: true },
    ),
  );
  return {
    setIndex,
    moveTo: (row: number, col: number): void => void setCorner([row, col]),
    /** The corresponding part of a request. */
    request() {
      const [row, col] = corner();
      const rank = shapeOf(valueShown(store, value())?.value.spec)?.length ?? 2;
      const size = rank < 2 ? VECTOR_WINDOW : WINDOW;
      return { index: index(), row, col, rows: size, cols: size };
    },
  };
}

export type Sliced = Pick<ValueSlice, "window" | "grid">;

export function IndexChips(props: {
  readonly shape: readonly number[];
  readonly index: readonly number[];
  onChange(index: readonly number[]): void;
}): JSX.Element {
  const leading = () => props.shape.slice(0, -2);
  const move = (axis: number, by: number): void => {
    const next = leading().map((size, i) => {
      const at = props.index[i] ?? 0;
      return i === axis ? (at + by + size) % size : at;
    });
    props.onChange(next);
  };
  return (
    <div class="chips" role="group" aria-label="Index of the leading axes">
      <For each={leading()}>
        {(size, axis) => (
          <span class="stepper">
            <i>axis {axis()}</i>
            <button
              type="button"
              aria-label={`Axis ${axis()}: previous`}
              onClick={() => move(axis(), -1)}
            >
              ‹
            </button>
            <b class="m">{props.index[axis()] ?? 0}</b>
            <button
              type="button"
              aria-label={`Axis ${axis()}: next`}
              onClick={() => move(axis(), 1)}
            >
              ›
            </button>
            <i>of {size}</i>
          </span>
        )}
      </For>
      <span class="stepper">
        <i>
          axes {props.shape.length - 2}, {props.shape.length - 1}
        </i>{" "}
        :
      </span>
    </div>
  );
}

export function Pager(props: {
  readonly slice: Sliced;
  readonly quiet: boolean;
  /** Elements of a full window, along either axis. */
  readonly stride: number;
  onWindow(row: number, col: number): void;
}): JSX.Element {
  const parts = () => {
    const [row, col, rows, cols] = props.slice.window;
    const [allRows, allCols] = props.slice.grid;
    return { row, col, rows, cols, allRows, allCols };
  };
  const whole = () => parts().rows >= parts().allRows && parts().cols >= parts().allCols;
  const step = (rows: number, cols: number): void => {
    const now = parts();
    const turn = (at: number, by: number, all: number): number => {
      const next = at + by * props.stride;
      return next >= all
        ? 0
        : next < 0
          ? Math.floor((all - 1) / props.stride) * props.stride
          : next;
    };
    props.onWindow(turn(now.row, rows, now.allRows), turn(now.col, cols, now.allCols));
  };
  const words = () => {
    const { rows, cols, allRows, allCols } = parts();
    if (allRows !== 1 && allCols !== 1) return formatShape(props.slice.grid);
    const plane = shownPlane(rows, cols);
    const folded = plane.rows > 1 && !props.quiet;
    return `${formatCount(allRows * allCols)} elements${
      folded ? `, shown as ${formatShape([plane.rows, plane.cols])}` : ""
    }`;
  };
  return (
    <Show when={!props.quiet && !whole()} fallback={<span class="mi t3">{words()}</span>}>
      <Show when={parts().allRows > parts().rows}>
        <button type="button" class="btn" title="More rows" onClick={() => step(1, 0)}>
          rows {parts().row}–{parts().row + parts().rows - 1} of {formatCount(parts().allRows)} ›
        </button>
      </Show>
      <Show when={parts().allCols > parts().cols}>
        <button type="button" class="btn" title="More columns" onClick={() => step(0, 1)}>
          {parts().allRows === 1 ? "elements" : "cols"} {parts().col}–
          {parts().col + parts().cols - 1} of {formatCount(parts().allCols)} ›
        </button>
      </Show>
    </Show>
  );
}
