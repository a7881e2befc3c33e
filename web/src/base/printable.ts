/**
 * Names as they may be shown. They come from other people's programs.
 *
 * Invariant: nothing that is returned moves or reverses the text around it.
 */

const DISTURBING =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
  /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/g;
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * `text` as it may be shown: control characters and direction overrides would let a name disturb
 * its neighbours, so they are shown as a replacement sign; at most `limit` characters are kept.
 */
export function printable(text: string, limit = 400): string {
  const cut = text.length > limit ? `${text.slice(0, limit)}…` : text;
  return cut.replace(DISTURBING, "�").replace(LONE_SURROGATE, "�");
}

/** A path as a shell takes it. */
export function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'"'"'`)}'`;
}
