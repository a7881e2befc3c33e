/**
 * Shares equal texts: texts cut out of others, or received from a worker, are separate copies.
 *
 * Invariant: `of` returns an equal text.
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
