/**
 * Stepping keys that are pressed faster than the program steps: each press is a step.
 *
 * Invariant: repeats of a key that is held down are not queued; another command, or a stop that is
 * not the end of a step, empties the queue.
 */

import { createEffect, createRoot, on } from "solid-js";
import type { PageCommand } from "@/app/page_command";
import type { Store } from "@/store/page/store";

const MOST = 20;

export class StepQueue {
  private waiting: PageCommand[] = [];
  private readonly end: () => void;

  constructor(store: Pick<Store, "stops" | "stop">) {
    this.end = createRoot((dispose) => {
      createEffect(on(store.stops, () => this.stopped(store.stop()?.reason), { defer: true }));
      return dispose;
    });
  }

  /** Takes a key press whose command cannot run now; true if the press counts for the next stop. */
  add(command: PageCommand, repeated: boolean): boolean {
    if (!(command.later?.() ?? false)) return false;
    if (!repeated && this.waiting.length < MOST) this.waiting.push(command);
    return true;
  }

  /** Empties the queue because of another command. */
  clear(): void {
    this.waiting = [];
  }

  dispose(): void {
    this.end();
  }

  private stopped(reason: string | undefined): void {
    const [next, ...rest] = this.waiting;
    this.waiting = reason === "step" ? rest : [];
    if (next !== undefined && reason === "step" && next.enabled()) next.run();
  }
}
