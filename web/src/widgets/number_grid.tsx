/**
 * Elements as numbers: a table that scrolls over the whole slice and loads windows of it.
 *
 * Invariant: only visible cells exist; cells not loaded yet are requested and shown as dots in the
 * meantime. No number is cut: scrolling ends at whole columns, and a column that is cut meanwhile
 * is hidden.
 */

import {
  createEffect,
  createMemo,
  createSignal,
  createUniqueId,
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
/** The least column width, px, with fewer digits: used if all columns then fit. */
const NARROW_COL = 50;
/** The greatest column width, px: used if there is room to spare. */
const WIDE_COL = 100;
const HEAD = 44;
/** Empty space of a cell beside its number, px, which may be out of view. */
const PAD = 6;
/** Windows start at multiples of this, so that a small scroll requests nothing. */
export const WINDOW_STEP = 64;

function clamp(at: number, count: number): number {
  return Math.max(0, Math.min(count - 1, at));
}

export function NumberGrid(props: {
  readonly rows: number;
  readonly cols: number;
  readonly window: GridWindow;
  /** A vector is folded to the available width. */
  readonly vector: boolean;
  onWindow(row: number, col: number): void;
  /** An element was clicked, by its place in the whole slice. */
  onPick?(row: number, col: number): void;
}): JSX.Element {
  let host!: HTMLDivElement;
  const id = createUniqueId();
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
  const plane = createMemo(
    () => {
      const room = Math.max(COL, view().width - HEAD - 2);
      const count = props.rows * props.cols;
      const fit = Math.floor(room / COL);
      const cols = props.vector ? Math.max(1, Math.min(fit, count)) : props.cols;
      const even = Math.floor(room / Math.max(1, cols));
      // As many whole columns as fit, if not all do.
      const narrow = Math.floor(room / Math.max(1, fit));
      const col = even >= NARROW_COL ? Math.min(WIDE_COL, even) : narrow;
      return { cols, col, rows: props.vector ? Math.ceil(count / cols) : props.rows, count };
    },
    undefined,
    { equals: (a, b) => a.cols === b.cols && a.col === b.col && a.count === b.count },
  );
  const digits = () => (plane().col < COL ? 3 : 5);
  const span = createMemo(() => {
    const { top, left, width, height } = view();
    const { rows, cols, col: wide } = plane();
    const row = Math.max(0, Math.floor(top / ROW));
    const col = Math.max(0, Math.floor(left / wide));
    return {
      row,
      col,
      rows: Math.max(0, Math.min(rows - row, Math.ceil(height / ROW) + 1)),
      cols: Math.max(0, Math.min(cols - col, Math.ceil(width / wide) + 1)),
    };
  });
  /** Elements `from` up to `to` of a vector, as a window of its single row or column. */
  const windowOf = (from: number, to: number) =>
    props.cols === 1
      ? { row: from, col: 0, rows: to - from, cols: 1 }
      : { row: 0, col: from, rows: 1, cols: to - from };
  createEffect(() => {
    const sight = span();
    const { cols: columns, count } = plane();
    const { row, col, rows, cols } = props.vector
      ? windowOf(sight.row * columns, Math.min(count, (sight.row + sight.rows) * columns))
      : sight;
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
  const exists = (row: number, col: number): boolean => row * plane().cols + col < plane().count;
  const cell = (row: number, col: number): number | undefined => {
    const has = props.window;
    const at = row * plane().cols + col;
    const place = props.vector ? windowOf(at, at + 1) : { row, col };
    const r = place.row - has.row;
    const c = place.col - has.col;
    return r >= 0 && c >= 0 && r < has.rows && c < has.cols
      ? has.data[r * has.cols + c]
      : undefined;
  };
  const [cursor, setCursor] = createSignal<{ readonly row: number; readonly col: number }>();
  const whole = (col: number): boolean => {
    const left = col * plane().col - view().left;
    return left >= -PAD && HEAD + left + plane().col <= view().width + PAD;
  };
  const fits = () => Math.max(1, Math.floor((view().width - HEAD + PAD) / plane().col));
  const settle = (): void => {
    const last = host.scrollWidth - host.clientWidth;
    const left = Math.round(host.scrollLeft / plane().col) * plane().col;
    if (host.scrollLeft < last - 1 && Math.abs(host.scrollLeft - left) > 1) {
      host.scrollTo({ left });
    }
  };
  /** Moves the cursor, and scrolls to it by whole rows and columns. */
  const moveTo = (row: number, col: number): void => {
    const { rows, cols, col: wide, count } = plane();
    const to = { row: clamp(row, rows), col: clamp(col, cols) };
    if (to.row * cols + to.col >= count) to.col = (count - 1) % cols;
    setCursor(to);
    const high = Math.max(1, Math.floor(host.clientHeight / ROW) - 1);
    const top = clamp(Math.floor(host.scrollTop / ROW), rows);
    const left = clamp(Math.round(host.scrollLeft / wide), cols);
    host.scrollTo({
      top: to.row * ROW < host.scrollTop ? to.row * ROW : Math.max(top, to.row - high + 1) * ROW,
      left: Math.max(Math.min(left, to.col), to.col - fits() + 1) * wide,
    });
    measure();
  };
  const onKey = (event: KeyboardEvent): void => {
    const at = cursor() ?? { row: span().row, col: span().col };
    const page = Math.max(1, Math.floor(host.clientHeight / ROW) - 2);
    const all = event.ctrlKey || event.metaKey;
    const moves: Record<string, readonly [number, number]> = {
      ArrowUp: [at.row - 1, at.col],
      ArrowDown: [at.row + 1, at.col],
      ArrowLeft: [at.row, at.col - 1],
      ArrowRight: [at.row, at.col + 1],
      PageUp: [at.row - page, at.col],
      PageDown: [at.row + page, at.col],
      Home: [all ? 0 : at.row, 0],
      End: [all ? plane().rows - 1 : at.row, plane().cols - 1],
    };
    const to = moves[event.key];
    if (to !== undefined) moveTo(...to);
    else if (event.key === "Enter") pick(at.row, at.col);
    else return;
    event.preventDefault();
  };
  const isCursor = (row: number, col: number): boolean =>
    cursor()?.row === row && cursor()?.col === col;
  const pick = (row: number, col: number): void => {
    if (!exists(row, col)) return;
    const at = row * plane().cols + col;
    const place = props.vector ? windowOf(at, at + 1) : { row, col };
    props.onPick?.(place.row, place.col);
  };
  return (
    <div
      class="numbers"
      ref={host}
      onScroll={measure}
      on:scrollend={settle}
      onKeyDown={onKey}
      onFocus={() => cursor() ?? setCursor({ row: span().row, col: span().col })}
      tabIndex={0}
      role="grid"
      aria-label="Elements as numbers: arrow keys move, Enter explains one"
      aria-rowcount={plane().rows}
      aria-colcount={plane().cols}
      aria-activedescendant={cursor() === undefined ? undefined : `${id}-at`}
      style={{ "max-height": `${Math.min(14 * ROW + 2, (plane().rows + 1) * ROW + 8)}px` }}
    >
      <div
        class="numbers-space"
        style={{
          width: `${HEAD + plane().cols * plane().col}px`,
          height: `${(plane().rows + 1) * ROW}px`,
        }}
      >
        <div class="numbers-head">
          <For each={range(span().col, span().cols)}>
            {(col) => (
              <span
                classList={{ cut: !whole(col) }}
                style={{ left: `${HEAD + col * plane().col}px`, width: `${plane().col}px` }}
              >
                {props.vector ? `+${col}` : col}
              </span>
            )}
          </For>
        </div>
        <For each={range(span().row, span().rows)}>
          {(row) => (
            <div class="numbers-row" role="row" style={{ top: `${(row + 1) * ROW}px` }}>
              <span class="numbers-index" style={{ left: `${view().left}px` }}>
                {props.vector ? row * plane().cols : row}
              </span>
              <For each={range(span().col, span().cols)}>
                {(col) => {
                  const value = () => cell(row, col);
                  return (
                    <span
                      class="numbers-cell"
                      role="gridcell"
                      id={isCursor(row, col) ? `${id}-at` : undefined}
                      classList={{
                        cut: !whole(col),
                        at: isCursor(row, col),
                        nan: Number.isNaN(value() ?? 0),
                        inf: Math.abs(value() ?? 0) === Infinity,
                        t3: value() === 0 || value() === undefined,
                      }}
                      style={{
                        left: `${HEAD + col * plane().col}px`,
                        width: `${plane().col}px`,
                      }}
                      title={value() === undefined ? undefined : `${value()}: click to explain it`}
                      onClick={() => pick(row, col)}
                    >
                      {value() !== undefined
                        ? formatNumber(value(), digits())
                        : exists(row, col)
                          ? "·"
                          : ""}
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
