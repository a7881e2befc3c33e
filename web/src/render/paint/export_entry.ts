/**
 * The picture without a page: run by Python through the built `export.js`, no DOM, no worker.
 *
 * Invariant: the same layout and drawing code as on screen; input is JSON, output is SVG text.
 */

import { ancestors } from "@/base/scopes";
import { sectionScopes } from "@/base/sections";
import { composeScene } from "@/layout/compose";
import { buildHierarchy, heldBy } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import { placeLabels } from "@/render/draw/draw_edges";
import { liveState } from "@/render/draw/execution_overlay";
import { literalPalette, type Theme } from "@/render/draw/palette";
import { drawSvg } from "@/render/paint/picture";
import { SceneModel } from "@/render/scene/model";
import type { GraphNode, GraphValue } from "@/render/scene/types";
import { NO_AMOUNTS } from "@/render/scene/types";

interface ExportInput {
  readonly nodes: readonly GraphNode[];
  readonly values: readonly GraphValue[];
  readonly open: "all" | readonly string[];
  /** Sections with fewer enclosing scopes than this are also open; null adds none. */
  readonly levels: number | null;
  readonly theme: Theme;
  readonly title: string;
  /** CSS that contains the fonts themselves; may be empty. */
  readonly fonts: string;
}

const MARGIN = 32;

/** SVG of a graph given as JSON (`ExportInput`); throws a one-line Error on other input. */
export function renderSvg(json: string): string {
  const input = parseInput(json);
  const { nodes, sections } = inSections(input.nodes);
  const hierarchy = buildHierarchy(nodes, new Map(input.values.map((value) => [value.id, value])));
  const levels = input.levels ?? 0;
  const opened = sections.filter((path) => path.split("/").length <= levels);
  const open = input.open === "all" ? "all" : new Set([...input.open, ...opened]);
  const model = new SceneModel(hierarchy, composeScene(new NestedLayout(hierarchy), open, 1));
  const { left, top, right, bottom } = model.scene;
  return drawSvg(
    {
      palette: literalPalette(input.theme),
      model,
      live: liveState(hierarchy, undefined, 0),
      view: {
        x: left - MARGIN,
        y: top - MARGIN,
        width: right - left + 2 * MARGIN,
        height: bottom - top + 2 * MARGIN,
      },
      zoom: 1,
      colourBy: "family",
      tints: new Map(),
      amounts: NO_AMOUNTS,
      heatMost: 0,
      matches: undefined,
      changes: undefined,
      path: undefined,
      current: -1,
      selected: -1,
      raised: -1,
      labels: placeLabels(model),
    },
    {
      current: undefined,
      badge: undefined,
      breakpoints: new Map(),
      watchMarks: new Map(),
      selection: undefined,
      hover: undefined,
      linked: new Set(),
      gutter: undefined,
      edge: undefined,
    },
    input.title,
    { fonts: input.fonts },
  );
}

/** The nodes, moved into the sections in which the page shows them, and the sections' paths. */
function inSections(nodes: readonly GraphNode[]): {
  readonly nodes: readonly GraphNode[];
  readonly sections: readonly string[];
} {
  const scopes = sectionScopes(nodes, (index) => heldBy(nodes[index]!));
  const sections = new Set<string>();
  const divided = nodes.map((node, at) => {
    const scope = scopes[at] ?? node.scope;
    if (scope === node.scope) return node;
    for (const path of ancestors(scope)) if (path.length > node.scope.length) sections.add(path);
    return { ...node, scope };
  });
  return { nodes: divided, sections: [...sections] };
}

function parseInput(json: string): ExportInput {
  const input = JSON.parse(json) as Partial<ExportInput>;
  if (!Array.isArray(input.nodes) || !Array.isArray(input.values)) {
    throw new Error("renderSvg: `nodes` and `values` must be lists.");
  }
  const { nodes, values } = input as Pick<ExportInput, "nodes" | "values">;
  return {
    // JSON has no undefined: a node that differentiates nothing has null.
    nodes: nodes.map((node) => ({ ...node, forward: node.forward ?? undefined })),
    values,
    open: input.open ?? "all",
    levels: input.levels ?? null,
    theme: input.theme === "dark" ? "dark" : "light",
    title: typeof input.title === "string" ? input.title : "nodescope graph",
    fonts: typeof input.fonts === "string" ? input.fonts : "",
  };
}
