/**
 * Passing notes to the user: newest last, few at a time.
 *
 * Invariant: an error stays until it is dismissed; anything else goes by itself.
 */

import { type Accessor, createSignal } from "solid-js";

export interface Notice {
  readonly id: number;
  readonly tone: "info" | "error" | "ok";
  readonly text: string;
}

const SHOWN_MS = 7000;
const MOST = 4;

export class NoticeBoard {
  readonly notices: Accessor<readonly Notice[]>;
  private readonly set: (notices: readonly Notice[]) => void;
  private lastId = 0;

  constructor() {
    const [notices, set] = createSignal<readonly Notice[]>([]);
    this.notices = notices;
    this.set = set;
  }

  /** Shows a note; the same words again replace the old ones. */
  add(tone: Notice["tone"], text: string): void {
    const id = ++this.lastId;
    const kept = this.notices().filter((notice) => notice.text !== text);
    this.set([...kept.slice(1 - MOST), { id, tone, text }]);
    if (tone !== "error") setTimeout(() => this.dismiss(id), SHOWN_MS);
  }

  dismiss(id: number): void {
    this.set(this.notices().filter((notice) => notice.id !== id));
  }
}
