/**
 * Crossings, length of edges and area of layered drawings: the page's layout, dagre, ELK and dot on
 * the same boxes. `node measure.mjs graph.json`: {width, height: per node; edges: [source, target]}.
 *
 * Invariant: lines are measured as they are drawn, curves as chords; edges with a common end do not
 * cross, and what edges share at their beginning counts once.
 */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import dagre from "@dagrejs/dagre";
import ELK from "elkjs/lib/elk.bundled.js";
import { layoutPacked } from "@/layout/packed";

const NODE_GAP = 18;
const LAYER_GAP = 30;
const PX_PER_INCH = 72;
const CHORDS = 6;

function ours({ width, height, edges }) {
  const drawn = layoutPacked(
    {
      width: Float64Array.from(width),
      height: Float64Array.from(height),
      pin: new Uint8Array(width.length),
      spread: new Uint8Array(width.length).fill(1),
      source: Int32Array.from(edges, ([source]) => source),
      target: Int32Array.from(edges, ([, target]) => target),
      sourceOffset: new Float32Array(edges.length),
      targetOffset: new Float32Array(edges.length),
      nodeGap: NODE_GAP,
      layerGap: LAYER_GAP,
      portGap: 16,
      upward: false,
      wantedY: undefined,
    },
    Number.POSITIVE_INFINITY,
  );
  const lines = edges.map((_, edge) => {
    const line = [];
    for (let at = drawn.start[edge] + drawn.shared[edge]; at < drawn.start[edge + 1]; at++) {
      line.push([drawn.points[2 * at], drawn.points[2 * at + 1]]);
    }
    return line;
  });
  return { edges, lines, width: drawn.width, height: drawn.bottom - drawn.top };
}

function byDagre({ width, height, edges }) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ nodesep: NODE_GAP, ranksep: LAYER_GAP, edgesep: 10 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of width.keys()) {
    graph.setNode(`${node}`, { width: width[node], height: height[node] });
  }
  for (const [at, [from, to]] of edges.entries()) graph.setEdge(`${from}`, `${to}`, {}, `${at}`);
  dagre.layout(graph);
  const lines = edges.map(([from, to], at) =>
    graph.edge(`${from}`, `${to}`, `${at}`).points.map(({ x, y }) => [x, y]),
  );
  return { edges, lines, width: graph.graph().width, height: graph.graph().height };
}

async function byElk({ width, height, edges }) {
  const drawn = await new ELK().layout({
    id: "graph",
    layoutOptions: {
      "elk.algorithm": "layered",
      "elk.direction": "DOWN",
      "elk.spacing.nodeNode": `${NODE_GAP}`,
      "elk.layered.spacing.nodeNodeBetweenLayers": `${LAYER_GAP}`,
    },
    children: width.map((wide, node) => ({ id: `n${node}`, width: wide, height: height[node] })),
    edges: edges.map(([from, to], at) => ({
      id: `e${at}`,
      sources: [`n${from}`],
      targets: [`n${to}`],
    })),
  });
  const lines = drawn.edges.map(({ sections: [section] }) =>
    [section.startPoint, ...(section.bendPoints ?? []), section.endPoint].map(({ x, y }) => [x, y]),
  );
  return { edges, lines, width: drawn.width, height: drawn.height };
}

function byDot({ width, height, edges }) {
  const nodes = width.map(
    (wide, node) =>
      `${node}[width=${wide / PX_PER_INCH},height=${height[node] / PX_PER_INCH}]`,
  );
  const text = `digraph {
    graph [nodesep=${NODE_GAP / PX_PER_INCH} ranksep=${LAYER_GAP / PX_PER_INCH}]
    node [shape=box fixedsize=true label=""]
    ${nodes.join("\n")}
    ${edges.map(([from, to]) => `${from} -> ${to}`).join("\n")}
  }`;
  const drawn = JSON.parse(
    execFileSync("dot", ["-Tjson"], { input: text, maxBuffer: 1 << 28, timeout: 60_000 }),
  );
  const [, , right, top] = drawn.bb.split(",").map(Number);
  return {
    edges: drawn.edges.map(({ tail, head }) =>
      [tail, head].map((end) => Number(drawn.objects[end].name)),
    ),
    lines: drawn.edges.map((edge) => chords(edge._draw_.find(({ op }) => op === "b").points)),
    width: right,
    height: top,
  };
}

/** Cubic Bézier curves as straight pieces. */
function chords(points) {
  const line = [points[0]];
  for (let at = 0; at + 3 < points.length; at += 3) {
    const [a, b, c, d] = points.slice(at, at + 4);
    for (let piece = 1; piece <= CHORDS; piece++) {
      const t = piece / CHORDS;
      const s = 1 - t;
      line.push(
        [0, 1].map(
          (k) =>
            s ** 3 * a[k] + 3 * s * s * t * b[k] + 3 * s * t * t * c[k] + t ** 3 * d[k],
        ),
      );
    }
  }
  return line;
}

function lengthOf(line) {
  let length = 0;
  for (let at = 1; at < line.length; at++) {
    length += Math.hypot(line[at][0] - line[at - 1][0], line[at][1] - line[at - 1][1]);
  }
  return length;
}

/** Pairs of edges that cross, but for those with a common end. */
function crossingsOf({ lines, edges }) {
  const pieces = lines.flatMap((line, edge) =>
    line.slice(1).map((to, at) => {
      const from = line[at];
      return { edge, from, to, top: Math.min(from[1], to[1]), bottom: Math.max(from[1], to[1]) };
    }),
  );
  pieces.sort((a, b) => a.top - b.top);
  const pairs = new Set();
  for (const [at, a] of pieces.entries()) {
    for (let next = at + 1; next < pieces.length && pieces[next].top <= a.bottom; next++) {
      const b = pieces[next];
      const ends = [...edges[a.edge], ...edges[b.edge]];
      if (a.edge === b.edge || new Set(ends).size < 4) continue;
      if (cross(a, b)) pairs.add(`${Math.min(a.edge, b.edge)} ${Math.max(a.edge, b.edge)}`);
    }
  }
  return pairs.size;
}

function cross(a, b) {
  return (
    side(a, b.from) * side(a, b.to) < 0 && side(b, a.from) * side(b, a.to) < 0
  );
}

function side({ from, to }, [x, y]) {
  return (to[0] - from[0]) * (y - from[1]) - (to[1] - from[1]) * (x - from[0]);
}

const graph = JSON.parse(readFileSync(process.argv[2], "utf8"));
const figures = {};
for (const [name, draw] of Object.entries({ ours, dagre: byDagre, ELK: byElk, dot: byDot })) {
  const start = performance.now();
  const drawn = await draw(graph);
  const ms = performance.now() - start;
  const length = drawn.lines.reduce((sum, line) => sum + lengthOf(line), 0) / drawn.lines.length;
  const { width, height } = drawn;
  figures[name] = { crossings: crossingsOf(drawn), length, width, height, ms };
}
console.log(JSON.stringify(figures));
