/**
 * Marks of watches: a small triangle on the top edge of a box, with the number of hits.
 *
 * Invariant: the marks of nodes in a folded scope are added up on the scope.
 */

import { type Font, textWidth } from "@/base/fonts_metrics";
import { overlaps } from "@/base/geometry";
import { SMALL_MONO } from "@/layout/sizes";
import { type Drawing, detailAt, type Marks } from "@/render/draw/draw";

/** From the right edge of a box to the middle of its mark. */
const INSET = 12;
const MOST = 999;

export function drawWatches(drawing: Drawing, marks: Marks): void {
  const { model, view } = drawing;
  const byBox = new Map<number, number>();
  for (const [id, count] of marks.watchMarks) {
    const node = model.hierarchy.indexOf.get(id);
    const box = node === undefined ? -1 : model.visibleBox(node);
    if (box >= 0) byBox.set(box, (byBox.get(box) ?? 0) + count);
  }
  for (const [box, count] of byBox) {
    if (overlaps(model.rect(box), view)) drawWatch(drawing, box, count);
  }
}

function drawWatch(drawing: Drawing, box: number, count: number): void {
  const { painter, palette, model, zoom } = drawing;
  const { x, y, width } = model.rect(box);
  const size = Math.max(5, 4 / zoom);
  const middle = x + width - Math.min(INSET, width / 2);
  const ground = { colour: palette["bg-canvas"], width: 1.5 };
  const font: Font = { ...SMALL_MONO, size: 9.5 };
  const words = count > MOST ? `${MOST}+` : String(count);
  if (count > 1 && detailAt(zoom) === "near") {
    const room = textWidth(words, font) + 6;
    const left = middle - size - 2 - room;
    if (left > x + 4) {
      painter.rect(left, y - 6, room, 12, 3, palette["bg-canvas"], {
        colour: palette.watch,
        width: 1,
      });
      painter.text(left + 3, y + 3.2, words, font, palette["watch-text"]);
    }
  }
  painter.lines(
    [middle - size, y + size * 0.8, middle, y - size, middle + size, y + size * 0.8],
    true,
    palette.watch,
    ground,
  );
}
