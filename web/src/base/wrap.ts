/**
 * A long line of output as several that fit, as a terminal shows it.
 *
 * Invariant: the pieces joined give the line; none is empty, but that of an empty line.
 */

/** A space this near the end of a line is the better place to break it. */
const NEAR = 24;

/** Args: columns: the most characters of a piece. */
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
