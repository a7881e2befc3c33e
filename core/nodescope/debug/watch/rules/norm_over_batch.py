"""A layer norm that is taken over the batch instead of the features."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.program_source import names_around
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node

_LAYER_NORM: Final = re.compile(r"(?i)layer_?norm|(^|_)ln(_|\d|$)|rms_?norm")


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    trained = {
        node.source
        for node in graph.forward()
        if node.op == "subtract" and _rows(graph, node) > 1 and graph.reaches_loss(node)
    }
    for node in graph.forward():
        rows = _rows(graph, node)
        if not rows:
            continue
        if rows == 1 and node.source in trained:
            yield Verdict(
                node,
                "it subtracts the mean over the batch (axis 0), which has only one row here, so "
                "nothing is left; take mean and variance over the features (axis=-1), or keep "
                "running statistics for inference",
            )
        elif node.source in trained and _says_layer_norm(graph, node):
            yield Verdict(
                node,
                f"its name says layer norm, but the mean is taken over axis 0, the {rows} rows "
                "of the batch; take mean and variance over the features (axis=-1)",
            )
        else:
            yield Verdict(node)


def _rows(graph: ProgramGraph, node: Node) -> int:
    """The number of rows of x in ``x - mean(x, axis=0)``; 0 for other nodes."""
    if node.op != "subtract" or len(node.inputs) != 2:
        return 0
    shape = graph.shape(node.inputs[0])
    mean = graph.past(node.inputs[1], lambda maker: maker.family == "layout")
    if mean is None or mean.op != "mean" or not shape or len(shape) < 2:
        return 0
    if mean.inputs[0] != node.inputs[0] or mean.attrs.get("axis") not in (0, (0,), [0]):
        return 0
    if graph.shape(mean.inputs[0]) != shape or max(shape[1:]) < 2:
        return 0
    return shape[0]


def _says_layer_norm(graph: ProgramGraph, node: Node) -> bool:
    tree = graph.tree(node.source)
    names = names_around(tree, node.source.line) if tree is not None and node.source else []
    return any(_LAYER_NORM.search(name) for name in (*names[-2:], *node.scope.split("/")[-1:]))


def _suits(nodes: Sequence[Node]) -> str:
    trains = any(node.phase == "backward" for node in nodes)
    for node in nodes:
        means_rows = node.op == "mean" and node.attrs.get("axis") in (0, (0,), [0])
        if means_rows and node.phase == "forward" and trains:
            return f"{node.name} is a mean over rows; a layer norm must not use one"
    return ""


register(
    graph_rule(
        "norm_over_batch",
        "a layer norm takes its mean over the rows of the batch",
        stateless(_judge),
        suits=_suits,
    )
)
