"""DOT: the graph for Graphviz, open scopes as nested clusters, folded ones as one box each.

Invariant: names from the program appear only as escaped labels; identifiers are made from numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import graphviz

from nodescope.export import ExportOptions, Theme, exporter, graph_and_title
from nodescope.export.boxes import boxes_of, edge_words, fold_words
from nodescope.export.folding import opened, within
from nodescope.export.words import detail, label, visible
from nodescope.ir.graph import Graph, Node
from nodescope.record.recording import Recording

FAMILIES: dict[Theme, dict[str, str]] = {
    "light": {
        "matmul": "#2a6fd0",
        "elementwise": "#6c7885",
        "activation": "#0d8a7a",
        "reduction": "#7354d0",
        "norm": "#1789b0",
        "layout": "#8d7a55",
        "index": "#548a2c",
        "random": "#b0568f",
        "loss": "#96830a",
        "update": "#ad6229",
        "control": "#4a4fd6",
        "kernel": "#c4501b",
        "communication": "#c02a5c",
        "task": "#1f63c4",
        "actor": "#a3327f",
        "other": "#6e6e6e",
    },
    "dark": {
        "matmul": "#5b9df5",
        "elementwise": "#8b97a5",
        "activation": "#35b8a6",
        "reduction": "#a78bf0",
        "norm": "#4fb6dc",
        "layout": "#b5a27b",
        "index": "#83b85a",
        "random": "#d68fc0",
        "loss": "#d0bb3e",
        "update": "#d08a5b",
        "control": "#8b8ff5",
        "kernel": "#ff9d6e",
        "communication": "#f07a9c",
        "task": "#6fb1ff",
        "actor": "#e39bd0",
        "other": "#8c8c8c",
    },
}


class _Tones(NamedTuple):
    ground: str
    node: str
    text: str
    text_2: str
    text_3: str
    line: str
    border: str
    scopes: tuple[str, str, str]


_TONES: dict[Theme, _Tones] = {
    "light": _Tones(
        "#f6f7f8", "#ffffff", "#14181d", "#414a54", "#5b6570", "#98a1ab", "#c7cdd4",
        ("#f1f3f5", "#eaedf0", "#e2e7eb"),
    ),
    "dark": _Tones(
        "#0e1114", "#1a1f24", "#e8ebee", "#aab3bd", "#87919d", "#5a636e", "#343c45",
        ("#11151a", "#151a20", "#1a2027"),
    ),
}  # fmt: skip

# Beyond this many boxes, the network simplex of `dot` takes minutes, so it is limited. The picture
# then has no edge labels, which `dot` treats as boxes, and no lines between the passes.
MANY = 300
FEW = 12
"""The limit of lines drawn between the passes; more would hide both."""


@exporter("dot", suffix=".dot")
def render_dot(recording: Recording, options: ExportOptions) -> bytes:
    """DOT text in UTF-8."""
    graph, title = graph_and_title(recording, options)
    return str(dot_for(graph, title, options).source).encode()


def dot_for(graph: Graph, title: str, options: ExportOptions) -> graphviz.Digraph:
    """The part of a graph that the options select, folded and coloured accordingly."""
    part = within(graph, options.scope) if options.scope else graph
    shown = opened(part, options.expand, options.scope.strip("/"))
    return dot_of(part, title=title, shown=shown, theme=options.theme)


def dot_of(
    graph: Graph, *, title: str = "", shown: frozenset[str] | None = None, theme: Theme = "light"
) -> graphviz.Digraph:
    """The graph as a `graphviz.Digraph`, top to bottom, edges labelled with shapes.

    Args:
        shown: The open scopes; by default, all of them.
    """
    open_ = opened(graph, "all") if shown is None else shown
    return _Drawing(graph, open_, theme).dot(title)


def text(plain: str) -> str:
    """Text as a DOT label: quoted by graphviz, never HTML-like, backslashes literal."""
    # A leading space keeps `<...>` from being read as an HTML-like label.
    guarded = f" {plain}" if plain.startswith("<") and plain.endswith(">") else plain
    # Graphviz reads entities in labels: `&lt;` in a name would be shown as `<`.
    return str(graphviz.escape(guarded.replace("&", "&amp;")))


class _Drawing:
    def __init__(self, graph: Graph, shown: frozenset[str], theme: Theme) -> None:
        self.families = FAMILIES[theme]
        self.tones = _TONES[theme]
        self.boxes = boxes_of(graph, shown)
        self.many = self.boxes.total > MANY

    def dot(self, title: str) -> graphviz.Digraph:
        tones = self.tones
        bounds = {"nslimit": "2", "nslimit1": "2", "mclimit": "0.5", "splines": "polyline"}
        dot = graphviz.Digraph(
            "nodescope",
            graph_attr={
                "rankdir": "TB",
                "bgcolor": tones.ground,
                "fontname": "Helvetica",
                "fontsize": "11",
                "fontcolor": tones.text_2,
                "label": text(visible(title)),
                "labelloc": "t",
                "nodesep": "0.25",
                "ranksep": "0.35",
                **(bounds if self.many else {}),
            },
            node_attr={
                "shape": "box",
                "style": "rounded,filled",
                "fillcolor": tones.node,
                "fontname": "Helvetica",
                "fontsize": "10",
                "fontcolor": tones.text,
                "margin": "0.12,0.05",
                "height": "0.3",
            },
            edge_attr={
                "color": tones.line,
                "fontname": "Courier",
                "fontsize": "8",
                "fontcolor": tones.text_3,
                "arrowsize": "0.6",
            },
        )
        self._fill(dot, "", [0])
        self._draw_edges(dot)
        return dot

    def _fill(self, dot: graphviz.Digraph, scope: str, count: list[int]) -> None:
        for node in self.boxes.nodes.get(scope, ()):
            self._node(dot, node)
        for child in self.boxes.scopes.get(scope, ()):
            if child in self.boxes.folded:
                self._fold(dot, child)
                continue
            count[0] += 1
            with dot.subgraph(name=f"cluster_{count[0]}") as cluster:
                cluster.attr(
                    label=text(visible(child.rpartition("/")[2])),
                    labeljust="l",
                    style="rounded,filled",
                    color=self.tones.border,
                    fillcolor=self.tones.scopes[child.count("/") % 3],
                )
                self._fill(cluster, child, count)

    def _node(self, dot: graphviz.Digraph, node: Node) -> None:
        if node.is_leaf:
            small = {"shape": "plaintext", "style": "", "fontsize": "8", "height": "0.15"}
            dot.node(
                f"n{node.id}",
                text(label(node)),
                margin="0.03,0.01",
                fontcolor=self.tones.text_3,
                **small,
            )
            return
        colour = self.families.get(node.family, self.families["other"])
        line = detail(node)
        caption = text(label(node)) + (f"\\n{text(line)}" if line else "")
        dot.node(f"n{node.id}", caption, color=colour, tooltip=text(visible(node.name)))

    def _fold(self, dot: graphviz.Digraph, scope: str) -> None:
        nodes = self.boxes.folded[scope]
        name = text(visible(scope.rpartition("/")[2]))
        dot.node(
            self.boxes.names[nodes[0].id],
            f"{name}\\n{fold_words(nodes)}",
            style="rounded,filled",
            peripheries="2",
            color=self.tones.border,
            fillcolor=self.tones.scopes[scope.count("/") % 3],
            tooltip=text(visible(scope)),
        )

    def _draw_edges(self, dot: graphviz.Digraph) -> None:
        edges, specs = self.boxes.edges, self.boxes.specs
        crossing = {edge for edge in edges if edge.crossing}
        if len(crossing) > FEW:
            # The backward pass saves nearly every value, so one line between two phases stands for
            # all of their edges; it starts at the last executed node.
            crossing = set({edge.crossing: edge for edge in edges if edge.crossing}.values())
        for edge, values in edges.items():
            if edge.control:
                dot.edge(edge.source, edge.target, style="dashed")
            elif edge.crossing:
                if edge in crossing:
                    dot.edge(edge.source, edge.target, style="dashed", constraint="false")
            elif self.many:
                dot.edge(edge.source, edge.target)
            elif len(values) > 1 and len(set(values)) > 1:
                dot.edge(edge.source, edge.target, label=edge_words(values, specs))
            else:
                shape = edge_words(values[:1], specs)
                for _ in values:
                    dot.edge(edge.source, edge.target, label=text(shape) if shape else None)
