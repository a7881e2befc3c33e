/**
 * Transient notices to the user: newest last, few at a time.
 *
 * Invariant: a notice about a command disappears with the next command. An error stays until then,
 * or until it is dismissed; other notices disappear by themselves.
 */

import { type Accessor, createSignal } from "solid-js";

export interface Notice {
  readonly id: number;
  readonly tone: "info" | "error" | "ok";
  readonly text: string;
  /** The result of a command; otherwise, unsolicited news. */
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

  /** Reports the result of a command. */
  answer(tone: Notice["tone"], text: string): void {
    this.add(tone, text, true);
  }

  /** Reports unsolicited news. */
  announce(text: string): void {
    this.add("ok", text, false);
  }

  /** Equal text replaces the old notice. */
  private add(tone: Notice["tone"], text: string, answer: boolean): void {
    const id = ++this.lastId;
    const kept = this.notices().filter((notice) => notice.text !== text);
    this.set([...kept.slice(1 - MOST), { id, tone, text, answer }]);
    if (tone !== "error") setTimeout(() => this.dismiss(id), SHOWN_MS);
  }

  /** Removes the result of the previous command, because the user gives a new one. */
  commanded(): void {
    const news = this.notices().filter((notice) => !notice.answer);
    if (news.length < this.notices().length) this.set(news);
  }

  dismiss(id: number): void {
    this.set(this.notices().filter((notice) => notice.id !== id));
  }
}

export function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
