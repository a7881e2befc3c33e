/**
 * The two stacked canvases in their host: the still picture below, the live overlay above.
 *
 * Invariant: backing stores match the host's size in device px; each resize is reported once.
 */

import type { Viewport } from "@/render/camera/camera";

export class Stage {
  readonly still: HTMLCanvasElement;
  readonly overlay: HTMLCanvasElement;
  /** CSS px. */
  view: Viewport = { width: 0, height: 0 };
  /** Device px per CSS px. */
  ratio = 1;
  private readonly observer: ResizeObserver | undefined;
  private readonly end = new AbortController();

  constructor(
    readonly host: HTMLElement,
    private readonly resized: () => void,
  ) {
    if (getComputedStyle(host).position === "static") host.style.position = "relative";
    host.style.touchAction = "none";
    host.style.overflow = "hidden";
    this.still = this.canvas();
    this.overlay = this.canvas();
    this.measure();
    if (typeof ResizeObserver !== "undefined") {
      this.observer = new ResizeObserver(() => this.measure() && this.resized());
      this.observer.observe(host);
    }
    // Zooming the page or moving to another screen changes the ratio, not the size in CSS px.
    globalThis.addEventListener?.("resize", () => this.measure() && this.resized(), {
      signal: this.end.signal,
    });
  }

  dispose(): void {
    this.observer?.disconnect();
    this.end.abort();
    this.still.remove();
    this.overlay.remove();
  }

  private canvas(): HTMLCanvasElement {
    const canvas = document.createElement("canvas");
    canvas.style.cssText = "position:absolute;inset:0;width:100%;height:100%;pointer-events:none";
    canvas.setAttribute("aria-hidden", "true");
    this.host.append(canvas);
    return canvas;
  }

  /** Applies a new size at once, before the observer reports it. */
  refresh(): void {
    if (this.measure()) this.resized();
  }

  private measure(): boolean {
    const width = this.host.clientWidth;
    const height = this.host.clientHeight;
    const ratio = globalThis.devicePixelRatio || 1;
    if (width === this.view.width && height === this.view.height && ratio === this.ratio) {
      return false;
    }
    this.view = { ...this.view, width, height };
    this.ratio = ratio;
    for (const canvas of [this.still, this.overlay]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    return true;
  }
}

/** Whether the user has requested reduced motion from the system. */
export function reducedMotion(): boolean {
  return globalThis.matchMedia?.("(prefers-reduced-motion: reduce)").matches ?? false;
}
