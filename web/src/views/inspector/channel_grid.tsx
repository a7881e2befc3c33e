/**
 * The channels of a tensor side by side: feature maps, heads, images, one small picture each.
 *
 * Invariant: requests a small window of each channel shown, never the whole tensor; all channels on
 * a page are drawn in the same way, so that they can be compared.
 */

import { createMemo, createSignal, For, type JSX, Show } from "solid-js";
import { finiteRange, paintElements, parseHex, scaleFor, scaleOf } from "@/base/colour_scale";
import { formatCount, formatShape } from "@/base/numbers";
import { createQuery } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import { Canvas, type Surface } from "@/widgets/canvas";
import { Segmented } from "@/widgets/controls";
import { decodeElements } from "@/wire/decode";
import type { ValueSlice } from "@/wire/types.gen";

/** Channels on a page of the grid, and the most elements of each along an axis. */
const PAGE = 16;
const SIDE = 128;

type Contrast = "shared" | "own";

export interface ChannelGridProps {
  readonly store: Store;
  /** The slice shown below: its value, moment and channel. */
  readonly slice: ValueSlice;
  /** The range of the whole tensor, if known. */
  readonly range: readonly [number, number] | undefined;
  readonly theme: string;
  onPick(index: readonly number[]): void;
}

/** The axis that is spread out: the last leading axis with several entries; or -1. */
export function channelAxis(shape: readonly number[]): number {
  return shape.slice(0, -2).findLastIndex((size) => size > 1);
}

/** Width to height of the part of a channel that is shown, limited to between 1 and 3. */
export function shapeOf([rows, cols]: readonly [number, number]): string {
  const side = (cells: number) => Math.max(1, Math.min(SIDE, cells));
  const ratio = side(cols) / side(rows);
  return Math.min(3, Math.max(1, ratio)).toFixed(3);
}

/** The part of a channel that is shown, if not all of it: "the first (128, 128) of (200, 300)". */
export function partOf([rows, cols]: readonly [number, number]): string {
  if (rows <= SIDE && cols <= SIDE) return "";
  const part = formatShape([Math.min(SIDE, rows), Math.min(SIDE, cols)]);
  return `each the first ${part} of ${formatShape([rows, cols])}`;
}

export function ChannelGrid(props: ChannelGridProps): JSX.Element {
  const [contrast, setContrast] = createSignal<Contrast>("shared");
  const [first, setFirst] = createSignal(0);
  const axis = () => channelAxis(props.slice.shape);
  const count = () => props.slice.shape[axis()] ?? 0;
  const from = () => (first() < count() ? first() : 0);
  const shown = createMemo(() =>
    Array.from({ length: Math.min(PAGE, count() - from()) }, (_, k) => from() + k),
  );
  return (
    <div class="channels" data-testid="channels">
      <div class="row">
        <span class="t3">
          axis {axis()}, {formatCount(from())}–{formatCount(from() + shown().length - 1)} of{" "}
          {formatCount(count())}
          <Show when={partOf(props.slice.grid)}>
            {(words) => <span data-testid="channels-part">, {words()}</span>}
          </Show>
        </span>
        <Show when={count() > PAGE}>
          <button
            type="button"
            class="btn"
            title="Further channels"
            onClick={() => setFirst(from() + PAGE < count() ? from() + PAGE : 0)}
          >
            next ›
          </button>
        </Show>
        <span class="sp" />
        <Segmented
          label="Contrast"
          active={contrast()}
          options={[
            { id: "shared", title: "Same scale" },
            { id: "own", title: "Each its own" },
          ]}
          onSelect={setContrast}
        />
      </div>
      <div class="channel-grid" style={{ "--channel-shape": shapeOf(props.slice.grid) }}>
        <For each={shown()}>
          {(channel) => (
            <Channel {...props} axis={axis()} channel={channel} contrast={contrast()} />
          )}
        </For>
      </div>
    </div>
  );
}

function Channel(
  props: ChannelGridProps & {
    readonly axis: number;
    readonly channel: number;
    readonly contrast: Contrast;
  },
): JSX.Element {
  const index = createMemo(() => props.slice.index.with(props.axis, props.channel), undefined, {
    equals: (a, b) => a.join() === b.join(),
  });
  const answer = createQuery(props.store, "value_slice", () => {
    const run = props.store.runId();
    if (run === undefined) return undefined;
    return {
      type: "get_value" as const,
      run,
      value: props.slice.value,
      seq: props.slice.seq,
      branch: props.slice.branch,
      index: index(),
      row: 0,
      col: 0,
      rows: SIDE,
      cols: SIDE,
    };
  });
  const window = createMemo(() => {
    const now = answer();
    if (now.kind !== "ready" || !now.value.available) return undefined;
    const [, , rows, cols] = now.value.window;
    return { rows, cols, data: decodeElements(now.value.data, rows * cols) };
  });
  const draw = ({ g, width, height, colour }: Surface): void => {
    void props.theme;
    const now = window();
    if (now === undefined || now.data.length === 0) return;
    const own = props.contrast === "own" ? undefined : props.range;
    const { scale, range } = scaleFor(own ?? finiteRange(now.data) ?? [0, 1]);
    const pixels = paintElements(now.data, range, {
      table: scaleOf(scale, colour),
      nan: parseHex(colour("--nan")),
      inf: parseHex(colour("--inf")),
    });
    const picture = new OffscreenCanvas(now.cols, now.rows);
    picture.getContext("2d")?.putImageData(new ImageData(pixels, now.cols, now.rows), 0, 0);
    g.imageSmoothingEnabled = now.cols > width || now.rows > height;
    const zoom = Math.min(width / now.cols, height / now.rows);
    const [wide, high] = [now.cols * zoom, now.rows * zoom];
    g.drawImage(picture, (width - wide) / 2, (height - high) / 2, wide, high);
  };
  return (
    <button
      type="button"
      class="channel"
      classList={{ on: props.slice.index[props.axis] === props.channel }}
      title={`Channel ${props.channel}: show it large`}
      onClick={() => props.onPick(index())}
    >
      <Canvas class="channel-cells" label={`Channel ${props.channel}`} draw={draw} />
      <span class="mi t3">{props.channel}</span>
    </button>
  );
}
