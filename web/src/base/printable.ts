/**
 * Names made safe for display: they come from other people's programs.
 *
 * Invariant: the result never moves or reverses the text around it.
 */

const DISTURBING =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
  /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe\uffff]/g;
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * `text` made safe for display: control characters and direction overrides, by which a name could
 * disturb its neighbours, become a replacement sign; at most `limit` characters are kept.
 */
export function printable(text: string, limit = 400): string {
  const cut = text.length > limit ? `${text.slice(0, limit)}…` : text;
  return cut.replace(DISTURBING, "�").replace(LONE_SURROGATE, "�");
}

/** A path quoted for a shell. */
export function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'"'"'`)}'`;
}
