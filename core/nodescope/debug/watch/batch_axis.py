"""The batch axis: softmaxes that normalise over the rows of the data.

Invariant: pure functions of a program's graph.
"""

from __future__ import annotations

from typing import Any

from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.ir.graph import Node


def normalised_axis(graph: ProgramGraph, node: Node) -> Any:
    """The axis of a softmax, also of one written as ``e / sum(e)``; None for other nodes."""
    if node.op == "softmax":
        return node.attrs.get("axis")
    if node.op != "divide" or len(node.inputs) != 2:
        return None
    power, total = graph.maker(node.inputs[0]), graph.given(node.inputs[1])
    written_out = power is not None and power.op == "exp" and total is not None
    if not written_out or total is None or power is None or total.op != "sum":
        return None
    return total.attrs.get("axis") if total.inputs == power.outputs else None


def rows_normalised(graph: ProgramGraph, node: Node, axis: Any) -> int:
    """The number of rows that a softmax over the batch axis normalises; 0 for another axis."""
    shape = graph.shape(node.outputs[0])
    if not shape or len(shape) < 2 or axis not in (0, -len(shape), (0,), (-len(shape),)):
        return 0
    rows = shape[0]
    if rows < 2 or rows in shape[1:] or max(shape[1:]) < 2:
        return 0
    of_data = False
    for leaf in graph.leaves(node.outputs[0]):
        size = graph.shape(leaf.outputs[0]) or ()
        if leaf.role == "parameter" and rows in size:
            return 0  # the axis may come from the parameter
        of_data |= leaf.role == "input" and len(size) >= 2 and size[0] == rows
    return rows if of_data or _is_drawn(graph, node.outputs[0], rows) else 0


def _is_drawn(graph: ProgramGraph, value: int, rows: int) -> bool:
    """Whether a value is computed from random rows, such as synthetic data."""
    makers = (graph.nodes[node] for node in graph.above(value))
    drawn = [node for node in makers if node.family == "random" and not node.inputs]
    sizes = [graph.shape(node.outputs[0]) or () for node in drawn if node.outputs]
    return any(len(size) >= 2 and size[0] == rows for size in sizes)
