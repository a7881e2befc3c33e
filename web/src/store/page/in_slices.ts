/**
 * Long work of the page in slices, between which keys, frames and messages have their turn.
 *
 * Invariant: the first slice is done at once; what was stopped does nothing any more.
 */

const SLICE_MS = 6;

export interface Slices {
  /** Does the rest at once. */
  finish(): void;
  stop(): void;
}

/**
 * Args:
 *   work: Does a little; false once there is nothing left to do.
 *   after: Called after each slice.
 */
export function inSlices(work: () => boolean, after: (done: boolean) => void): Slices {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const slice = (ms: number): void => {
    const end = performance.now() + ms;
    let more = work();
    while (more && performance.now() < end) more = work();
    timer = more ? setTimeout(() => slice(SLICE_MS)) : undefined;
    after(!more);
  };
  slice(SLICE_MS);
  const stop = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  return {
    finish() {
      if (timer === undefined) return;
      stop();
      slice(Number.POSITIVE_INFINITY);
    },
    stop,
  };
}
