/**
 * Splits a long line of output into pieces that fit, as a terminal does.
 *
 * Invariant: the joined pieces equal the line; a piece is empty only if the line is.
 */

/** A line breaks at a space that is at most this far from its end. */
const NEAR = 24;

/** Args: columns: The most characters in a piece; at least 8 are used. */
export function wrapped(line: string, columns: number): readonly string[] {
  const most = Math.max(8, Math.floor(columns));
  const pieces: string[] = [];
  let at = 0;
  while (line.length - at > most) {
    const space = line.lastIndexOf(" ", at + most - 1);
    let end = space > Math.max(at, at + most - NEAR) ? space + 1 : at + most;
    // Not between the halves of a character.
    if (/[\uD800-\uDBFF]/.test(line.charAt(end - 1))) end -= 1;
    pieces.push(line.slice(at, end));
    at = end;
  }
  return [...pieces, line.slice(at)];
}
