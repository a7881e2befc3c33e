"""DOT: the graph for Graphviz, scopes as nested clusters.

Invariant: names of the program appear as labels only, escaped; identifiers are made from numbers.
"""

from __future__ import annotations

import graphviz

from nodescope.export import Options, exporter
from nodescope.export.words import detail, label, visible
from nodescope.ir.graph import Graph, Node
from nodescope.ir.scopes import ancestors
from nodescope.record.graphs import graph_of
from nodescope.record.recording import Recording

# The page's light theme.
COLOURS = {
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
    "leaf": "#98a1ab",
}


@exporter("dot", suffix=".dot")
def render_dot(recording: Recording, options: Options) -> bytes:
    """DOT text in UTF-8."""
    del options
    return str(dot_of(graph_of(recording), title=recording.run().name).source).encode()


def dot_of(graph: Graph, *, title: str = "") -> graphviz.Digraph:
    """The graph as a `graphviz.Digraph`, top to bottom, edges labelled with shapes."""
    dot = graphviz.Digraph(
        "nodescope",
        graph_attr={
            "rankdir": "TB",
            "bgcolor": "#f6f7f8",
            "fontname": "Helvetica",
            "fontsize": "11",
            "fontcolor": "#414a54",
            "label": text(visible(title)),
            "labelloc": "t",
            "nodesep": "0.25",
            "ranksep": "0.35",
        },
        node_attr={
            "shape": "box",
            "style": "rounded,filled",
            "fillcolor": "#ffffff",
            "fontname": "Helvetica",
            "fontsize": "10",
            "fontcolor": "#14181d",
            "margin": "0.12,0.05",
            "height": "0.3",
        },
        edge_attr={
            "color": "#98a1ab",
            "fontname": "Courier",
            "fontsize": "8",
            "fontcolor": "#5b6570",
            "arrowsize": "0.6",
        },
    )
    inside: dict[str, list[Node]] = {}
    scopes: dict[str, list[str]] = {}
    for node in graph.nodes:
        inside.setdefault(node.scope, []).append(node)
        above = ""
        for path in ancestors(node.scope):
            children = scopes.setdefault(above, [])
            if path not in children:
                children.append(path)
            above = path
    _fill(dot, "", inside, scopes, [0])
    _edges(dot, graph)
    return dot


def text(plain: str) -> str:
    """Text as a DOT label: quoted by graphviz, never HTML-like, backslashes literal."""
    # A leading space keeps `<...>` from being read as an HTML-like label.
    guarded = f" {plain}" if plain.startswith("<") and plain.endswith(">") else plain
    # Graphviz reads entities in labels: `&lt;` in a name would be shown as `<`.
    return str(graphviz.escape(guarded.replace("&", "&amp;")))


def _fill(
    dot: graphviz.Digraph,
    scope: str,
    inside: dict[str, list[Node]],
    scopes: dict[str, list[str]],
    count: list[int],
) -> None:
    for node in inside.get(scope, ()):
        _node(dot, node)
    for child in scopes.get(scope, ()):
        count[0] += 1
        with dot.subgraph(name=f"cluster_{count[0]}") as cluster:
            cluster.attr(
                label=text(visible(child.rpartition("/")[2])),
                labeljust="l",
                style="rounded,filled",
                color="#c7cdd4",
                fillcolor=("#f1f3f5", "#eaedf0", "#e2e7eb")[child.count("/") % 3],
            )
            _fill(cluster, child, inside, scopes, count)


def _node(dot: graphviz.Digraph, node: Node) -> None:
    colour = COLOURS.get(node.family, COLOURS["elementwise"])
    if node.family == "leaf":
        small = {"shape": "plaintext", "style": "", "fontsize": "8", "height": "0.15"}
        dot.node(f"n{node.id}", text(label(node)), margin="0.03,0.01", fontcolor="#5b6570", **small)
        return
    line = detail(node)
    caption = text(label(node)) + (f"\\n{text(line)}" if line else "")
    dot.node(f"n{node.id}", caption, color=colour, tooltip=text(visible(node.name)))


def _edges(dot: graphviz.Digraph, graph: Graph) -> None:
    specs = {value.id: value.spec for value in graph.values}
    produced = {value: node.id for node in graph.nodes for value in node.outputs}
    known = {node.id: node for node in graph.nodes}
    for node in graph.nodes:
        for value in node.inputs:
            source = produced.get(value)
            if source is None:
                continue
            if known[source].phase != node.phase:
                # What the backward pass saved would pull the forward spine apart.
                dot.edge(f"n{source}", f"n{node.id}", style="dashed", constraint="false")
                continue
            spec = specs.get(value)
            shape = "×".join(map(str, spec.shape)) if spec else ""
            dot.edge(f"n{source}", f"n{node.id}", label=text(shape) if shape else None)
        for control in node.control_inputs:
            if control in known:
                dot.edge(f"n{control}", f"n{node.id}", style="dashed")
