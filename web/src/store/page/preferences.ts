/**
 * Preferences that the page keeps between visits in localStorage: theme, pane sizes, and whether
 * zooming opens scopes.
 *
 * Invariant: a browser without storage (or with invalid content in it) gets the defaults.
 */

import { type Accessor, createSignal } from "solid-js";
import { clamp } from "@/base/geometry";

export type Theme = "dark" | "light";
export type Pane = "outline" | "inspector" | "dock" | "breakpoints";

export interface PaneLimits {
  readonly least: number;
  readonly most: number;
  readonly variable: string;
}

export const PANES: Readonly<Record<Pane, PaneLimits>> = {
  outline: { least: 160, most: 520, variable: "--w-outline" },
  inspector: { least: 300, most: 760, variable: "--w-inspector" },
  dock: { least: 96, most: 640, variable: "--h-dock" },
  breakpoints: { least: 260, most: 900, variable: "--w-breakpoints" },
};

export interface Preferences {
  readonly theme: Accessor<Theme>;
  setTheme(theme: Theme): void;
  /** Size in px that the user gave a pane; undefined = the theme's own. */
  size(pane: Pane): number | undefined;
  setSize(pane: Pane, px: number | undefined): void;
  /** Whether zooming in opens the scope under the pointer. */
  readonly zoomOpens: Accessor<boolean>;
  setZoomOpens(opens: boolean): void;
}

export function createPreferences(
  storage: Storage | undefined,
  prefersLight: boolean,
): Preferences {
  const saved = read(storage, "nodescope.theme");
  const [theme, setTheme] = createSignal<Theme>(
    saved === "dark" || saved === "light" ? saved : prefersLight ? "light" : "dark",
  );
  const [sizes, setSizes] = createSignal<Readonly<Partial<Record<Pane, number>>>>(
    parseSizes(read(storage, "nodescope.panes")),
  );
  const [zoomOpens, setZoomOpens] = createSignal(read(storage, "nodescope.zoom") !== "still");
  return {
    theme,
    zoomOpens,
    setZoomOpens(opens) {
      setZoomOpens(opens);
      write(storage, "nodescope.zoom", opens ? "opens" : "still");
    },
    setTheme(next) {
      setTheme(next);
      write(storage, "nodescope.theme", next);
    },
    size: (pane) => sizes()[pane],
    setSize(pane, px) {
      const { [pane]: _old, ...rest } = sizes();
      const next =
        px === undefined
          ? rest
          : { ...rest, [pane]: Math.round(clamp(px, PANES[pane].least, PANES[pane].most)) };
      setSizes(next);
      write(storage, "nodescope.panes", JSON.stringify(next));
    },
  };
}

function parseSizes(text: string | undefined): Partial<Record<Pane, number>> {
  const sizes: Partial<Record<Pane, number>> = {};
  try {
    const stored: unknown = JSON.parse(text ?? "{}");
    for (const pane of Object.keys(PANES) as Pane[]) {
      const px = (stored as Record<string, unknown> | null)?.[pane];
      if (typeof px === "number" && px >= PANES[pane].least && px <= PANES[pane].most) {
        sizes[pane] = px;
      }
    }
  } catch {
    // Foreign text under our key counts as no sizes.
  }
  return sizes;
}

function read(storage: Storage | undefined, key: string): string | undefined {
  try {
    return storage?.getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

function write(storage: Storage | undefined, key: string, text: string): void {
  try {
    storage?.setItem(key, text);
  } catch {
    // If storage is full or forbidden, the preference lasts as long as the page.
  }
}
