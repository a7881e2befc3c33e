/**
 * One line of Python as coloured pieces: enough for reading, not a parser.
 *
 * Invariant: the joined pieces equal the line.
 */

export type TokenKind = "text" | "keyword" | "call" | "number" | "string" | "comment";

export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
}

const KEYWORDS = new Set(
  (
    "and as assert async await break class continue def del elif else except finally for from " +
    "global if import in is lambda match nonlocal not or pass raise return try while with yield " +
    "True False None"
  ).split(" "),
);

const STRINGS = [
  String.raw`"""[\s\S]*?(?:"""|$)`,
  String.raw`'''[\s\S]*?(?:'''|$)`,
  String.raw`"(?:[^"\\]|\\.)*"?`,
  String.raw`'(?:[^'\\]|\\.)*'?`,
].join("|");
const PIECE = new RegExp(
  [
    "(#.*)",
    `([rbfu]{0,2}(?:${STRINGS}))`,
    String.raw`(\b\d[\d_.]*(?:e[+-]?\d+)?j?\b)`,
    String.raw`([\p{L}_][\p{L}\p{N}_]*)(?=(\s*\()?)`,
  ].join("|"),
  "giu",
);

const MAX_LINE = 2000;

export function pythonTokens(line: string): readonly Token[] {
  if (line.length > MAX_LINE) return [{ kind: "text", text: line }];
  const tokens: Token[] = [];
  let at = 0;
  const push = (kind: TokenKind, text: string): void => {
    const last = tokens.at(-1);
    if (last?.kind === kind) tokens[tokens.length - 1] = { kind, text: last.text + text };
    else if (text !== "") tokens.push({ kind, text });
  };
  for (const match of line.matchAll(PIECE)) {
    const [text, comment, string, number, word, call] = match;
    push("text", line.slice(at, match.index));
    if (comment !== undefined) push("comment", text);
    else if (string !== undefined) push("string", text);
    else if (number !== undefined) push("number", text);
    else if (word !== undefined && KEYWORDS.has(word)) push("keyword", text);
    else push(call !== undefined ? "call" : "text", text);
    at = match.index + text.length;
  }
  push("text", line.slice(at));
  return tokens;
}

/** The lines without their common indentation; tabs count as four. */
export function dedented(lines: readonly string[]): readonly string[] {
  const even = lines.map((line) => line.replace(/\t/g, "    ").trimEnd());
  const depths = even.filter((line) => line !== "").map((line) => line.search(/\S/));
  const common = Math.min(...depths);
  return depths.length === 0 ? even : even.map((line) => line.slice(common));
}

/**
 * A text split where a long line may break: after an opening bracket or a comma. An arrow is a
 * piece of its own, which is never broken.
 */
export function breakable(text: string): readonly string[] {
  return text.split(/(->)|(?<=[([{,])/).filter(Boolean);
}
