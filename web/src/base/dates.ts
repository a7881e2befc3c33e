/**
 * Dates and times: as in ISO 8601, in local time, 24 hours, whatever the browser's language.
 *
 * Invariant: pure; the same digits as the terminal's table of recordings.
 */

/** `2026-11-23`. */
export function formatDay(unixMs: number): string {
  const at = new Date(unixMs);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** `12:54`, or with seconds `12:54:03`. */
export function formatClock(unixMs: number, { seconds = false } = {}): string {
  const at = new Date(unixMs);
  const minutes = `${two(at.getHours())}:${two(at.getMinutes())}`;
  return seconds ? `${minutes}:${two(at.getSeconds())}` : minutes;
}

function two(number: number): string {
  return String(number).padStart(2, "0");
}
