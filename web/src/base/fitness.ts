/**
 * How well a name matches the text typed in the palette.
 *
 * Invariant: pure; a name without the letters in their order does not match.
 */

/** How well `text` matches: lower is better, undefined for no match. A full name matches best. */
export function fitness(text: string, wanted: string): number | undefined {
  const lower = text.toLowerCase();
  if (lower === wanted) return -20;
  if (lower.endsWith(`/${wanted}`)) return lower.length * 0.01 - 10;
  const at = lower.indexOf(wanted);
  if (at >= 0) {
    const starts = at === 0 || "/_ ".includes(lower[at - 1] ?? "");
    return (starts ? 0 : 100) + at * 0.1 + lower.length * 0.01;
  }
  let from = 0;
  let gaps = 0;
  for (const letter of wanted) {
    const next = lower.indexOf(letter, from);
    if (next < 0) return undefined;
    gaps += next - from;
    from = next + 1;
  }
  return 1000 + gaps;
}
