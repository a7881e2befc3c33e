import { describe, expect, it } from "vitest";
import { composeScene } from "@/layout/compose";
import { buildHierarchy } from "@/layout/hierarchy";
import { NestedLayout } from "@/layout/nested";
import { BOX_FAR } from "@/layout/types";
import { literalPalette } from "@/render/draw/palette";
import { hitTest, neighbourOf } from "@/render/scene/hit";
import { SceneModel } from "@/render/scene/model";
import type { GraphNode } from "@/render/scene/types";
import { node } from "@/render/testing";
import { plainLook, svgOf } from "@/render/view/view_options";

const FAR_READERS = [20, 30, 40, 50];
const NODES: readonly GraphNode[] = Array.from({ length: 60 }, (_, at) => {
  const id = at + 2;
  const inputs = [...(at > 0 ? [99 + id] : []), ...(FAR_READERS.includes(id) ? [101] : [])];
  return node(id, { inputs });
});
const MASK = node(1, { label: "mask", inputs: [102] });
const HIERARCHY = buildHierarchy([...NODES, MASK], new Map());
const MODEL = new SceneModel(HIERARCHY, composeScene(new NestedLayout(HIERARCHY), "all", 1));
const STUBS = [...MODEL.scene.kind.keys()].filter((box) => MODEL.scene.kind[box] === BOX_FAR);
const boxOf = (id: number): number => MODEL.boxOf({ kind: "node", id });

describe("stubs for a far producer", () => {
  it("are hit as their producer, which keeps its own box", () => {
    expect(STUBS).toHaveLength(4);
    expect(STUBS).not.toContain(boxOf(1));
    for (const stub of STUBS) {
      const { x, y } = MODEL.rect(stub);
      expect(hitTest(MODEL, { x: x + 3, y: y + 3 })?.item).toEqual({ kind: "node", id: 1 });
    }
  });

  it("are skipped by the arrow keys: from the producer to its readers, and back", () => {
    const below = neighbourOf(MODEL, boxOf(1), "down");
    expect(FAR_READERS.map(boxOf)).toContain(below);
    for (const direction of ["up", "down", "left", "right"] as const) {
      for (const { id } of NODES) {
        expect(STUBS).not.toContain(neighbourOf(MODEL, boxOf(id), direction));
      }
    }
  });

  it("name their producer, and the producer shows how many there are", () => {
    const svg = svgOf(plainLook(literalPalette("light")), MODEL, [], { title: "t", fonts: "" });
    expect(svg.match(/<text[^>]*>mask</g)).toHaveLength(5);
    expect(svg).toContain(">4×<");
  });
});
