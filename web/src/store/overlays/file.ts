/** The file overlay: numbers from a file in Model Explorer's node-data format. */

import { formatNumber, plural } from "@/base/numbers";
import type { NumberOverlay } from "@/store/overlays/overlay";
import type { NodeData } from "@/store/run/node_data";

export function fileOverlay(name: string, data: NodeData): NumberOverlay {
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  for (const value of data.values.values()) {
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  return {
    title: name,
    numbers: { values: data.values, join: "largest", least, most, colour: data.colour },
    folded: "the largest in it",
    note: data.unknown > 0 ? `${plural(data.unknown, "name")} not in this graph` : "",
    format: (value) => formatNumber(value, 4),
  };
}
