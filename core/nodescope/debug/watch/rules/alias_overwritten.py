"""A tensor that is written to in place although another name was meant to keep its old content.

In ``shortcut = x; x.mul_(0.5); return shortcut + f(x)``, both names refer to one tensor, so the
shortcut is halved as well. An intended in-place write has the same graph; only the names differ. So
both must agree: in the graph, the written tensor is read later; in the source, the name read there
was bound to the written one, and neither name was bound to anything else in between.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import Kept, kept_names
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.capabilities import OWN
from nodescope.ir.graph import Node

_FORWARD: Final = ("forward", "recompute")
_AUGMENTING: Final = frozenset({"add", "subtract", "multiply", "divide", "power", "floor_divide"})


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        if _may_write(node) and (tree := graph.tree(node.source)) is not None:
            yield Verdict(node, _words(graph, tree, node))


def _may_write(node: Node) -> bool:
    """Whether a node may write in place; for nodescope's engine, ``x *= 2`` does so unmarked."""
    own = node.dialect == OWN and node.op in _AUGMENTING
    return (bool(node.writes) or own) and bool(node.inputs)


def _words(graph: ProgramGraph, tree: ast.Module, node: Node) -> str:
    source = node.source
    assert source is not None
    written = node.inputs[node.writes[0][1] if node.writes else 0]
    maker, holder = graph.maker(written), graph.maker(graph.held_in(written))
    if maker is not None and maker.source == source:
        return ""  # the tensor was created in the same line, so no name refers to it yet
    if holder is not None and holder.role in ("parameter", "buffer"):
        return ""  # such as a layer's running means, which calling the layer updates
    for kept in kept_names(tree, source.line):
        reader = next(_readers(graph, node, kept), None)
        if reader is not None and (node.writes or kept.augments):
            return (
                f"{kept.written} and {kept.name} are one tensor since line {kept.line}, and it is "
                f"written to in place: {reader.name} reads {kept.name} changed; bind a copy there, "
                "or compute a new tensor here"
            )
    return ""


def _readers(graph: ProgramGraph, node: Node, kept: Kept) -> Iterator[Node]:
    """The nodes that read the written tensor, in a line that reads the kept name."""
    file = node.source.file if node.source is not None else ""
    for port, _ in node.writes or ((0, 0),):
        for reader in graph.readers(node.outputs[port]):
            source = reader.source
            if reader.phase not in _FORWARD or source is None or source.file != file:
                continue
            if any(first <= source.line <= last for first, last in kept.reads):
                yield reader


def _suits(nodes: Sequence[Node]) -> str:
    writes = sum(_may_write(node) and node.phase in _FORWARD for node in nodes)
    return "it may write in place to a tensor that another name was to keep" if writes else ""


register(
    graph_rule(
        "alias_overwritten",
        "a tensor is written to in place although another name was to keep what it was",
        stateless(_judge),
        suits=_suits,
    )
)
