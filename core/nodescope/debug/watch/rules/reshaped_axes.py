"""A reshape that only swaps the sizes of axes: it mixes elements where a transpose was meant.

A reshape keeps the order of the elements in memory. Reshaping (20, 90) to (90, 20) cuts rows into
pieces: no row or column of the result is one of the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.console_output import shape_words
from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph, elementwise
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_LEAST: Final = 2
_DEEPEST: Final = 64


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        if node.op != "reshape" or not node.inputs or not graph.reaches_loss(node):
            continue
        before, after = graph.shape(node.inputs[0]), graph.shape(node.outputs[0])
        if before is None or after is None or not _swaps(before, after):
            continue
        moves_rows = before[0] != after[0]
        if not _means_something(graph, node, moves_rows) or _undoes(graph, node, after):
            yield Verdict(node)
            continue
        order = _order(before, after)
        how = ".T" if len(before) == 2 else f".transpose{order}"
        yield Verdict(
            node,
            f"it reshapes {shape_words(before)} to {shape_words(after)}, which keeps the order "
            "of the elements and so mixes the axes: no row of the result is a row or column of "
            f"the input; to swap the axes, transpose ({how})",
        )


def _swaps(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether two shapes have the same sizes in another order, ignoring axes of size 1."""
    long_before = [size for size in before if size >= _LEAST]
    long_after = [size for size in after if size >= _LEAST]
    return (
        len(before) == len(after)
        and long_before != long_after
        and sorted(long_before) == sorted(long_after)
    )


def _order(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """By axis of the result: the original axis of that size; equal sizes in order."""
    rest = list(enumerate(before))
    order = []
    for size in after:
        axis = next(pair for pair in rest if pair[1] == size)
        rest.remove(axis)
        order.append(axis[0])
    return tuple(order)


def _means_something(graph: ProgramGraph, node: Node, moves_rows: bool) -> bool:
    """Whether the order of elements matters: for learned values, any order is as good as another.

    The rows of the batch are an exception, because they belong to examples.
    """
    leaves = graph.leaves(node.inputs[0])
    learned = any(leaf.role == "parameter" for leaf in leaves)
    return any(leaf.role == "input" for leaf in leaves) and (moves_rows or not learned)


def _undoes(graph: ProgramGraph, node: Node, after: tuple[int, ...]) -> bool:
    """Whether a reshape restores an earlier shape of its input."""
    maker, deep = graph.maker(node.inputs[0]), 0
    while maker is not None and maker.inputs and deep < _DEEPEST:
        deep += 1
        if maker.op == "reshape" or maker.family == "layout":
            if graph.shape(maker.inputs[0]) == after:
                return True
        elif not elementwise(maker):
            return False
        maker = graph.maker(maker.inputs[0])
    return False


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    name = next(
        (node.name for node in nodes if node.op == "reshape" and node.phase == "forward"), ""
    )
    return f"{name} must not take the place of a transpose" if name else ""


register(
    graph_rule(
        "reshaped_axes",
        "a reshape swaps the sizes of axes, which mixes rows; a transpose was probably meant",
        stateless(_judge),
        suits=_suits,
    )
)
