/**
 * Passing notes to the user: newest last, few at a time.
 *
 * Invariant: what answers a command goes when the next one is given. An error stays until then, or
 * until it is dismissed; anything else goes by itself.
 */

import { type Accessor, createSignal } from "solid-js";

export interface Notice {
  readonly id: number;
  readonly tone: "info" | "error" | "ok";
  readonly text: string;
  /** What a command came to; else it is news that nobody asked for. */
  readonly answer: boolean;
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

  /** Says what a command came to. */
  answer(tone: Notice["tone"], text: string): void {
    this.add(tone, text, true);
  }

  /** Says what nobody asked for. */
  announce(text: string): void {
    this.add("ok", text, false);
  }

  /** The same words again replace the old ones. */
  private add(tone: Notice["tone"], text: string, answer: boolean): void {
    const id = ++this.lastId;
    const kept = this.notices().filter((notice) => notice.text !== text);
    this.set([...kept.slice(1 - MOST), { id, tone, text, answer }]);
    if (tone !== "error") setTimeout(() => this.dismiss(id), SHOWN_MS);
  }

  /** A command is given: what the one before came to is read by now. */
  commanded(): void {
    const news = this.notices().filter((notice) => !notice.answer);
    if (news.length < this.notices().length) this.set(news);
  }

  dismiss(id: number): void {
    this.set(this.notices().filter((notice) => notice.id !== id));
  }
}
