/**
 * Collects pushes and passes them on once per animation frame. A stop, which the user waits for, is
 * passed on at once, so that it is in the next frame and not in the one after.
 *
 * Invariant: order is kept; in a background tab, which gets no frames, a timer empties the inbox.
 */

import type { Push } from "@/wire/types.gen";

export interface InboxClock {
  frame(task: () => void): number;
  cancelFrame(handle: number): void;
  later(task: () => void, ms: number): number;
  cancel(handle: number): void;
}

const HIDDEN_FLUSH_MS = 250;

export class Inbox {
  private waiting: Push[] = [];
  private frame: number | undefined;
  private timer: number | undefined;
  /** Whether a stop has been passed on since the last frame. */
  private hurried = false;

  constructor(
    private readonly deliver: (pushes: readonly Push[]) => void,
    private readonly clock: InboxClock,
  ) {}

  add(push: Push): void {
    this.waiting.push(push);
    if (isStop(push) && !this.hurried) {
      this.hurried = true;
      this.clock.frame(() => {
        this.hurried = false;
      });
      this.flush();
      return;
    }
    if (this.frame !== undefined) return;
    this.frame = this.clock.frame(() => this.flush());
    this.timer = this.clock.later(() => this.flush(), HIDDEN_FLUSH_MS);
  }

  flush(): void {
    if (this.frame !== undefined) this.clock.cancelFrame(this.frame);
    if (this.timer !== undefined) this.clock.cancel(this.timer);
    this.frame = undefined;
    this.timer = undefined;
    const batch = this.waiting;
    if (batch.length === 0) return;
    this.waiting = [];
    this.deliver(batch);
  }
}

function isStop(push: Push): boolean {
  return push.type === "session" && push.info.phase === "stopped";
}
