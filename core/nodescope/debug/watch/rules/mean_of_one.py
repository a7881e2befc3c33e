"""Subtracting the mean over an axis of length one: each element minus itself is zero.

The first axis is left out: a batch of one example is rare, and not a fault of the program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    for node in graph.forward():
        if node.op == "layer_norm" and node.inputs:
            yield _of_norm(graph, node)
        if node.op != "subtract" or len(node.inputs) != 2:
            continue
        mean = graph.maker(node.inputs[1])
        if mean is None or mean.op != "mean" or mean.inputs[:1] != node.inputs[:1]:
            continue
        axis, shape = _axis(graph, mean), graph.shape(node.inputs[0])
        if axis is None or shape is None or shape[axis] != 1 or shape[0] < 2:
            yield Verdict(node)
            continue
        yield Verdict(
            node,
            f"{mean.name} is the mean over axis {axis} of {shape}, which has a length of 1, so "
            "every element is subtracted from itself and the result is zero; take the mean over "
            "another axis",
            {"axis": axis},
        )


def _of_norm(graph: ProgramGraph, node: Node) -> Verdict:
    """The verdict on a layer norm."""
    shape, dims = graph.shape(node.inputs[0]), node.attrs.get("dims")
    if not shape or not isinstance(dims, int) or math.prod(shape[-dims:]) != 1 or shape[0] < 2:
        return Verdict(node)
    return Verdict(
        node,
        f"a layer norm over one element of {shape}: the mean of one is the element itself, so the "
        "result is the same for every input; normalise over more features, or leave it out",
        {"axis": -1},
    )


def _axis(graph: ProgramGraph, mean: Node) -> int | None:
    """The single axis of a mean, from 1 on; None for the first axis, several or all."""
    shape, axis = graph.shape(mean.inputs[0]), mean.attrs.get("axis")
    if isinstance(axis, tuple | list) and len(axis) == 1:
        axis = axis[0]
    if not shape or isinstance(axis, bool) or not isinstance(axis, int):
        return None
    return axis % len(shape) or None


def _suits(nodes: Sequence[Node]) -> str:
    means = {node.outputs[0]: node for node in nodes if node.op == "mean"}
    for node in nodes:
        if node.op == "layer_norm" and node.phase == "forward":
            return f"{node.name} subtracts the mean of features, of which there must be several"
        if node.op == "subtract" and len(node.inputs) == 2 and node.phase == "forward":
            mean = means.get(node.inputs[1])
            if mean is not None and mean.inputs[:1] == node.inputs[:1]:
                return (
                    f"{node.name} subtracts a mean, which leaves zero if it is the mean of one "
                    "element"
                )
    return ""


register(
    graph_rule(
        "mean_of_one",
        "the mean over an axis of length one is subtracted from the elements: all become zero",
        stateless(_judge),
        suits=_suits,
    )
)
