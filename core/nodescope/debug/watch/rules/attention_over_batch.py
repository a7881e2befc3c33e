"""Attention weights that are normalised over the rows of the batch instead of the keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from nodescope.debug.watch import register
from nodescope.debug.watch.batch_axis import normalised_axis, rows_normalised
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_KEEPS: Final = frozenset({"astype", "copy", "dropout"})
# Libraries prepare the operands of products by these; without a change of shape they do nothing.
_LAYS_OUT: Final = frozenset({"reshape", "broadcast_to"})


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        axis = normalised_axis(graph, node)
        if axis is None or not graph.reaches_loss(node):
            continue
        rows = rows_normalised(graph, node, axis)
        summed = _summed(graph, node.outputs[0]) if rows else []
        if summed and None not in summed and _is_averaged(graph, node, rows):
            over = next(axis for axis in summed if axis is not None)
            yield Verdict(
                node,
                f"the weights are normalised over axis 0, the {rows} rows of the batch, but the "
                f"weighted sum runs over axis {over}; normalise over that axis (axis={over})",
            )
        else:
            yield Verdict(node)


def _summed(graph: ProgramGraph, value: int) -> list[int | None]:
    """The axes over which readers sum weighted values; None for one that may be axis 0."""
    axes: list[int | None] = []
    shape = graph.shape(value) or ()
    columns: set[Any] = set()
    for reader in graph.readers(value):
        if reader.phase != "forward":
            continue
        column = _column(graph, reader, shape)
        keeps = reader.op in _KEEPS or (
            reader.op in _LAYS_OUT and reader.outputs and graph.shape(reader.outputs[0]) == shape
        )
        if keeps or graph.shape(reader.outputs[0]) == (*shape, 1):
            axes += _summed(graph, reader.outputs[0])
        elif reader.op == "matmul":
            left = reader.inputs[0] == value
            axes.append(len(shape) - 1 if left else len(shape) - 2 or None)
        elif reader.op == "einsum":
            axes.append(_of_einsum(reader, value, len(shape)))
        elif reader.op == "multiply" and graph.shape(reader.outputs[0]) is not None:
            axes += _sums_of(graph, reader, shape)
        elif column is not None:
            columns.add(column)
        else:
            axes.append(None)
    if columns:  # each column weights another value, and the products are added
        axes.append(1 if len(columns) == shape[1] else None)
    return axes


def _column(graph: ProgramGraph, reader: Node, shape: tuple[int, ...]) -> Any:
    """The column index that a node takes from a table as the weight of a term of a sum; or None."""
    index = reader.attrs.get("index")
    if reader.op != "getitem" or len(shape) != 2 or not isinstance(index, tuple):
        return None
    whole = len(index) == 2 and index[0] in (slice(None), Ellipsis)
    size = graph.shape(reader.outputs[0])
    if not whole or size not in (shape[:1], (shape[0], 1)):
        return None
    products = [below for below in _forward(graph, reader) if below.op == "multiply"]
    added = [below.op in ("add", "sum", "stack", "concatenate")
             for product in products for below in _forward(graph, product)]  # fmt: skip
    return str(index[1]) if added and all(added) else None


def _forward(graph: ProgramGraph, node: Node) -> list[Node]:
    """The forward readers of a node, skipping reshapes and selections."""
    readers = []
    for reader in graph.readers(node.outputs[0]):
        if reader.phase == "forward":
            moves = reader.op in ("expand_dims", "squeeze", "reshape", "getitem")
            readers += _forward(graph, reader) if moves else [reader]
    return readers


def _of_einsum(reader: Node, value: int, dimensions: int) -> int | None:
    """The axis of weights that an einsum sums over; None if that may be axis 0."""
    subscripts = str(reader.attrs.get("subscripts", "")).replace(" ", "")
    given, arrow, result = subscripts.partition("->")
    letters = given.split(",")
    if not arrow or "." in subscripts or len(letters) != len(reader.inputs):
        return None
    own = letters[reader.inputs.index(value)]
    if len(own) != dimensions or own[0] not in result:
        return None
    return next((axis for axis, letter in enumerate(own) if letter not in result), None)


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
    """Whether a loss averages over the rows, so that the rows are examples."""
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
        if node.op in ("softmax", "exp") and node.phase == "forward":
            return (
                f"{node.name} computes weights, which must be normalised over the axis that they "
                "are summed over"
            )
    return ""


register(
    graph_rule(
        "attention_over_batch",
        "attention weights are normalised over the rows of the batch instead of the keys",
        stateless(_judge),
        suits=_suits,
    )
)
