"""Which scopes a picture shows open, and which part of the graph it shows.

Invariant: pure; the same rule as on the page, so that both start with the same scopes open.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from nodescope.errors import ExportError
from nodescope.ir.graph import Graph, Node
from nodescope.ir.scopes import ancestors, is_within
from nodescope.registry import did_you_mean

Expand = Literal["all", "fit"] | int | frozenset[str]
"""The number of levels of open scopes, or their paths; ``"fit"`` opens what fits, ``"all"`` every
scope.
"""

FIRST_ROWS = 48
"""``"fit"`` opens scopes level by level while at most this many nodes and scopes are shown."""


class _Scope(NamedTuple):
    scopes: list[str]
    nodes: list[Node]


def opened(graph: Graph, expand: Expand, scope: str = "") -> frozenset[str]:
    """Paths of the scopes shown open."""
    tree = _tree(graph)
    if expand == "all":
        return frozenset(tree) - {""}
    around = {scope, *ancestors(scope)} - {""} if scope else set()
    if isinstance(expand, frozenset):
        return frozenset(around | (expand & set(tree)))
    if expand != "fit":
        deepest = expand + (scope.count("/") + 1 if scope else 0)
        return frozenset(around | {path for path in tree if path and path.count("/") < deepest})
    open_scopes = set(around)
    level = tree[scope].scopes if scope in tree else []
    shown = len(level) + len(tree[scope].nodes) if scope in tree else 0
    while level:
        below: list[str] = []
        for path in level:
            inside = len(tree[path].scopes) + len(tree[path].nodes)
            if shown + inside > FIRST_ROWS:
                continue
            shown += inside
            open_scopes.add(path)
            below += tree[path].scopes
        level = below
    return frozenset(open_scopes)


def within(graph: Graph, scope: str) -> Graph:
    """The contents of a scope; values from outside become inputs.

    Raises:
        ExportError: The scope does not exist.
    """
    path = scope.strip("/")
    tree = _tree(graph)
    if path not in tree or not path:
        hint = did_you_mean(path, list(tree)) or "see the outline of the page for its names"
        raise ExportError(f"no scope named {scope!r}", hint=hint)
    inside = [node for node in graph.nodes if is_within(node.scope, path)]
    kept_ids = {node.id for node in inside}
    read = {value for node in inside for value in node.inputs}
    fed = [
        msgspec.structs.replace(
            node,
            op="tensor",
            family="leaf",
            role="input",
            inputs=(),
            control_inputs=(),
            scope="",
            attrs={},
        )
        for node in graph.nodes
        if node.id not in kept_ids and not read.isdisjoint(node.outputs)
    ]
    return msgspec.structs.replace(graph, nodes=(*fed, *inside))


def hidden_in(node: Node, shown: frozenset[str]) -> str:
    """The folded scope that hides a node; ``""`` if the node is drawn."""
    return next((path for path in ancestors(node.scope) if path not in shown), "")


def _tree(graph: Graph) -> dict[str, _Scope]:
    tree = {"": _Scope([], [])}
    for node in graph.nodes:
        above = ""
        for path in ancestors(node.scope):
            if path not in tree:
                tree[path] = _Scope([], [])
                tree[above].scopes.append(path)
            above = path
        tree[above].nodes.append(node)
    return tree
