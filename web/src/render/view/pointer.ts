/**
 * Pointer and wheel input, reported as intentions.
 *
 * Invariant: knows nothing about the graph; a press that moves less than a few px is a click.
 */

import type { Point } from "@/base/geometry";

export interface PointerIntent {
  pan(dx: number, dy: number): void;
  zoom(anchor: Point, factor: number): void;
  hover(point: Point | undefined): void;
  click(point: Point): void;
  doubleClick(point: Point): void;
  /** A drag begins (true) or ends (false). */
  dragging(active: boolean): void;
}

const CLICK_SLOP = 4;
const DOUBLE_MS = 350;

/** Listens on `host`; returns a function that stops. */
export function listenToPointer(host: HTMLElement, intent: PointerIntent): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  let press: { id: number; x: number; y: number; moved: boolean; button: number } | undefined;
  let lastClick = { time: -1e9, x: 0, y: 0 };
  const pinch = new Map<number, Point>();
  const local = (event: MouseEvent): Point => {
    const rect = host.getBoundingClientRect();
    return { x: event.clientX - rect.left, y: event.clientY - rect.top };
  };

  host.addEventListener(
    "pointerdown",
    (event) => {
      if (event.button !== 0 && event.button !== 1) return;
      const point = local(event);
      pinch.set(event.pointerId, point);
      press = { id: event.pointerId, ...point, moved: pinch.size > 1, button: event.button };
      host.setPointerCapture(event.pointerId);
      // The middle button would start the browser's own scrolling.
      if (event.button === 1) event.preventDefault();
    },
    { signal },
  );

  host.addEventListener(
    "pointermove",
    (event) => {
      const point = local(event);
      const before = pinch.get(event.pointerId);
      if (before !== undefined && pinch.size === 2) {
        const other = [...pinch].find(([id]) => id !== event.pointerId)![1];
        const was = Math.hypot(before.x - other.x, before.y - other.y);
        const is = Math.hypot(point.x - other.x, point.y - other.y);
        pinch.set(event.pointerId, point);
        const middle = { x: (point.x + other.x) / 2, y: (point.y + other.y) / 2 };
        if (was > 8) intent.zoom(middle, is / was);
        intent.pan((point.x - before.x) / 2, (point.y - before.y) / 2);
        return;
      }
      if (press === undefined || press.id !== event.pointerId) {
        intent.hover(point);
        return;
      }
      if (!press.moved && Math.hypot(point.x - press.x, point.y - press.y) < CLICK_SLOP) return;
      if (!press.moved) intent.dragging(true);
      press.moved = true;
      intent.pan(point.x - (before ?? point).x, point.y - (before ?? point).y);
      pinch.set(event.pointerId, point);
    },
    { signal },
  );

  const release = (event: PointerEvent): void => {
    pinch.delete(event.pointerId);
    if (press === undefined || press.id !== event.pointerId) return;
    const { moved, button } = press;
    press = undefined;
    if (moved) {
      intent.dragging(false);
      return;
    }
    if (event.type !== "pointerup" || button !== 0) return;
    const point = local(event);
    const near = Math.hypot(point.x - lastClick.x, point.y - lastClick.y) < 6;
    if (event.timeStamp - lastClick.time < DOUBLE_MS && near) {
      lastClick = { time: -1e9, x: 0, y: 0 };
      intent.doubleClick(point);
    } else {
      lastClick = { time: event.timeStamp, ...point };
      intent.click(point);
    }
  };
  host.addEventListener("pointerup", release, { signal });
  host.addEventListener("pointercancel", release, { signal });
  host.addEventListener("pointerleave", () => intent.hover(undefined), { signal });

  host.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 240 : 1;
      if (event.shiftKey) {
        intent.pan(-(event.deltaX + event.deltaY) * unit, 0);
        return;
      }
      // A pinch on a touchpad arrives as a wheel event with Ctrl and small steps.
      const speed = event.ctrlKey ? 0.01 : 0.0016;
      intent.zoom(local(event), Math.exp(-event.deltaY * unit * speed));
      if (event.deltaX !== 0 && !event.ctrlKey) intent.pan(-event.deltaX * unit, 0);
    },
    { signal, passive: false },
  );

  return () => stop.abort();
}
