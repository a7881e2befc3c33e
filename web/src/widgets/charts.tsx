/**
 * Small charts: the distribution of a tensor, and a series over executions.
 *
 * Invariant: a chart draws its input and requests nothing; NaN and Inf are shown beside the
 * distribution and are never part of its bars.
 */

import { createMemo, For, type JSX, Show } from "solid-js";
import { formatCount, formatNumber } from "@/base/numbers";
import { Canvas, type Surface } from "@/widgets/canvas";

export interface HistogramProps {
  readonly counts: readonly number[];
  readonly min: number | null;
  readonly max: number | null;
  readonly nan: number;
  readonly inf: number;
  /** CSS variable of the bars' colour. */
  readonly colour: string;
}

const HEIGHT = 42;

/** Counts on a logarithmic scale, so that a few outliers are visible beside a hundred thousand. */
export function Histogram(props: HistogramProps): JSX.Element {
  const bars = createMemo(() => {
    const most = Math.log1p(Math.max(1, ...props.counts, props.nan, props.inf));
    const scale = (count: number) =>
      count === 0 ? 0 : Math.max(2, (Math.log1p(count) / most) * HEIGHT);
    return {
      finite: props.counts.map(scale),
      nan: scale(props.nan),
      inf: scale(props.inf),
    };
  });
  const specials = () =>
    [
      { name: "NaN", count: props.nan, high: bars().nan, tone: "nan" },
      { name: "Inf", count: props.inf, high: bars().inf, tone: "inf" },
    ].filter((part) => part.count > 0);
  return (
    <div
      class="hist"
      role="img"
      aria-label={`Distribution from ${formatNumber(props.min)} to ${formatNumber(props.max)}`}
    >
      <div class="hist-finite">
        <svg
          class="hist-bars"
          viewBox={`0 0 ${Math.max(1, props.counts.length)} ${HEIGHT}`}
          preserveAspectRatio="none"
          aria-hidden="true"
        >
          <For each={bars().finite}>
            {(high, at) => (
              <rect
                x={at() + 0.06}
                y={HEIGHT - high}
                width={0.88}
                height={high}
                fill={`var(${props.colour})`}
              />
            )}
          </For>
        </svg>
        <div class="hist-axis mi t3">
          <span>{formatNumber(props.min, 4)}</span>
          <Show when={zeroAt(props.min, props.max)}>
            {(at) => (
              <span class="hist-zero" style={{ left: `${at() * 100}%` }}>
                0
              </span>
            )}
          </Show>
          <span>{formatNumber(props.max, 4)}</span>
        </div>
      </div>
      <For each={specials()}>
        {(special) => (
          <div class={`hist-special ${special.tone}`}>
            <span class="mi">{formatCount(special.count)}</span>
            <span
              class={`hist-block ${special.tone}`}
              style={{ height: `${special.high * 0.6}px` }}
            />
            <span class="mi">{special.name}</span>
          </div>
        )}
      </For>
    </div>
  );
}

/** Where 0 is on the axis, unless it is too near to an end for a label. */
function zeroAt(min: number | null, max: number | null): number | undefined {
  if (min === null || max === null || min >= 0 || max <= 0) return undefined;
  const at = -min / (max - min);
  return at > 0.2 && at < 0.8 ? at : undefined;
}

export interface SparklineProps {
  readonly values: readonly (number | undefined)[];
  readonly label: string;
  readonly theme: string;
  /** Index to mark in amber; usually the last or the moment shown. */
  readonly marked?: number | undefined;
  onPick?(index: number): void;
  /** The user picked an index with Shift held. */
  onHold?(index: number): void;
}

export function Sparkline(props: SparklineProps): JSX.Element {
  const draw = ({ g, width, height, colour }: Surface): void => {
    void props.theme;
    const values = props.values;
    const finite = values.filter((value): value is number => Number.isFinite(value));
    if (finite.length === 0) return;
    const low = Math.min(...finite);
    const span = Math.max(...finite) - low || 1;
    const x = (i: number) => 4 + (i / Math.max(1, values.length - 1)) * (width - 8);
    const y = (value: number) => height - 5 - ((value - low) / span) * (height - 10);
    g.strokeStyle = colour("--line");
    g.beginPath();
    g.moveTo(0, height - 4.5);
    g.lineTo(width, height - 4.5);
    g.stroke();
    g.strokeStyle = colour("--text-2");
    g.lineWidth = 1.2;
    g.lineJoin = "round";
    g.beginPath();
    let pen = false;
    values.forEach((value, i) => {
      if (value === undefined || !Number.isFinite(value)) {
        pen = false;
        g.fillStyle = colour("--nan");
        if (value !== undefined) g.fillRect(x(i) - 1, 1, 2, height - 6);
        return;
      }
      if (pen) g.lineTo(x(i), y(value));
      else g.moveTo(x(i), y(value));
      pen = true;
    });
    g.stroke();
    const marked = props.marked;
    const value = marked === undefined ? undefined : values[marked];
    if (marked !== undefined && value !== undefined && Number.isFinite(value)) {
      g.fillStyle = colour("--now");
      g.beginPath();
      g.arc(x(marked), y(value), 3, 0, Math.PI * 2);
      g.fill();
    }
  };
  return (
    <Canvas
      class="spark"
      label={props.label}
      draw={draw}
      events={{
        onPointerDown: (event: PointerEvent & { currentTarget: HTMLCanvasElement }) => {
          const part = event.offsetX / Math.max(1, event.currentTarget.clientWidth);
          const at = Math.round(part * (props.values.length - 1));
          if (event.shiftKey && props.onHold !== undefined) props.onHold(at);
          else props.onPick?.(at);
        },
      }}
    />
  );
}
