"""A loss that compares data with data: it contains no prediction, so nothing is learned from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.debug.watch.target_comparisons import becomes_loss
from nodescope.ir.graph import Node

_LOSSES: Final = frozenset({"mse", "huber", "cross_entropy", "nll_loss", "bce", "bce_with_logits"})


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        if len(node.inputs) != 2 or not (node.op in _LOSSES or _is_squared(graph, node)):
            continue
        if not becomes_loss(graph, node):
            continue
        leaves = [graph.leaves(value) for value in node.inputs]
        names = [_given(graph, value) for value in node.inputs]
        if all(names) and all(leaf.role == "input" for side in leaves for leaf in side):
            yield Verdict(
                node,
                f"{names[0]} is compared with {names[1]}: both are data, and no prediction is in "
                "this part of the loss; compare what the model gives",
            )
        else:
            yield Verdict(node)


def _is_squared(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node is a difference of which only squares or magnitudes are used."""
    if node.op != "subtract":
        return False
    readers = [reader for reader in graph.readers(node.outputs[0]) if reader.phase == "forward"]
    return bool(readers) and all(
        reader.op in ("square", "abs") or (reader.op == "power" and reader.attrs.get("x2") == 2)
        for reader in readers
    )


def _given(graph: ProgramGraph, value: int) -> str:
    """The name of the data that a value contains; ``""`` if it is not data."""
    given = graph.given(value)
    return given.name if given is not None and given.role == "input" else ""


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    for node in nodes:
        if node.phase == "forward" and (node.op in _LOSSES or node.op == "subtract"):
            return f"{node.name} must compare a prediction"
    return ""


register(
    graph_rule(
        "loss_of_data",
        "a loss compares data with data, and no prediction",
        stateless(_judge),
        suits=_suits,
    )
)
