/**
 * Long-running work in slices, so that keys, frames and messages are handled in between.
 *
 * Invariant: the first slice runs at once; stopped work never runs again.
 */

const SLICE_MS = 6;

export interface Slices {
  /** Does the rest of the work at once. */
  finish(): void;
  stop(): void;
}

/**
 * Args:
 *   work: Does a small part of the work; returns false once nothing is left to do.
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
