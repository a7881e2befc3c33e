/**
 * The colour scales of values: a sequential one for values of one sign, dark for low in both
 * themes, and a diverging one around zero, blue below and orange above, for signed values and
 * differences.
 *
 * Invariant: only finite numbers get colours from the scale; NaN and infinities have their own.
 */

export type Rgb = readonly [number, number, number];

export function parseHex(text: string): Rgb {
  const hex = text.trim().replace("#", "");
  const wide = hex.length === 3 ? [...hex].map((digit) => digit + digit).join("") : hex.slice(0, 6);
  const value = Number.parseInt(wide, 16);
  return Number.isNaN(value)
    ? [128, 128, 128]
    : [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** 256 colours between the stops, as RGB bytes one after another. */
export function scaleTable(stops: readonly Rgb[]): Uint8ClampedArray {
  const table = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const x = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(x), stops.length - 2);
    const from = stops[low] ?? [0, 0, 0];
    const to = stops[low + 1] ?? from;
    for (let k = 0; k < 3; k++) {
      const a = from[k] ?? 0;
      table[i * 3 + k] = a + ((to[k] ?? a) - a) * (x - low);
    }
  }
  return table;
}

/** Smallest and largest finite element; undefined if there is none. */
export function finiteRange(data: Float64Array): readonly [number, number] | undefined {
  let low = Infinity;
  let high = -Infinity;
  for (const value of data) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : undefined;
}

export interface Paint {
  readonly table: Uint8ClampedArray;
  readonly nan: Rgb;
  readonly inf: Rgb;
}

export type ScaleName = "seq" | "div";

/** Cividis: uniform in lightness, and equal for red-green colour blindness. */
const CIVIDIS = [
  "#00224e",
  "#123570",
  "#3b496c",
  "#575d6d",
  "#707173",
  "#8a8678",
  "#a59c74",
  "#c3b369",
  "#e1cc55",
  "#fee838",
].map(parseHex);

/**
 * A scale as a table. The theme sets the diverging one by `--div-0` to `--div-6`; its middle is the
 * theme's background.
 */
export function scaleOf(name: ScaleName, colour: (token: string) => string): Uint8ClampedArray {
  if (name === "seq") return scaleTable(CIVIDIS);
  return scaleTable([0, 1, 2, 3, 4, 5, 6].map((i) => parseHex(colour(`--div-${i}`))));
}

/** The scale for a range of values: symmetric around zero if there are both signs. */
export function scaleFor([low, high]: readonly [number, number]): {
  readonly scale: ScaleName;
  readonly range: readonly [number, number];
} {
  if (!(low < 0 && high > 0)) return { scale: "seq", range: [low, high] };
  const most = Math.max(-low, high);
  return { scale: "div", range: [-most, most] };
}

/** Elements as RGBA pixels. */
export function paintElements(
  data: Float64Array,
  [low, high]: readonly [number, number],
  paint: Paint,
): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(data.length * 4);
  const span = high - low;
  for (let i = 0; i < data.length; i++) {
    const value = data[i] ?? Number.NaN;
    const at = i * 4;
    pixels[at + 3] = 255;
    if (Number.isFinite(value)) {
      // All equal: the middle of the scale, which is visible on any background.
      const part = span > 0 ? Math.min(1, Math.max(0, (value - low) / span)) : 0.5;
      const shade = Math.round(part * 255) * 3;
      pixels[at] = paint.table[shade] ?? 0;
      pixels[at + 1] = paint.table[shade + 1] ?? 0;
      pixels[at + 2] = paint.table[shade + 2] ?? 0;
    } else {
      const special = Number.isNaN(value) ? paint.nan : paint.inf;
      pixels[at] = special[0];
      pixels[at + 1] = special[1];
      pixels[at + 2] = special[2];
    }
  }
  return pixels;
}
