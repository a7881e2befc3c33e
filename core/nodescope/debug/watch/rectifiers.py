"""Rectifiers: nodes that compute max(x, 0), as a ReLU op or written by other operations."""

from __future__ import annotations

from typing import Final

from nodescope.debug.watch.program_graph import ProgramGraph, elementwise
from nodescope.ir.graph import Node

RELUS: Final = frozenset({"relu", "relu6"})
WRITTEN_OUT: Final = frozenset({"maximum", "where", "multiply"})
_ABOVE: Final = frozenset({"greater", "greater_equal"})
_LAYERS: Final = frozenset({"matmul", "conv1d", "conv2d"})


def rectifies(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node is a layer's ReLU; a hand-written one counts if a layer reads its result.

    A maximum elsewhere may belong to a loss or a penalty.
    """
    if node.op in RELUS:
        return True
    if node.op not in WRITTEN_OUT or not _is_written_out(graph, node):
        return False
    shape = graph.shape(node.outputs[0])
    return shape is not None and len(shape) >= 2 and _feeds_layer(graph, node)


def _is_written_out(graph: ProgramGraph, node: Node) -> bool:
    if node.op == "maximum":
        return len(node.inputs) == 1 and 0 in (node.attrs.get("x1"), node.attrs.get("x2"))
    if node.op == "where":  # where(x > 0, x, 0)
        return (
            len(node.inputs) == 2
            and node.attrs.get("y") == 0
            and _is_above_zero(graph, node.inputs[0], node.inputs[1])
        )
    if len(node.inputs) != 2:  # x * (x > 0)
        return False
    x, y = node.inputs
    return _is_above_zero(graph, x, y) or _is_above_zero(graph, y, x)


def _is_above_zero(graph: ProgramGraph, test: int, value: int) -> bool:
    """Whether ``test`` is the comparison of ``value`` with zero."""
    maker = graph.given(test)
    return (
        maker is not None
        and maker.op in _ABOVE
        and maker.inputs == (value,)
        and maker.attrs.get("x2") == 0
    )


def _feeds_layer(graph: ProgramGraph, node: Node) -> bool:
    """Whether a layer with a weight reads the result, perhaps after elementwise or layout ops."""
    todo, seen = [node], {node.id}
    while todo:
        for value in todo.pop().outputs:
            for reader in graph.readers(value):
                if reader.phase != "forward" or reader.id in seen:
                    continue
                seen.add(reader.id)
                if reader.op in _LAYERS:
                    others = [other for other in reader.inputs if other != value]
                    makers = [graph.maker(graph.held_in(other)) for other in others]
                    if any(maker is not None and maker.role == "parameter" for maker in makers):
                        return True
                elif reader.family == "layout" or elementwise(reader):
                    todo.append(reader)
    return False
