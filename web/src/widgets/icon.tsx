/**
 * The icon set: 16×16, drawn with the current colour.
 *
 * Invariant: an icon alone has no meaning to a screen reader; its button carries the label.
 */

import { type JSX, Show } from "solid-js";

interface Shape {
  readonly line?: string;
  readonly fill?: string;
}

const dot = (x: number, y: number, r: number): string =>
  `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;

const ICONS = {
  continue: { fill: "M4 3v10l8.5-5z" },
  pause: { line: "M5.5 3.5v9M10.5 3.5v9" },
  over: { line: "M2.5 8.5a5.5 5.5 0 0 1 10.4-2.4M13.3 2.6v3.7H9.6", fill: dot(8, 12, 1.7) },
  into: { line: "M8 1.8v6.4M5.2 5.6 8 8.4l2.8-2.8", fill: dot(8, 12.4, 1.7) },
  out: { line: "M8 8.6V2.2M5.2 4.9 8 2.1l2.8 2.8", fill: dot(8, 12.4, 1.7) },
  node: { line: "M2.5 8h6.2M6 5.2 8.8 8 6 10.8", fill: dot(12.2, 8, 1.7) },
  twin: { line: "M3 6h8.500M9 3.300 11.700 6 9 8.700M13 11H4.500M7 8.600 4.300 11 7 13.400" },
  back: { line: "M13.500 8H7.300M10 5.200 7.200 8 10 10.800", fill: dot(3.8, 8, 1.7) },
  rewind: { fill: "M8 3.500v9L2.500 8zM13.500 3.500v9L8 8z" },
  next: { line: "M2.5 8h7M7 5.2 9.8 8 7 10.8M13 3v10" },
  detach: { line: "M6.5 9.5 3.8 12.2M9.5 6.5l2.7-2.7M5 3v2.5M3 5h2.5M11 13v-2.500M13 11h-2.500" },
  search: { line: `${dot(7, 7, 4.2)}M10.2 10.2l3.3 3.3` },
  share: { line: "M8 10V2.500M5.2 5 8 2.2 10.8 5M3 9v4h10V9" },
  theme: { line: dot(8, 8, 5.2), fill: "M8 2.8a5.2 5.2 0 0 1 0 10.4z" },
  help: {
    line: `${dot(8, 8, 5.6)}M6.3 6.4a1.8 1.8 0 1 1 2.500 1.700c-.6.3-.8.6-.8 1.200`,
    fill: dot(8, 11.3, 0.8),
  },
  fit: { line: "M2.500 5.500v-3h3M10.500 2.500h3v3M13.500 10.500v3h-3M5.500 13.500h-3v-3" },
  pin: { line: "M6 2.500h4l-.6 4.2 2 2.1H4.600l2-2.100zM8 8.800v4.700" },
  hold: { line: "M4.500 13.500v-11h7v11L8 10.300z" },
  swap: { line: "M3 5.500h9M9.500 3 12 5.500 9.500 8M13 10.500H4M6.500 8 4 10.500 6.500 13" },
  copy: { line: "M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3" },
  edit: { line: "M3.500 12.500 4 10l6.500-6.500 2 2L6 12z" },
  close: { line: "m4.500 4.500 7 7m0-7-7 7" },
  down: { line: "m4.500 6.500 3.500 3.500 3.500-3.500" },
  right: { line: "m6.500 4.500 3.500 3.500-3.500 3.500" },
  left: { line: "M9.500 4.500 6 8l3.500 3.500" },
  first: { line: "M11 4 7 8l4 4M4.500 3.500v9" },
  last: { line: "m5 4 4 4-4 4M11.500 3.500v9" },
  plus: { line: "M8 3.500v9M3.500 8h9" },
  tree: { line: "M3 3.500h4M5 3.500v9h3M5 8h3M10 8h3.500M10 12.500h3.500" },
  grid: {
    line: "M2.500 2.500h11v11h-11zM2.500 6.200h11M2.500 9.800h11M6.200 2.500v11M9.800 2.500v11",
  },
} satisfies Record<string, Shape>;

export type IconName = keyof typeof ICONS;

export function Icon(props: { readonly name: IconName; readonly size?: number }): JSX.Element {
  const shape = (): Shape => ICONS[props.name];
  return (
    <svg
      class="icon"
      viewBox="0 0 16 16"
      width={props.size ?? 16}
      height={props.size ?? 16}
      aria-hidden="true"
    >
      <Show when={shape().line}>
        <path class="icon-line" d={shape().line} />
      </Show>
      <Show when={shape().fill}>
        <path class="icon-fill" d={shape().fill} />
      </Show>
    </svg>
  );
}

/** A square button with an icon, its label in the tooltip and for screen readers. */
export function IconButton(props: {
  readonly icon: IconName;
  readonly label: string;
  readonly testid?: string;
  readonly disabled?: boolean;
  readonly pressed?: boolean;
  readonly small?: boolean;
  onClick(): void;
}): JSX.Element {
  return (
    <button
      type="button"
      class="ib"
      classList={{ small: props.small ?? false, on: props.pressed ?? false }}
      title={props.label}
      aria-label={props.label}
      aria-pressed={props.pressed}
      disabled={props.disabled}
      data-testid={props.testid}
      onClick={() => props.onClick()}
    >
      <Icon name={props.icon} size={props.small ? 13 : 16} />
    </button>
  );
}
