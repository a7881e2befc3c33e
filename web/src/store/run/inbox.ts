/**
 * Collects pushes and passes them on once per animation frame.
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

  constructor(
    private readonly deliver: (pushes: readonly Push[]) => void,
    private readonly clock: InboxClock,
  ) {}

  add(push: Push): void {
    this.waiting.push(push);
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
