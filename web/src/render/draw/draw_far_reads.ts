/**
 * Values read far from their producer: stubs beside the readers, a mark at the producer, and lines
 * between them while one of them is selected or under the pointer.
 *
 * Invariant: a stub names its producer, and a producer shows the number of its stubs.
 */

import { truncateMiddle } from "@/base/fonts_metrics";
import { overlaps } from "@/base/geometry";
import { printable } from "@/base/printable";
import { NAME_FONT, SMALL_MONO } from "@/layout/sizes";
import { BOX_SCOPE } from "@/layout/types";
import { type Drawing, detailAt } from "@/render/draw/draw";

const LENGTH = 12;
const FONT = { ...NAME_FONT, size: 11 };

/** Draws a far stub, `↳ mask`: an arrow and the producer's name in a dotted border. */
export function drawFarStub(drawing: Drawing, box: number): void {
  const { painter, palette, model, live, zoom } = drawing;
  const { scene, hierarchy } = model;
  const node = scene.ref[box]!;
  const { x, y, width, height } = model.rect(box);
  const done = live.done[node] === 1;
  const line = palette[done ? "text-off" : "line-strong"];
  painter.rect(x, y, width, height, height / 2, palette["bg-canvas"], {
    colour: line,
    width: Math.max(1, 1 / zoom),
    dash: "dotted",
  });
  if (detailAt(zoom) === "far") return;
  const ink = palette[done ? "text-2" : "text-3"];
  const base = y + height / 2;
  // An arrow down, then right.
  painter.lines([x + 8, base - 4, x + 8, base, x + 14, base], false, undefined, {
    colour: ink,
    width: 1.2,
  });
  const { label, op } = hierarchy.nodes[node]!;
  const name = printable(label === "" ? op : label, 120);
  // At middle distance, the name keeps its size on screen as far as it fits.
  const font = { ...FONT, size: Math.min(Math.max(FONT.size, 10 / zoom), height - 4) };
  const shown = truncateMiddle(name, font, width - 24);
  painter.text(x + 18, base + 0.36 * font.size, shown, font, ink);
}

/** Marks each producer with the number of its stubs. */
export function drawFarEnds(drawing: Drawing): void {
  const { painter, palette, model, view } = drawing;
  const ends = new Map<number, number>();
  for (const [node, stubs] of model.farBoxes) {
    const box = model.visibleBox(node);
    if (box >= 0) ends.set(box, (ends.get(box) ?? 0) + stubs.length);
  }
  for (const [box, count] of ends) {
    const rect = model.rect(box);
    if (!overlaps(rect, view) || model.scene.kind[box] === BOX_SCOPE) continue;
    const x = rect.x + rect.width + 2;
    const y = rect.y + rect.height - 6;
    painter.lines([x, y, x + LENGTH, y], false, undefined, {
      colour: palette["line-strong"],
      width: 1.5,
      dash: "dotted",
    });
    painter.text(x + LENGTH + 3, y + 3.5, `${count}×`, SMALL_MONO, palette["text-3"]);
  }
}

/** Draws the lines that stubs replace, from a node to all of its stubs or to the given ones. */
export function drawFarLines(
  drawing: Drawing,
  node: number,
  stubs: readonly number[] = drawing.model.farBoxes.get(node) ?? [],
): void {
  const { painter, palette, model, zoom } = drawing;
  const box = model.visibleBox(node);
  if (box < 0) return;
  const from = model.rect(box);
  const x0 = from.x + from.width;
  const y0 = from.y + from.height - 6;
  for (const stub of stubs) {
    const to = model.rect(stub);
    const y1 = to.y + to.height / 2;
    const bend = Math.max(x0, to.x + to.width) + 14;
    painter.lines([x0, y0, bend, y0, bend, y1, to.x + to.width, y1], false, undefined, {
      colour: palette.select,
      width: Math.max(1.5, 1 / zoom),
      dash: "dotted",
    });
  }
}
