/**
 * Numbers in boxes and on edges: short, with their units.
 *
 * Invariant: at most four significant digits, except in counts and the largest units; never a
 * number without its unit.
 */

const TIME_UNITS: readonly (readonly [number, string])[] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

export function formatTime(ns: number): string {
  if (!(ns > 0)) return "0 ns";
  const [scale, unit] = TIME_UNITS.find(([size]) => ns >= size * 0.9995) ?? [1, "ns"];
  return `${threeDigits(ns / scale)} ${unit}`;
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 1023.5 && unit + 1 < BYTE_UNITS.length) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? value.toFixed(0) : value.toFixed(1);
  return `${digits} ${BYTE_UNITS[unit]}`;
}

export function formatCount(count: number, noun: string): string {
  const digits = String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",");
  return `${digits} ${noun}${count === 1 ? "" : "s"}`;
}

function threeDigits(value: number): string {
  return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}
