/**
 * A window of elements as coloured cells, with the element under the pointer and its number.
 *
 * Invariant: NaN is magenta and Inf violet, whatever the scale; cells of at least a px are never
 * blurred.
 */

import { createMemo, createSignal, type JSX, Show } from "solid-js";
import { finiteRange, paintElements, parseHex, scaleOf } from "@/base/colour_scale";
import { shownPlane } from "@/base/fold";
import { formatIndex, formatNumber } from "@/base/numbers";
import { Canvas, type Surface } from "@/widgets/canvas";

// How far from square a cell may be drawn, so that a narrow matrix is still visible.
const STRETCH = 4;
/** A shorter side is stretched up to this length, px. */
const ENOUGH = 96;
/** Greatest width and height of the picture, and of a cell of a small tensor, px. */
const ROOM = 192;
const LARGEST_CELL = 28;

export interface HeatMapProps {
  readonly data: Float64Array;
  readonly rows: number;
  readonly cols: number;
  /** First row and column, for the text. */
  readonly row: number;
  readonly col: number;
  /** Fixed leading indices, for the text. */
  readonly index: readonly number[];
  /** Number of axes of the whole tensor: a vector's elements have one index. */
  readonly rank: number;
  /** The whole tensor's range, if known; else the window's. */
  readonly range: readonly [number, number] | undefined;
  /** The scale: for values, or for differences, whose `range` has zero in its middle. */
  readonly scale: "seq" | "div";
  /** Changes with the theme. */
  readonly theme: string;
  /** An element was clicked, by its place in the whole slice. */
  onPick?(row: number, col: number): void;
}

/** The size of a picture of elements, px: square cells, unless that would be a narrow stripe. */
export function pictureSize(
  rows: number,
  cols: number,
): { readonly width: number; readonly height: number } {
  const side = Math.min(ROOM / Math.max(1, cols), ROOM / Math.max(1, rows), LARGEST_CELL);
  const length = (cells: number): number =>
    side === LARGEST_CELL
      ? cells * side
      : Math.max(cells * side, Math.min(ENOUGH, cells * side * STRETCH));
  return { width: Math.round(length(cols)), height: Math.round(length(rows)) };
}

export function HeatMap(props: HeatMapProps): JSX.Element {
  /** Index into the window's elements. */
  const [cursor, setCursor] = createSignal<number | undefined>();
  const range = createMemo(() => props.range ?? finiteRange(props.data));
  const plane = createMemo(() => shownPlane(props.rows, props.cols));
  const count = () => Math.min(props.rows * props.cols, props.data.length);
  const size = createMemo(() => pictureSize(plane().rows, plane().cols));

  const draw = (surface: Surface): void => {
    void props.theme;
    const { g, width, height, colour } = surface;
    const { rows, cols } = plane();
    if (count() === 0) return;
    const paint = {
      table: scaleOf(props.scale, colour),
      nan: parseHex(colour("--nan")),
      inf: parseHex(colour("--inf")),
    };
    const painted = paintElements(props.data.subarray(0, count()), range() ?? [0, 1], paint);
    // The last row of a folded vector may be shorter: the rest stays empty.
    const pixels = new Uint8ClampedArray(rows * cols * 4);
    pixels.set(painted);
    const picture = new OffscreenCanvas(cols, rows);
    picture.getContext("2d")?.putImageData(new ImageData(pixels, cols, rows), 0, 0);
    g.imageSmoothingEnabled = cols > width || rows > height;
    g.drawImage(picture, 0, 0, width, height);
    const at = cursor();
    if (at === undefined || at >= count()) return;
    const wide = width / cols;
    const high = height / rows;
    g.lineWidth = 1.5;
    g.strokeStyle = colour("--text");
    g.strokeRect(
      Math.max(0.75, (at % cols) * wide - 0.75),
      Math.max(0.75, Math.floor(at / cols) * high - 0.75),
      Math.max(4, wide) + 0.75,
      Math.max(4, high) + 0.75,
    );
  };

  const point = (event: PointerEvent & { currentTarget: HTMLCanvasElement }): void => {
    const { rows, cols } = plane();
    const { clientWidth, clientHeight } = event.currentTarget;
    const col = Math.floor((event.offsetX / Math.max(1, clientWidth)) * cols);
    const row = Math.floor((event.offsetY / Math.max(1, clientHeight)) * rows);
    const at = row * cols + col;
    setCursor(col >= 0 && row >= 0 && col < cols && at < count() ? at : undefined);
  };
  const pick = (): void => {
    const at = cursor();
    if (at === undefined || at >= count()) return;
    const cols = Math.max(1, props.cols);
    props.onPick?.(Math.floor(at / cols) + props.row, (at % cols) + props.col);
  };
  const words = createMemo(() => {
    const at = cursor();
    const value = at === undefined || at >= count() ? undefined : props.data[at];
    if (at === undefined || value === undefined) return undefined;
    const row = Math.floor(at / Math.max(1, props.cols)) + props.row;
    const col = (at % Math.max(1, props.cols)) + props.col;
    const place = props.rank < 2 ? [Math.max(row, col)] : [...props.index, row, col];
    return { place: formatIndex(place), value };
  });

  const faults = createMemo(() => {
    const indices: number[] = [];
    props.data.forEach((value, i) => {
      if (!Number.isFinite(value)) indices.push(i);
    });
    return indices;
  });
  const next = (): void => {
    const shown = cursor() ?? -1;
    setCursor(faults().find((fault) => fault > shown) ?? faults()[0]);
  };
  const constant = () => {
    const now = range();
    return now !== undefined && now[0] === now[1];
  };

  return (
    <div class="heat">
      <div
        class="heat-frame"
        style={{ width: `${size().width}px`, "aspect-ratio": `${size().width} / ${size().height}` }}
      >
        <Canvas
          class="heat-cells"
          label="Elements as colours"
          draw={draw}
          events={{
            onPointerMove: point,
            onPointerLeave: () => setCursor(undefined),
            onClick: pick,
          }}
        />
      </div>
      <Show
        when={!constant() && range() !== undefined}
        fallback={
          <div class="heat-foot mi t3">
            <Show when={range()} fallback={props.data.length === 0 ? "no elements" : "none finite"}>
              {(now) =>
                `${faults().length > 0 ? "all finite elements are" : "all are"} ${formatNumber(now()[0])}`
              }
            </Show>
          </div>
        }
      >
        <div class="heat-foot">
          <span class="mi t3">{formatNumber(range()?.[0], 4)}</span>
          <Canvas
            class="heat-scale"
            label="Colour scale"
            draw={(surface) => {
              void props.theme;
              drawScale(surface, props.scale);
            }}
          />
          <span class="mi t3">{formatNumber(range()?.[1], 4)}</span>
        </div>
      </Show>
      <div class="heat-at mi">
        <Show when={faults().length > 0}>
          <button
            type="button"
            class="btn heat-next"
            onClick={next}
            title={`Jump between the ${faults().length} non-finite elements here`}
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

function drawScale({ g, width, height, colour }: Surface, scale: "seq" | "div"): void {
  const table = scaleOf(scale, colour);
  for (let x = 0; x < width; x++) {
    const at = Math.round((x / Math.max(1, width - 1)) * 255) * 3;
    g.fillStyle = `rgb(${table[at]},${table[at + 1]},${table[at + 2]})`;
    g.fillRect(x, 0, 1, height);
  }
}
