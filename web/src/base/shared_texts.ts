/**
 * Equal texts as one: those that were cut out of others, or came from a worker, are each a text of
 * their own.
 *
 * Invariant: gives back a text that is equal.
 */

export class SharedTexts {
  private readonly known = new Map<string, string>();

  constructor(texts: Iterable<string> = []) {
    for (const text of texts) this.known.set(text, text);
  }

  of(text: string): string {
    const known = this.known.get(text);
    if (known !== undefined) return known;
    this.known.set(text, text);
    return text;
  }
}
