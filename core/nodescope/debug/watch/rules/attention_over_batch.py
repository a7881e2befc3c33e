"""Attention weights that are normalised over the rows of the batch instead of the keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_KEEPS: Final = frozenset({"astype", "copy", "dropout"})


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        if node.op != "softmax" or not graph.reaches_loss(node):
            continue
        rows = _rows(graph, node)
        summed = _summed(graph, node.outputs[0]) if rows else []
        if summed and None not in summed and _is_averaged(graph, node, rows):
            axis = next(axis for axis in summed if axis is not None)
            yield Verdict(
                node,
                f"the weights are normalised over axis 0, the {rows} rows of the batch, but what "
                f"they weigh is summed over axis {axis}; normalise over that one (axis={axis})",
            )
        else:
            yield Verdict(node)


def _rows(graph: ProgramGraph, node: Node) -> int:
    """How many rows of data a softmax is taken over; 0 if it is taken over anything else."""
    shape, axis = graph.shape(node.outputs[0]), node.attrs.get("axis")
    if not shape or len(shape) < 2 or axis not in (0, -len(shape), (0,)):
        return 0
    rows = shape[0]
    if rows < 2 or rows in shape[1:] or max(shape[1:]) < 2:
        return 0
    of_data = False
    for leaf in graph.leaves(node.outputs[0]):
        size = graph.shape(leaf.outputs[0]) or ()
        if leaf.role == "parameter" and rows in size:
            return 0  # it may be the parameter's axis
        of_data |= leaf.role == "input" and len(size) >= 2 and size[0] == rows
    return rows if of_data else 0


def _summed(graph: ProgramGraph, value: int) -> list[int | None]:
    """The axes over which what weights weigh is summed; None where it may be axis 0."""
    axes: list[int | None] = []
    shape = graph.shape(value) or ()
    for reader in graph.readers(value):
        if reader.phase != "forward":
            continue
        if reader.op in _KEEPS or graph.shape(reader.outputs[0]) == (*shape, 1):
            axes += _summed(graph, reader.outputs[0])
        elif reader.op == "matmul":
            left = reader.inputs[0] == value
            axes.append(len(shape) - 1 if left else len(shape) - 2 or None)
        elif reader.op == "multiply" and graph.shape(reader.outputs[0]) is not None:
            axes += _sums_of(graph, reader, shape)
        else:
            axes.append(None)
    return axes


def _sums_of(graph: ProgramGraph, product: Node, shape: tuple[int, ...]) -> list[int | None]:
    size = graph.shape(product.outputs[0]) or ()
    if len(size) < len(shape) or size[0] != shape[0]:
        return [None]
    axes: list[int | None] = []
    for reader in graph.readers(product.outputs[0]):
        if reader.phase != "forward":
            continue
        axis = reader.attrs.get("axis")
        axis = axis[0] if isinstance(axis, tuple | list) and len(axis) == 1 else axis
        if reader.op != "sum" or not isinstance(axis, int):
            return [None]
        axes.append(axis % len(size) or None)
    return axes


def _is_averaged(graph: ProgramGraph, node: Node, rows: int) -> bool:
    """Whether the loss is a mean over the rows, so that these are examples."""
    below = {node.id}
    for later in graph.forward():
        if below.isdisjoint(maker.id for maker in graph.makers(later)):
            continue
        below.add(later.id)
        shape = graph.shape(later.inputs[0]) or ()
        axis = later.attrs.get("axis")
        over_rows = later.op == "mean" and axis in (None, 0, (0,), [0])
        if (over_rows or later.family == "loss") and shape[:1] == (rows,):
            return graph.reaches_loss(later)
    return False


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op == "softmax" and node.phase == "forward":
            return f"{node.name} gives weights, to be normalised over what they weigh"
    return ""


register(
    graph_rule(
        "attention_over_batch",
        "attention weights are normalised over the rows of the batch instead of the keys",
        stateless(_judge),
        suits=_suits,
    )
)
