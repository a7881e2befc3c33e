/**
 * Numbers as people read them: 4 to 5 significant digits, thin spaces before units, thousands
 * separated.
 *
 * Invariant: every finite number takes at most 10 characters and a sign; NaN and infinities are
 * named.
 */

const THIN = "\u202f";
export const MINUS = "\u2212";

/** A number with `digits` significant digits: `0.015604`, `43.568`, `1.0000`, `1.2e-9`. */
export function formatNumber(value: number | null | undefined, digits = 5): string {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (value === Infinity) return "+Inf";
  if (value === -Infinity) return `${MINUS}Inf`;
  if (value === 0) return Object.is(value, -0) ? `${MINUS}0` : "0";
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  if (Number.isInteger(value) && size < 1e5) return sign + separate(String(size));
  if (size >= 1e6 || size < 1e-4) return sign + exponential(size, digits - 1);
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const text = size.toFixed(Math.min(decimals, size < 1 ? 6 : digits - 1));
  const [whole = "", fraction] = text.split(".");
  return sign + separate(whole) + (fraction === undefined ? "" : `.${fraction}`);
}

function exponential(size: number, decimals: number): string {
  const [mantissa = "", power = "0"] = size.toExponential(Math.max(0, decimals - 1)).split("e");
  const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  return `${short}e${power.replace("+", "").replace("-", MINUS)}`;
}

function separate(whole: string): string {
  return whole.length > 3 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
}

/** A count with its thousands separated: `1,263`. */
export function formatCount(count: number): string {
  return separate(String(Math.round(count)));
}

/** Bytes in binary units with a thin space: `2.00 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let rest = bytes;
  let unit = 0;
  while (rest >= 1023.5 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const text = unit === 0 ? String(rest) : rest.toFixed(rest >= 99.95 ? 0 : rest >= 9.995 ? 1 : 2);
  return `${text}${THIN}${units[unit]}`;
}

/** A duration with a thin space: `1.84 ms`, `412 ns`, `2 min 05 s`. */
export function formatDuration(ns: number): string {
  if (!Number.isFinite(ns)) return "–";
  const size = Math.abs(ns);
  // A value that would be rounded up to the next unit is shown in that unit: never "1000 ms".
  if (size >= 59.95e9) {
    const seconds = Math.round(size / 1e9);
    const rest = String(seconds % 60).padStart(2, "0");
    return `${ns < 0 ? MINUS : ""}${Math.floor(seconds / 60)}${THIN}min ${rest}${THIN}s`;
  }
  const [scale, unit] =
    size >= 999.5e6
      ? [1e9, "s"]
      : size >= 999.5e3
        ? [1e6, "ms"]
        : size >= 999.5
          ? [1e3, "µs"]
          : [1, "ns"];
  const amount = size / scale;
  const text =
    scale === 1 || amount >= 99.95
      ? amount.toFixed(0)
      : amount >= 9.995
        ? amount.toFixed(1)
        : amount.toFixed(2);
  return `${ns < 0 ? MINUS : ""}${text}${THIN}${unit}`;
}

/**
 * A shape as Python writes it: `(16, 8, 64)`; `(?, 64)` if a size is unknown; `(64,)`; or `scalar`.
 *
 * Args:
 *   most: Sizes after these are left out.
 */
export function formatShape(shape: readonly (number | null)[], most = shape.length): string {
  if (shape.length === 0) return "scalar";
  const sizes: (number | string)[] = shape.slice(0, most).map((size) => size ?? "?");
  if (most < shape.length) sizes.push("…");
  return `(${sizes.join(", ")}${sizes.length === 1 ? "," : ""})`;
}

/** The position of an element: `[4, 17]`, `[3]`, and nothing for a scalar. */
export function formatIndex(at: readonly number[]): string {
  return at.length === 0 ? "" : `[${at.join(", ")}]`;
}

/** A count with its noun: `1 op`, `12 ops`. */
export function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** An enumeration: `1, 2 and 3`. */
export function listed(words: readonly string[]): string {
  const last = words.at(-1) ?? "";
  return words.length < 2 ? last : `${words.slice(0, -1).join(", ")} and ${last}`;
}

export function median(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}
