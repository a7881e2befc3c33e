"""A bias that no optimizer updates although its weight is trained.

Whole layers may be frozen on purpose, and so may all weights except biases. Nobody trains a weight
but not its bias.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.graph_rule import graph_rule
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Settings, Study, Verdict
from nodescope.debug.watch.untrained_layers import bias_and_weight
from nodescope.ir.graph import Node

_LEAST_STEPS: Final = 3


def _study(settings: Settings) -> Study:
    steps = 0

    def study(graph: ProgramGraph, over: bool) -> Iterable[Verdict]:
        nonlocal steps
        trained = {
            graph.held_in(node.inputs[port])
            for node in graph.nodes.values()
            for _, port in node.writes
        }
        steps += bool(trained)
        for node in graph.forward():
            bias, weight = bias_and_weight(graph, node)
            if bias is None or weight is None:
                continue
            has_gradient = bias.outputs[0] in graph.gradients
            left_out = has_gradient and bias.outputs[0] not in trained
            if over and steps >= _LEAST_STEPS and left_out and weight.outputs[0] in trained:
                yield Verdict(
                    node,
                    f"{bias.name}, which is added here to a product with {weight.name}, gets a "
                    f"gradient, but no optimizer updates it, although {weight.name} is trained; "
                    "give the optimizer both",
                )
            else:
                yield Verdict(node)

    return study


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    name = next((node.name for node in nodes if node.is_weight), "")
    return (
        f"{name} is a parameter; an optimizer must be given every parameter to be trained"
        if name
        else ""
    )


register(
    graph_rule(
        "bias_left_out",
        "a weight is trained, but its bias is not",
        _study,
        suits=_suits,
    )
)
