/**
 * Advance widths of the page's two fonts, so that text is measured alike on screen, in a worker and
 * in an export that has no DOM. Taken from the bundled files (Inter and JetBrains Mono, OFL).
 *
 * Invariant: measuring needs no canvas; a missing glyph is assumed to be wide, so that text cut by
 * these numbers may be too short but never exceeds its box.
 */

export type FontFace = "sans" | "mono";
export type FontWeight = 400 | 500 | 600;

/** A font for the painters; `size` in world px. */
export interface Font {
  readonly face: FontFace;
  readonly weight: FontWeight;
  readonly size: number;
}

/** Thousandths of an em for U+0020 to U+007E, per weight. */
const INTER_400: readonly number[] = [
  281, 288, 466, 633, 642, 982, 644, 300, 365, 365, 501, 662, 288, 460, 288, 360, 631, 407, 610,
  618, 646, 593, 620, 566, 619, 620, 288, 302, 662, 662, 662, 511, 966, 690, 654, 730, 722, 601,
  590, 746, 743, 269, 571, 672, 565, 903, 753, 765, 639, 765, 644, 642, 646, 744, 690, 985, 682,
  679, 629, 365, 360, 365, 471, 456, 323, 562, 612, 571, 612, 583, 370, 613, 591, 242, 242, 549,
  242, 876, 591, 600, 612, 612, 376, 528, 327, 591, 562, 818, 546, 562, 552, 426, 333, 426, 662,
];
const INTER_500: readonly number[] = [
  267, 304, 494, 639, 646, 993, 653, 313, 369, 369, 521, 667, 303, 463, 303, 370, 646, 415, 617,
  627, 656, 603, 630, 571, 629, 630, 303, 315, 667, 667, 667, 527, 982, 709, 657, 733, 722, 603,
  589, 748, 744, 272, 575, 688, 565, 913, 756, 767, 642, 769, 648, 646, 653, 740, 709, 1003, 701,
  696, 641, 369, 370, 369, 477, 463, 337, 568, 618, 577, 618, 587, 379, 620, 602, 252, 252, 559,
  252, 888, 602, 604, 618, 618, 387, 539, 340, 602, 575, 829, 558, 575, 559, 440, 346, 440, 667,
];
const INTER_600: readonly number[] = [
  251, 321, 523, 644, 650, 1004, 663, 326, 373, 373, 540, 673, 318, 465, 318, 379, 660, 423, 623,
  636, 667, 612, 640, 577, 640, 640, 318, 329, 673, 673, 673, 543, 1000, 728, 659, 737, 722, 605,
  588, 749, 746, 277, 580, 704, 565, 922, 759, 769, 645, 773, 652, 650, 660, 736, 728, 1020, 720,
  713, 652, 373, 379, 373, 482, 469, 351, 574, 625, 583, 625, 592, 389, 626, 612, 262, 262, 569,
  262, 900, 612, 608, 625, 625, 397, 549, 354, 612, 587, 839, 569, 588, 566, 455, 359, 455, 673,
];
const INTER_MORE: ReadonlyMap<number, number> = new Map([
  [177, 673],
  [178, 454],
  [181, 614],
  [183, 318],
  [215, 673],
  [916, 722],
  [931, 692],
  [956, 614],
  [963, 642],
  [8211, 500],
  [8212, 1000],
  [8214, 537],
  [8216, 294],
  [8217, 294],
  [8220, 507],
  [8221, 501],
  [8230, 956],
  [8249, 416],
  [8250, 416],
  [8592, 954],
  [8593, 882],
  [8594, 954],
  [8595, 882],
  [8599, 780],
  [8679, 1077],
  [8706, 658],
  [8710, 722],
  [8721, 705],
  [8722, 673],
  [8730, 656],
  [8734, 966],
  [8776, 673],
  [8800, 673],
  [8804, 673],
  [8805, 673],
  [8984, 1001],
  [9166, 1003],
]);

const MONO_ADVANCE = 600;
const ELLIPSIS = "…";

/** Characters without width: combining, zero-width, variation selectors. */
function isZeroWidth(code: number): boolean {
  return (
    (code >= 0x300 && code <= 0x36f) ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0xfe00 && code <= 0xfe0f) ||
    code === 0xfeff
  );
}

function advance(code: number, font: Font): number {
  if (font.face === "mono" && code < 0x1100) return isZeroWidth(code) ? 0 : MONO_ADVANCE;
  const table = font.weight === 400 ? INTER_400 : font.weight === 500 ? INTER_500 : INTER_600;
  const known = table[code - 32] ?? INTER_MORE.get(code);
  if (known !== undefined) return known;
  if (isZeroWidth(code)) return 0;
  // Scripts outside the fonts use the system's: CJK and emoji take about an em.
  return code >= 0x1100 ? 1050 : 720;
}

/** Width of `text` in px. Linear in its length; cut very long text first. */
export function textWidth(text: string, font: Font): number {
  let thousandths = 0;
  for (const character of text) thousandths += advance(character.codePointAt(0) ?? 32, font);
  return (thousandths * font.size) / 1000;
}

/**
 * `text` if it fits in `room` px, else its beginning with an ellipsis; "" if not even that fits.
 * Reading stops at the end of the room, so that a name of 100 kB costs no more than a short one.
 */
export function truncate(text: string, font: Font, room: number): string {
  const limit = (room * 1000) / font.size;
  const dots = advance(0x2026, font);
  let used = 0;
  let cut = 0;
  let at = 0;
  for (const character of text) {
    const width = advance(character.codePointAt(0) ?? 32, font);
    if (used + dots <= limit) cut = at;
    used += width;
    if (used > limit) return dots > limit ? "" : text.slice(0, cut).trimEnd() + ELLIPSIS;
    at += character.length;
  }
  return text;
}

/** Like `truncate`, but keeps the end, where the names of siblings differ. */
export function truncateMiddle(text: string, font: Font, room: number): string {
  if (text.length < 400 && textWidth(text, font) <= room) return text;
  const tail = text.length > 8 ? text.slice(-4) : "";
  // A lone low surrogate would print as a replacement character.
  const safe = /^[\uDC00-\uDFFF]/.test(tail) ? tail.slice(1) : tail;
  const rest = room - textWidth(safe, font);
  if (safe === "" || rest < room / 2) return truncate(text, font, room);
  const front = truncate(text, font, rest);
  return front === text ? text : front + safe;
}
