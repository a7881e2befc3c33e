"""A loss of the mean error instead of a mean of losses: errors of opposite signs cancel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.debug.watch.target_comparisons import becomes_loss, target_port
from nodescope.ir.graph import Node

_MEANS: Final = frozenset({"mean", "sum"})


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        size = _sized(node)
        if not size or len(graph.losses) != 1 or not becomes_loss(graph, node):
            continue
        mean = graph.maker(node.inputs[0])
        error = graph.given(mean.inputs[0]) if mean is not None and mean.op in _MEANS else None
        if mean is None or error is None or error.op != "subtract":
            continue
        rows = _rows(graph, error, mean)
        if rows and target_port(graph, error) is not None and _is_only(graph, node):
            yield Verdict(
                node,
                f"{size} of the {mean.op} of {rows} errors ({error.name}) is taken, in which "
                f"errors of opposite signs cancel; take the {mean.op} of {size} of each",
                {"rows": rows},
            )
        else:
            yield Verdict(node)


def _sized(node: Node) -> str:
    """How a node computes the size of an error, as a phrase; ``""`` for other nodes."""
    squares = node.op == "square" or (node.op == "power" and node.attrs.get("x2") == 2)
    squares |= node.op == "multiply" and len(node.inputs) == 2 and len(set(node.inputs)) == 1
    return "the square" if squares else "the amount" if node.op == "abs" else ""


def _rows(graph: ProgramGraph, error: Node, mean: Node) -> int:
    """The number of rows over which an error is averaged; 0 if it is not averaged over rows."""
    shape = graph.shape(error.outputs[0]) or ()
    over_rows = mean.attrs.get("axis") in (None, 0, (0,), [0])
    return shape[0] if shape and shape[0] > 1 and over_rows else 0


def _is_only(graph: ProgramGraph, node: Node) -> bool:
    """Whether a loss consists of this term alone: another term might penalise each error."""
    value = node.outputs[0]
    for _ in range(4):
        if value in graph.losses:
            return True
        readers = [reader for reader in graph.readers(value) if reader.phase == "forward"]
        if len(readers) != 1 or len(readers[0].inputs) != 1 or not readers[0].outputs:
            return False
        value = readers[0].outputs[0]
    return value in graph.losses


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.op in _MEANS and node.phase == "forward":
            return f"{node.name} may average errors before taking their size"
    return ""


register(
    graph_rule(
        "error_of_means",
        "a loss is the size of a mean error, in which errors of opposite signs cancel",
        stateless(_judge),
        suits=_suits,
    )
)
