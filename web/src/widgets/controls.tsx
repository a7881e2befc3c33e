/**
 * Small controls: tabs, segmented choice, splitter between panes.
 *
 * Invariant: each works by keyboard and pointer, and exposes its state to screen readers.
 */

import {
  createEffect,
  createMemo,
  For,
  Index,
  type JSX,
  on,
  onCleanup,
  onMount,
  Show,
} from "solid-js";
import { formatCount } from "@/base/numbers";

export interface Tab<Id extends string> {
  readonly id: Id;
  readonly title: string;
  readonly count?: number | undefined;
  readonly tone?: "plain" | "nan" | undefined;
}

export function Tabs<Id extends string>(props: {
  readonly label: string;
  readonly tabs: readonly Tab<Id>[];
  readonly active: Id;
  onSelect(id: Id): void;
}): JSX.Element {
  const move = (by: number): void => {
    const at = props.tabs.findIndex((tab) => tab.id === props.active);
    const next = props.tabs[(at + by + props.tabs.length) % props.tabs.length];
    if (next !== undefined) props.onSelect(next.id);
  };
  let host!: HTMLDivElement;
  onMount(() => {
    // Keeps the active tab in view when something beside the tabs takes their room.
    const resize = new ResizeObserver(() => {
      host.querySelector("[aria-selected=true]")?.scrollIntoView({ inline: "nearest" });
    });
    resize.observe(host);
    onCleanup(() => resize.disconnect());
  });
  return (
    <div
      class="tabs"
      role="tablist"
      ref={host}
      aria-label={props.label}
      onKeyDown={(event) => {
        if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
        move(event.key === "ArrowRight" ? 1 : -1);
        event.preventDefault();
        event.stopPropagation();
        event.currentTarget.querySelector<HTMLElement>("[aria-selected=true]")?.focus();
      }}
    >
      {/* `Index`, not `For`: tabs that are listed anew, with other counts, keep their elements. */}
      <Index each={props.tabs}>
        {(tab) => {
          const active = createMemo(() => props.active === tab().id);
          return (
            <button
              type="button"
              role="tab"
              class="tab"
              aria-selected={active()}
              tabindex={active() ? 0 : -1}
              data-testid={`tab-${tab().id}`}
              ref={(element) => {
                // Scrolls a newly chosen tab into view; the observer does so for the first one.
                const scroll = (is: boolean): void => {
                  if (is) element.scrollIntoView?.({ inline: "nearest" });
                };
                createEffect(on(active, scroll, { defer: true }));
              }}
              onClick={() => props.onSelect(tab().id)}
            >
              {tab().title}
              <Show when={(tab().count ?? 0) > 0}>
                <b class="cnt" classList={{ n: tab().tone === "nan" }}>
                  {formatCount(tab().count ?? 0)}
                </b>
              </Show>
            </button>
          );
        }}
      </Index>
    </div>
  );
}

export function Segmented<Id extends string>(props: {
  readonly label: string;
  readonly options: readonly { readonly id: Id; readonly title: string }[];
  readonly active: Id;
  onSelect(id: Id): void;
}): JSX.Element {
  return (
    <span class="seg" role="radiogroup" aria-label={props.label}>
      <For each={props.options}>
        {(option) => (
          <button
            type="button"
            role="radio"
            aria-checked={props.active === option.id}
            classList={{ on: props.active === option.id }}
            onClick={() => props.onSelect(option.id)}
          >
            {option.title}
          </button>
        )}
      </For>
    </span>
  );
}

const KEY_STEP = 16;

/** A handle between two panes. Reports sizes; a double click restores the theme's default. */
export function Splitter(props: {
  readonly label: string;
  readonly axis: "x" | "y";
  /** 1: the pane grows towards larger coordinates; -1: towards smaller ones. */
  readonly direction: 1 | -1;
  /** Current size of the pane in px. */
  measure(): number;
  onResize(px: number | undefined): void;
}): JSX.Element {
  const begin = (event: PointerEvent & { currentTarget: HTMLElement }): void => {
    if (event.button !== 0) return;
    const handle = event.currentTarget;
    const from = props.axis === "x" ? event.clientX : event.clientY;
    const size = props.measure();
    handle.setPointerCapture(event.pointerId);
    const drag = (move: PointerEvent): void => {
      const now = props.axis === "x" ? move.clientX : move.clientY;
      props.onResize(size + (now - from) * props.direction);
    };
    const end = (): void => {
      handle.removeEventListener("pointermove", drag);
      handle.removeEventListener("pointerup", end);
      handle.removeEventListener("pointercancel", end);
    };
    handle.addEventListener("pointermove", drag);
    handle.addEventListener("pointerup", end);
    handle.addEventListener("pointercancel", end);
    event.preventDefault();
  };
  return (
    <div
      class={`splitter ${props.axis}`}
      role="separator"
      tabindex={0}
      aria-label={props.label}
      aria-orientation={props.axis === "x" ? "vertical" : "horizontal"}
      aria-valuenow={0}
      onPointerDown={begin}
      onDblClick={() => props.onResize(undefined)}
      onKeyDown={(event) => {
        const forward = props.axis === "x" ? "ArrowRight" : "ArrowDown";
        const back = props.axis === "x" ? "ArrowLeft" : "ArrowUp";
        if (event.key !== forward && event.key !== back) return;
        const by = (event.key === forward ? KEY_STEP : -KEY_STEP) * props.direction;
        props.onResize(props.measure() + by);
        event.preventDefault();
        event.stopPropagation();
      }}
    />
  );
}
