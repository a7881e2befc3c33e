"""Boxes: the nodes and folded scopes that a picture shows, and the edges between them.

Invariant: pure; every node of the graph is in exactly one box.
"""

from __future__ import annotations

from typing import NamedTuple

from nodescope.console_output import shape_words
from nodescope.export.folding import hidden_in
from nodescope.export.words import visible
from nodescope.ir.graph import Graph, Node, OpaqueSpec, Spec
from nodescope.ir.scopes import ancestors


class Edge(NamedTuple):
    """An edge between two boxes.

    Attributes:
        source, target: The names of the boxes.
        crossing: The two phases, if the edge joins different ones; otherwise empty.
        control: Whether it only orders the boxes.
    """

    source: str
    target: str
    crossing: str
    control: bool


class Boxes(NamedTuple):
    """A graph as it is shown.

    Attributes:
        scopes: By path of a scope, ``""`` for the top: the scopes in it, open and folded.
        nodes: By path of an open scope, the nodes drawn in it.
        folded: By path of a folded scope, all nodes in it.
        names: By node id, the name of its box: ``n<id>``, or ``s<number>`` for a folded scope.
        edges: The edges, with the ids of the values that they carry.
        specs: By value id, its spec.
    """

    scopes: dict[str, list[str]]
    nodes: dict[str, list[Node]]
    folded: dict[str, list[Node]]
    names: dict[int, str]
    edges: dict[Edge, list[int]]
    specs: dict[int, Spec]

    @property
    def total(self) -> int:
        """The number of boxes."""
        return len(set(self.names.values()))


def boxes_of(graph: Graph, shown: frozenset[str]) -> Boxes:
    """The boxes of a graph whose scopes ``shown`` are open."""
    scopes: dict[str, list[str]] = {}
    nodes: dict[str, list[Node]] = {}
    folded: dict[str, list[Node]] = {}
    names: dict[int, str] = {}
    numbers: dict[str, int] = {}
    for node in graph.nodes:
        above = ""
        for path in ancestors(node.scope):
            if path not in numbers:
                numbers[path] = len(numbers) + 1
                scopes.setdefault(above, []).append(path)
            above = path
        hidden = hidden_in(node, shown)
        if hidden:
            names[node.id] = f"s{numbers[hidden]}"
            folded.setdefault(hidden, []).append(node)
        else:
            names[node.id] = f"n{node.id}"
            nodes.setdefault(node.scope, []).append(node)
    specs = {value.id: value.spec for value in graph.values}
    return Boxes(scopes, nodes, folded, names, _edges(graph, names), specs)


def _edges(graph: Graph, names: dict[int, str]) -> dict[Edge, list[int]]:
    produced = {value: node.id for node in graph.nodes for value in node.outputs}
    nodes = {node.id: node for node in graph.nodes}
    edges: dict[Edge, list[int]] = {}
    for node in graph.nodes:
        target = names[node.id]
        for value in node.inputs:
            source = produced.get(value)
            if source is None or names[source] == target:
                continue
            # Edges between phases are marked, so that values saved for the backward pass do not
            # pull the forward nodes apart in a layout.
            phases = (nodes[source].phase, node.phase)
            crossing = ">".join(phases) if phases[0] != phases[1] else ""
            values = edges.setdefault(Edge(names[source], target, crossing, False), [])
            if value not in values or not target.startswith("s"):
                values.append(value)
        for control in node.control_inputs:
            if control in nodes and names[control] != target:
                edges.setdefault(Edge(names[control], target, "", True), [])
    return edges


def edge_words(values: list[int], specs: dict[int, Spec]) -> str:
    """The label of an edge: a shape, a class, or the number of values that it carries."""
    if len(set(values)) > 1:
        return f"{len(values)} values"
    spec = specs.get(values[0]) if values else None
    return carried(spec) if spec else ""


def carried(spec: Spec) -> str:
    """A value on an edge: its shape, or the class of one that is not a tensor."""
    if isinstance(spec, OpaqueSpec):
        return visible(spec.type)
    return shape_words(spec.shape) if spec.shape else ""


def fold_words(nodes: list[Node]) -> str:
    """The content of a folded scope: ``20 ops``."""
    ops = sum(not node.is_leaf for node in nodes)
    return f"{ops:,} op{'' if ops == 1 else 's'}"
