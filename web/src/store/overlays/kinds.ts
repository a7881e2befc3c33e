/** The overlays, by the colouring that shows each. */

import { flopsOverlay } from "@/store/overlays/flops";
import { gradientOverlay } from "@/store/overlays/gradients";
import type { Moment, NumberOverlay } from "@/store/overlays/overlay";
import { rooflineOverlay } from "@/store/overlays/roofline";
import { selfTimeOverlay } from "@/store/overlays/self_time";
import { zerosOverlay } from "@/store/overlays/zeros";
import type { ColourMode } from "@/store/page/ui";

export interface OverlayKind {
  /** Whether it needs the statistics of all values. */
  readonly asks: boolean;
  make(moment: Moment): NumberOverlay;
}

export const OVERLAYS: ReadonlyMap<ColourMode, OverlayKind> = new Map([
  ["zeros", { asks: true, make: zerosOverlay }],
  ["gradient", { asks: true, make: gradientOverlay }],
  ["self", { asks: false, make: selfTimeOverlay }],
  ["flops", { asks: false, make: flopsOverlay }],
  ["roofline", { asks: false, make: rooflineOverlay }],
]);
