"""A mean over the batch that is divided by the batch size again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_MEAN_LOSSES: Final = frozenset({"cross_entropy", "nll_loss", "mse"})
_LEAST: Final = 3


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    nodes = graph.nodes.values()
    # Before the first update, it is unknown whether a loss is a part of a larger batch.
    updates = any(node.writes for node in nodes)
    if any(_adds_up(graph, node) for node in nodes):
        return
    for node in graph.forward():
        if node.op not in ("divide", "multiply") or len(node.inputs) != 1:
            continue
        divisor = _divisor(node)
        if divisor is None:
            continue
        if not (graph.reaches_loss(node) if updates else graph.comes_back(node)):
            continue
        mean = graph.past(node.inputs[0], _is_factor)
        if mean is None:
            continue
        if divisor >= _LEAST and divisor == _rows(graph, mean):
            line = f" in line {mean.source.line}" if mean.source is not None else ""
            yield Verdict(
                node,
                f"{mean.name}{line} is already the mean over a batch of {divisor:g}, and is "
                f"divided by {divisor:g} again; remove the division, or use a sum instead",
                {"divisor": divisor},
            )
        else:
            yield Verdict(node)


def _adds_up(graph: ProgramGraph, node: Node) -> bool:
    """Whether gradients of several backward passes are added, which justifies the division."""
    if node.op != "add" or node.phase == "optimizer" or len(node.inputs) != 2:
        return False
    return any(value in graph.slopes for value in node.inputs)


def _is_factor(node: Node) -> bool:
    """Whether a node multiplies by a number."""
    return node.op in ("multiply", "negative") and len(node.inputs) == 1


def _divisor(node: Node) -> float | None:
    """The whole number by which a node divides; None for others, such as a weight of 0.01."""
    if node.op == "divide":
        number = node.attrs.get("x2")
    else:
        factor = node.attrs.get("x2", node.attrs.get("x1"))
        if not isinstance(factor, float) or not 0 < factor < 1 or len(repr(factor)) < 8:
            return None
        number = 1 / factor
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return round(number) if abs(number - round(number)) < 1e-9 * abs(number) else None


def _rows(graph: ProgramGraph, node: Node) -> int | None:
    """The size of the batch that a node averages; None if it averages no batch."""
    if not node.inputs:
        return None
    shape = graph.shape(node.inputs[0])
    if not shape:
        return None
    if node.op in _MEAN_LOSSES:
        if node.attrs.get("reduction", "mean") != "mean":
            return None
    elif node.op == "mean":
        axis = node.attrs.get("axis")
        axes = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
        if all(item % len(shape) for item in axes):
            return None
    else:
        return None
    rows = shape[0]
    # It is a batch only if the data has the same number of rows.
    for leaf in graph.leaves(node.outputs[0]):
        sizes = graph.shape(leaf.outputs[0])
        if leaf.role == "input" and sizes and sizes[0] == rows:
            return rows
    return None


def _suits(nodes: Sequence[Node]) -> str:
    means = [node.name for node in nodes if node.phase == "forward"
             and node.op in {*_MEAN_LOSSES, "mean"}]  # fmt: skip
    # A hand-written gradient may be subtracted from a value carried from step to step.
    carried = any(node.op == "subtract" and node.inputs[:1] == node.outputs for node in nodes)
    if not means or not (carried or any(node.phase == "backward" for node in nodes)):
        return ""
    return f"{means[-1]} is a mean, which must not be divided by the batch size again"


register(
    graph_rule(
        "mean_divided_again",
        "the mean over a batch is divided by the batch size again",
        stateless(_judge),
        suits=_suits,
    )
)
