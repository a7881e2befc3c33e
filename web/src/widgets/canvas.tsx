/**
 * A canvas that fills its host, sharp at any pixel ratio, redrawn when its inputs change.
 *
 * Invariant: drawing happens at most once per frame; colours come from the theme's variables.
 */

import { createReaction, createSignal, type JSX, onCleanup, onMount } from "solid-js";

export interface Surface {
  readonly g: CanvasRenderingContext2D;
  readonly width: number;
  readonly height: number;
  /** The value of a CSS variable of the theme, `"--now"`. */
  colour(name: string): string;
}

export type CanvasEvents = Pick<
  JSX.HTMLAttributes<HTMLCanvasElement>,
  | "onPointerDown"
  | "onPointerMove"
  | "onPointerLeave"
  | "onPointerUp"
  | "onPointerCancel"
  | "onDblClick"
  | "onKeyDown"
  | "onClick"
>;

const colours = new Map<string, string>();
let coloursOf: string | undefined;

/** Cached per theme, because reading a variable makes the browser compute styles. */
function themeColour(name: string): string {
  const root = document.documentElement;
  if (root.dataset.theme !== coloursOf) colours.clear();
  coloursOf = root.dataset.theme;
  let colour = colours.get(name);
  if (colour === undefined) {
    colour = getComputedStyle(root).getPropertyValue(name).trim();
    colours.set(name, colour);
  }
  return colour;
}

export function Canvas(props: {
  /** Draws everything. Signals read in it cause a redraw. */
  draw(surface: Surface): void;
  readonly class?: string;
  readonly label: string;
  readonly tabindex?: number;
  readonly events?: CanvasEvents;
  ref?(element: HTMLCanvasElement): void;
}): JSX.Element {
  let host!: HTMLDivElement;
  let canvas!: HTMLCanvasElement;
  const [size, setSize] = createSignal(
    { width: 0, height: 0 },
    { equals: (a, b) => a.width === b.width && a.height === b.height },
  );

  onMount(() => {
    // Runs after layout and before paint, so that the first drawing needs no further frame.
    const resize = new ResizeObserver(() => {
      setSize({ width: host.clientWidth, height: host.clientHeight });
      cancelAnimationFrame(frame);
      draw();
    });
    resize.observe(host);
    onCleanup(() => resize.disconnect());
    props.ref?.(canvas);
  });

  const drawNow = (): void => {
    const { width, height } = size();
    const g = width > 0 && height > 0 ? canvas.getContext("2d") : null;
    if (g === null) return;
    const ratio = Math.min(3, globalThis.devicePixelRatio || 1);
    if (
      canvas.width !== Math.round(width * ratio) ||
      canvas.height !== Math.round(height * ratio)
    ) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    props.draw({ g, width, height, colour: themeColour });
  };
  let frame = 0;
  // The first change of a signal that was read while drawing requests a frame.
  const track = createReaction(() => {
    frame ||= requestAnimationFrame(draw);
  });
  const draw = (): void => {
    frame = 0;
    track(drawNow);
  };
  onCleanup(() => cancelAnimationFrame(frame));

  return (
    <div ref={host} class={`canvas-host ${props.class ?? ""}`}>
      <canvas
        ref={canvas}
        role="img"
        aria-label={props.label}
        tabindex={props.tabindex}
        {...props.events}
      />
    </div>
  );
}
