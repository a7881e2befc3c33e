/**
 * The visible window of time, and its movements.
 *
 * Invariant: pure; a window is never too narrow to distinguish items, never much wider than the
 * run, and always shows a part of it.
 */

export type TimeWindow = readonly [start: number, end: number];

const LEAST_NS = 200;
const MOST = 1.25;

/** The window scaled by `factor`; `at` keeps its place. */
export function zoomed(window: TimeWindow, at: number, factor: number, total: number): TimeWindow {
  const [t0, t1] = window;
  const most = Math.max(total * MOST, LEAST_NS);
  const width = Math.min(Math.max((t1 - t0) * factor, LEAST_NS), most);
  const part = (at - t0) / (t1 - t0 || 1);
  return within([at - part * width, at + (1 - part) * width], total);
}

export function panned(window: TimeWindow, by: number, total: number): TimeWindow {
  return within([window[0] + by, window[1] + by], total);
}

/** Moves a window so that its middle is within the run. */
function within([t0, t1]: TimeWindow, total: number): TimeWindow {
  const middle = (t0 + t1) / 2;
  const shift = Math.min(Math.max(middle, 0), Math.max(total, 0)) - middle;
  return [t0 + shift, t1 + shift];
}

/** The whole run from the start of its data, with a little margin. */
export function whole(since: number, total: number): TimeWindow {
  const width = Math.max(total - since, 1000);
  return [since - width * 0.01, since + width * 1.01];
}

/**
 * The range to request for a window: wider, and on a grid, so that small moves need no new request.
 */
export function askedFor([t0, t1]: TimeWindow): TimeWindow {
  const grid = 2 ** Math.ceil(Math.log2(Math.max(t1 - t0, 1))) / 2;
  return [
    Math.max(0, Math.floor(t0 / grid) * grid - grid / 2),
    Math.max(1, Math.ceil(t1 / grid) * grid + grid / 2),
  ];
}

/** The window after a key is pressed; undefined if the key does not move or zoom it. */
export function moved(window: TimeWindow, key: string, total: number): TimeWindow | undefined {
  const [t0, t1] = window;
  const middle = (t0 + t1) / 2;
  switch (key) {
    case "ArrowLeft":
    case "a":
      return panned(window, (t0 - t1) / 5, total);
    case "ArrowRight":
    case "d":
      return panned(window, (t1 - t0) / 5, total);
    case "ArrowUp":
    case "w":
    case "+":
    case "=":
      return zoomed(window, middle, 1 / 1.5, total);
    case "ArrowDown":
    case "s":
    case "-":
      return zoomed(window, middle, 1.5, total);
    default:
      return undefined;
  }
}
