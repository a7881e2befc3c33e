"""A tensor that is written to in place while another name was to keep what it was.

``shortcut = x; x.mul_(0.5); return shortcut + f(x)``: both names are one tensor, so the shortcut is
halved, too. The graph is that of a program in which this is meant; only the names tell. Two things
must agree: the graph, in which a write is read further on, and the source, in which the name that
is read there was bound to the one that is written to, and neither to anything else in between.
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
    """Whether a node writes in place. nodescope's own tensors do so in ``x *= 2``, unsaid."""
    own = node.dialect == OWN and node.op in _AUGMENTING
    return (bool(node.writes) or own) and bool(node.inputs)


def _words(graph: ProgramGraph, tree: ast.Module, node: Node) -> str:
    source = node.source
    assert source is not None
    written = node.inputs[node.writes[0][1] if node.writes else 0]
    maker, holder = graph.maker(written), graph.maker(graph.held_in(written))
    if maker is not None and maker.source == source:
        return ""  # what is written to was made in the same line: it has no name yet
    if holder is not None and holder.role in ("parameter", "buffer"):
        return ""  # such as running means of a layer that is called there
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
    """The nodes that read what was written, in a line that reads the kept name."""
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
