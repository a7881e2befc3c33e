/**
 * The features that the page offers for a node, or for a whole run: the capabilities of its
 * frameworks' adapters.
 *
 * Invariant: pure, and the only place that reads capabilities. A run without stated capabilities,
 * as in recordings of earlier releases, offers everything.
 */

import type { RunModel } from "@/store/run/run_model";
import type { Executions } from "@/wire/decode";
import type { Framework, Node, RunInfo } from "@/wire/types.gen";

/** Features that may be withheld, and the text after "Not available for torch: ". */
const WISHES = {
  values: "values",
  gradients: "gradients",
  edit: "editing values",
  before: "stops before a node",
  timing: "times",
  scopes: "scopes",
  rerun: "What if, since its operations cannot be run again",
} as const;

export type Wish = keyof typeof WISHES;

const ALL = Object.keys(WISHES) as readonly Wish[];

export interface Capable {
  model():
    | {
        readonly info: Pick<RunInfo, "frameworks">;
        readonly graph: { readonly nodes: readonly (Pick<Node, "dialect"> | undefined)[] };
      }
    | undefined;
}

/** Args: node: Its id; undefined asks whether any framework of the run offers it. */
export function offers(store: Capable, wish: Wish, node?: number): boolean {
  const frameworks = frameworksOf(store, node);
  return frameworks.length === 0 || frameworks.some((framework) => can(framework, wish));
}

/** Rows without the times of nodes whose framework cannot measure them. */
export function withoutFalseTimes(rows: Executions, model: RunModel | undefined): Executions {
  const store: Capable = { model: () => model };
  if (!frameworksOf(store, undefined).some((framework) => !can(framework, "timing"))) return rows;
  const durationNs = rows.durationNs.map((ns, i) =>
    offers(store, "timing", rows.node[i]) ? ns : 0,
  );
  return { ...rows, durationNs };
}

/** Why some of the page's features are missing here, as a sentence; "" if none are. */
export function withheldWords(
  store: Capable,
  node?: number,
  wishes: readonly Wish[] = ALL,
): string {
  const missing = wishes.filter((wish) => !offers(store, wish, node));
  if (missing.length === 0) return "";
  const names = frameworksOf(store, node).map((framework) => framework.dialect);
  return `Not available for ${names.join(", ")}: ${missing.map((wish) => WISHES[wish]).join("; ")}.`;
}

/** The framework of a node if it is not nodescope's own engine; else "". */
export function foreignTo(node: Pick<Node, "dialect">): string {
  return node.dialect === "nodescope" ? "" : node.dialect;
}

function frameworksOf(store: Capable, node: number | undefined): readonly Framework[] {
  const model = store.model();
  const frameworks = model?.info.frameworks ?? [];
  if (node === undefined) return frameworks;
  const dialect = model?.graph.nodes[node]?.dialect;
  return frameworks.filter((framework) => framework.dialect === dialect);
}

function can({ capabilities }: Framework, wish: Wish): boolean {
  const known = capabilities[wish];
  return known !== false && known !== "none";
}
