/**
 * A window of elements as coloured cells, with the element under the pointer and its number.
 *
 * Invariant: NaN is magenta and Inf violet, whatever the scale; cells are never blurred.
 */

import { createMemo, createSignal, type JSX, Show } from "solid-js";
import { finiteRange, paintElements, parseHex, scaleTable } from "@/base/colour_scale";
import { formatNumber } from "@/base/numbers";
import { Canvas, type Surface } from "@/widgets/canvas";

// How far from square a cell may be drawn, so that a narrow matrix still fills its place.
const STRETCH = 4;

export interface HeatMapProps {
  readonly data: Float64Array;
  readonly rows: number;
  readonly cols: number;
  /** First row and column, for the words. */
  readonly row: number;
  readonly col: number;
  /** Fixed leading indices, for the words. */
  readonly index: readonly number[];
  /** The whole tensor's range, if known; else the window's. */
  readonly range: readonly [number, number] | undefined;
  /** Changes with the theme. */
  readonly theme: string;
}

export function HeatMap(props: HeatMapProps): JSX.Element {
  const [cursor, setCursor] = createSignal<{ row: number; col: number } | undefined>();
  let box: { x: number; y: number; cell: readonly [number, number] } | undefined;
  const range = createMemo(() => props.range ?? finiteRange(props.data));

  const draw = (surface: Surface): void => {
    void props.theme;
    const { g, width, height, colour } = surface;
    const { rows, cols } = props;
    if (rows * cols === 0 || props.data.length < rows * cols) return;
    const stops = [0, 1, 2, 3, 4, 5, 6].map((i) => parseHex(colour(`--seq-${i}`)));
    const paint = {
      table: scaleTable(stops),
      nan: parseHex(colour("--nan")),
      inf: parseHex(colour("--inf")),
    };
    const pixels = paintElements(props.data, range() ?? [0, 1], paint);
    const picture = new OffscreenCanvas(cols, rows);
    picture.getContext("2d")?.putImageData(new ImageData(pixels, cols, rows), 0, 0);
    // Square cells as far as the shape allows; a vector becomes a band that can still be hit.
    const side = Math.min(width / cols, height / rows, 24);
    const wide = rows === 1 ? width / cols : Math.min(width / cols, side * STRETCH);
    const high = cols === 1 ? height / rows : Math.min(height / rows, side * STRETCH);
    box = { x: 0, y: 0, cell: [wide, high] };
    g.imageSmoothingEnabled = cols > width || rows > height;
    g.drawImage(picture, 0, 0, cols * wide, rows * high);
    const at = cursor();
    if (at !== undefined) {
      g.strokeStyle = colour("--text");
      g.lineWidth = 1.5;
      g.strokeRect(
        (at.col - props.col) * wide - 0.75,
        (at.row - props.row) * high - 0.75,
        Math.max(4, wide) + 1.5,
        Math.max(4, high) + 1.5,
      );
    }
  };

  const point = (event: PointerEvent & { currentTarget: HTMLCanvasElement }): void => {
    if (box === undefined) return;
    const col = Math.floor(event.offsetX / box.cell[0]);
    const row = Math.floor(event.offsetY / box.cell[1]);
    setCursor(
      col >= 0 && row >= 0 && col < props.cols && row < props.rows
        ? { row: row + props.row, col: col + props.col }
        : undefined,
    );
  };
  const words = createMemo(() => {
    const at = cursor();
    if (at === undefined) return undefined;
    const value = props.data[(at.row - props.row) * props.cols + at.col - props.col];
    return value === undefined
      ? undefined
      : { place: `[${[...props.index, at.row, at.col].join(",")}]`, value };
  });

  const faults = createMemo(() => {
    const found: number[] = [];
    props.data.forEach((value, i) => {
      if (!Number.isFinite(value)) found.push(i);
    });
    return found;
  });
  const next = (): void => {
    const at = cursor();
    const here = at === undefined ? -1 : (at.row - props.row) * props.cols + at.col - props.col;
    const found = faults().find((each) => each > here) ?? faults()[0];
    if (found === undefined) return;
    setCursor({
      row: Math.floor(found / props.cols) + props.row,
      col: (found % props.cols) + props.col,
    });
  };

  return (
    <div class="heat">
      <Canvas
        class="heat-cells"
        label="Elements as colours"
        draw={draw}
        events={{ onPointerMove: point, onPointerLeave: () => setCursor(undefined) }}
      />
      <div class="heat-foot">
        <span class="mi t3">{formatNumber(range()?.[0], 4)}</span>
        <Canvas
          class="heat-scale"
          label="Colour scale"
          draw={(surface) => {
            void props.theme;
            drawScale(surface);
          }}
        />
        <span class="mi t3">{formatNumber(range()?.[1], 4)}</span>
      </div>
      <div class="heat-at mi">
        <Show when={faults().length > 0}>
          <button
            type="button"
            class="btn heat-next"
            onClick={next}
            title={`Jump between the ${faults().length} elements here that are not finite`}
          >
            <span class="dia" />
            next
          </button>
        </Show>
        <span class="t3">{words()?.place ?? "\u00a0"}</span>{" "}
        <b classList={{ nan: Number.isNaN(words()?.value ?? 0) }}>
          {words() === undefined ? "" : formatNumber(words()?.value, 6)}
        </b>
      </div>
    </div>
  );
}

function drawScale({ g, width, height, colour }: Surface): void {
  const table = scaleTable([0, 1, 2, 3, 4, 5, 6].map((i) => parseHex(colour(`--seq-${i}`))));
  for (let x = 0; x < width; x++) {
    const at = Math.round((x / Math.max(1, width - 1)) * 255) * 3;
    g.fillStyle = `rgb(${table[at]},${table[at + 1]},${table[at + 2]})`;
    g.fillRect(x, 0, 1, height);
  }
}
