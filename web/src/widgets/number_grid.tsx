/**
 * Elements as numbers: a table that scrolls over the whole slice and loads windows of it.
 *
 * Invariant: only cells in sight exist; what is not loaded is asked for and shown as
 * dots meanwhile.
 */

import {
  createEffect,
  createMemo,
  createSignal,
  For,
  type JSX,
  onCleanup,
  onMount,
} from "solid-js";
import { formatNumber } from "@/base/numbers";

export interface GridWindow {
  readonly row: number;
  readonly col: number;
  readonly rows: number;
  readonly cols: number;
  readonly data: Float64Array;
}

const ROW = 18;
const COL = 74;
const HEAD = 44;
/** Windows start at multiples of this, so that a small scroll asks for nothing. */
export const WINDOW_STEP = 64;

export function NumberGrid(props: {
  readonly rows: number;
  readonly cols: number;
  readonly window: GridWindow;
  onWindow(row: number, col: number): void;
}): JSX.Element {
  let host!: HTMLDivElement;
  const [view, setView] = createSignal({ top: 0, left: 0, width: 300, height: 200 });
  const measure = (): void => {
    setView({
      top: host.scrollTop,
      left: host.scrollLeft,
      width: host.clientWidth,
      height: host.clientHeight,
    });
  };
  onMount(() => {
    const resize = new ResizeObserver(measure);
    resize.observe(host);
    measure();
    onCleanup(() => resize.disconnect());
  });
  const span = createMemo(() => {
    const { top, left, width, height } = view();
    const row = Math.max(0, Math.floor(top / ROW));
    const col = Math.max(0, Math.floor(left / COL));
    return {
      row,
      col,
      rows: Math.max(0, Math.min(props.rows - row, Math.ceil(height / ROW) + 1)),
      cols: Math.max(0, Math.min(props.cols - col, Math.ceil(width / COL) + 1)),
    };
  });
  createEffect(() => {
    const { row, col, rows, cols } = span();
    const has = props.window;
    const inside =
      row >= has.row &&
      col >= has.col &&
      row + rows <= has.row + has.rows &&
      col + cols <= has.col + has.cols;
    if (!inside && rows > 0 && cols > 0) {
      props.onWindow(row - (row % WINDOW_STEP), col - (col % WINDOW_STEP));
    }
  });
  const range = (from: number, count: number) => Array.from({ length: count }, (_, i) => from + i);
  const cell = (row: number, col: number): number | undefined => {
    const has = props.window;
    const r = row - has.row;
    const c = col - has.col;
    return r >= 0 && c >= 0 && r < has.rows && c < has.cols
      ? has.data[r * has.cols + c]
      : undefined;
  };
  return (
    <div
      class="numbers"
      ref={host}
      onScroll={measure}
      tabindex={0}
      role="group"
      aria-label="Elements as numbers"
      style={{ "max-height": `${Math.min(252, (props.rows + 1) * ROW + 14)}px` }}
    >
      <div
        class="numbers-space"
        style={{
          width: `${HEAD + props.cols * COL}px`,
          height: `${(props.rows + 1) * ROW}px`,
        }}
      >
        <div class="numbers-head">
          <For each={range(span().col, span().cols)}>
            {(col) => <span style={{ left: `${HEAD + col * COL}px` }}>{col}</span>}
          </For>
        </div>
        <For each={range(span().row, span().rows)}>
          {(row) => (
            <div class="numbers-row" style={{ top: `${(row + 1) * ROW}px` }}>
              <span class="numbers-index" style={{ left: `${view().left}px` }}>
                {row}
              </span>
              <For each={range(span().col, span().cols)}>
                {(col) => {
                  const value = () => cell(row, col);
                  return (
                    <span
                      class="numbers-cell"
                      classList={{
                        nan: Number.isNaN(value() ?? 0),
                        inf: Math.abs(value() ?? 0) === Infinity,
                        t3: value() === 0 || value() === undefined,
                      }}
                      style={{ left: `${HEAD + col * COL}px` }}
                    >
                      {value() === undefined ? "·" : formatNumber(value(), 5)}
                    </span>
                  );
                }}
              </For>
            </div>
          )}
        </For>
      </div>
    </div>
  );
}
