/**
 * Writes SVG. Names in a graph are untrusted text: they are escaped and never become markup.
 *
 * Invariant: the document is self-contained (no script, no foreignObject, nothing fetched) and is
 * well-formed XML whatever the names contain.
 */

import { type Font, textWidth } from "@/base/fonts_metrics";
import { printable } from "@/base/printable";
import { MONO, SANS } from "@/render/paint/canvas_painter";
import {
  type Align,
  curveArms,
  dashPattern,
  type Painter,
  type Route,
  type Stroke,
} from "@/render/paint/painter";

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Text for element content or attributes; control characters, which XML forbids, are replaced. */
export function escapeXml(text: string): string {
  return printable(text, 2000).replace(/[&<>"']/g, (sign) => ESCAPES[sign]!);
}

/** At most two decimals; pictures of the same scene are the same text. */
function number(value: number): string {
  return String(Math.round(value * 100) / 100);
}

export interface DocumentLook {
  /** Px of the document per px of the drawing. */
  readonly scale?: number | undefined;
  /** CSS that contains the fonts themselves, as data. */
  readonly fonts?: string | undefined;
}

const FONT_FACE =
  /@font-face\{font-family:"[\w ]+";font-weight:[\d ]+;src:url\(data:font\/woff2;base64,[\w+/=]+\)\}/g;

/** Font faces and nothing else, whatever was given. */
function fontCss(css = ""): string {
  return (css.match(FONT_FACE) ?? []).join("");
}

export class SvgPainter implements Painter {
  private readonly parts: string[] = [];
  private opacity = 1;

  named(id: string, name: string): void {
    this.parts.push(`<g id="${escapeXml(id)}"><title>${escapeXml(name)}</title>`);
  }

  unnamed(): void {
    this.parts.push("</g>");
  }

  alpha(value: number): void {
    this.opacity = value;
  }

  rect(
    x: number,
    y: number,
    width: number,
    height: number,
    radius: number,
    fill: string | undefined,
    stroke?: Stroke,
  ): void {
    const round = radius > 0 ? ` rx="${number(Math.min(radius, height / 2))}"` : "";
    this.parts.push(
      `<rect x="${number(x)}" y="${number(y)}" width="${number(width)}"` +
        ` height="${number(height)}"${round}${this.look(fill, stroke)}/>`,
    );
  }

  blocks(rects: readonly number[], fill: string): void {
    for (let at = 0; at < rects.length; at += 4) {
      this.rect(rects[at]!, rects[at + 1]!, rects[at + 2]!, rects[at + 3]!, 0, fill);
    }
  }

  circle(x: number, y: number, radius: number, fill: string | undefined, stroke?: Stroke): void {
    this.parts.push(
      `<circle cx="${number(x)}" cy="${number(y)}" r="${number(radius)}"` +
        `${this.look(fill, stroke)}/>`,
    );
  }

  lines(
    points: readonly number[],
    close: boolean,
    fill: string | undefined,
    stroke?: Stroke,
  ): void {
    const pairs: string[] = [];
    for (let at = 0; at < points.length; at += 2) {
      pairs.push(`${number(points[at]!)} ${number(points[at + 1]!)}`);
    }
    this.parts.push(`<path d="M${pairs.join("L")}${close ? "Z" : ""}"${this.look(fill, stroke)}/>`);
  }

  route(route: Route, stroke: Stroke): void {
    const { points } = route;
    let x = points[2 * route.start]!;
    let y = points[2 * route.start + 1]!;
    let straight = route.straightFirst;
    let data = `M${number(x)} ${number(y)}`;
    for (let at = route.start + 1; at < route.end; at++) {
      const nextX = points[2 * at]!;
      const nextY = points[2 * at + 1]!;
      if (straight || Math.abs(nextX - x) < 0.5) data += `L${number(nextX)} ${number(nextY)}`;
      else {
        const [first, second] = curveArms(y, nextY);
        data +=
          `C${number(x)} ${number(first)} ${number(nextX)} ${number(second)}` +
          ` ${number(nextX)} ${number(nextY)}`;
      }
      x = nextX;
      y = nextY;
      straight = !straight;
    }
    this.parts.push(`<path d="${data}"${this.look(undefined, stroke)}/>`);
  }

  text(x: number, y: number, text: string, font: Font, colour: string, align?: Align): void {
    if (text === "") return;
    const anchor =
      align === "right" ? ' text-anchor="end"' : align === "middle" ? ' text-anchor="middle"' : "";
    const face = font.face === "mono" ? ' class="m"' : "";
    const weight = font.weight === 400 ? "" : ` font-weight="${font.weight}"`;
    // The viewer's machine may lack the fonts: substitutes are fitted to the measured width.
    const length = textWidth(printable(text, 2000), font);
    const room =
      length > 0 ? ` textLength="${number(length)}" lengthAdjust="spacingAndGlyphs"` : "";
    this.parts.push(
      `<text x="${number(x)}" y="${number(y)}"${face}${anchor}${weight}${room}` +
        ` font-size="${number(font.size)}" fill="${escapeXml(colour)}"${this.opacityAttribute()}>` +
        `${escapeXml(text)}</text>`,
    );
  }

  /** The whole document; the drawing's world rectangle becomes its view box. */
  document(
    x: number,
    y: number,
    width: number,
    height: number,
    title: string,
    background: string,
    look: DocumentLook = {},
  ): string {
    const box = [x, y, width, height].map(number).join(" ");
    const { scale = 1 } = look;
    return (
      '<?xml version="1.0" encoding="UTF-8"?>\n' +
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${box}" width="${number(width * scale)}"` +
      ` height="${number(height * scale)}" role="img" font-family="${escapeXml(SANS)}"` +
      // If a viewer gives the document more room, the background fills that, too.
      ` style="white-space:pre;background:${escapeXml(background)}">\n` +
      `<title>${escapeXml(title)}</title>\n` +
      `<style>${fontCss(look.fonts)}.m{font-family:${MONO.replaceAll('"', "'")}}</style>\n` +
      `<rect x="${number(x)}" y="${number(y)}" width="${number(width)}"` +
      ` height="${number(height)}" fill="${escapeXml(background)}"/>\n` +
      `${this.parts.join("\n")}\n</svg>\n`
    );
  }

  private look(fill: string | undefined, stroke: Stroke | undefined): string {
    const inside = ` fill="${fill === undefined ? "none" : escapeXml(fill)}"`;
    if (stroke === undefined) return inside + this.opacityAttribute();
    const dash = dashPattern(stroke.dash, stroke.width);
    const pattern = dash.length === 0 ? "" : ` stroke-dasharray="${dash.map(number).join(" ")}"`;
    const cap = stroke.dash === "dotted" ? ' stroke-linecap="round"' : "";
    return (
      `${inside} stroke="${escapeXml(stroke.colour)}"` +
      ` stroke-width="${number(stroke.width)}"${pattern}${cap}${this.opacityAttribute()}`
    );
  }

  private opacityAttribute(): string {
    return this.opacity === 1 ? "" : ` opacity="${number(this.opacity)}"`;
  }
}
