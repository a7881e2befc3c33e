"""A target network that is never updated: the model keeps learning its initial estimates.

In temporal-difference learning, a target is a reward plus a discounted estimate. The estimate comes
from a copy of the trained network, which the program must update at intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps, per_value
from nodescope.ir.graph import Node

_LEAST_DISCOUNT: Final = 0.5


def _begin(settings: Settings) -> Look:
    least = settings["num_steps"]
    steps, latest = 0, -1
    version, judged = -1, ""

    def look(sight: Sight) -> Finding | None:
        nonlocal steps, latest, version, judged
        steps += sight.step != latest
        latest = sight.step
        if version != sight.graph.version:
            version, judged = sight.graph.version, _judged(sight.graph, sight.node)
        if not judged:
            return None
        if steps < least:
            raise needs_steps(least, steps)
        return Finding(judged.format(steps=steps), {"steps": steps})

    return look


def _judged(graph: ProgramGraph, node: Node) -> str:
    """What is wrong with a parameter that a node reads; ``""`` if nothing is."""
    for value in node.inputs:
        leaf = graph.maker(value)
        if leaf is None or leaf.role != "parameter" or value in graph.gradients:
            continue
        if any(value == reader.inputs[port] for reader in graph.readers(value)
               for _, port in reader.writes):  # fmt: skip
            continue
        trained = _trained_alike(graph, value)
        if trained is not None and _is_discounted(graph, leaf) and graph.reaches_loss(node):
            return (
                f"the targets of the loss are computed from {leaf.name}, which has never been "
                f"updated in {{steps}} steps, while {trained.name} is trained: copy the trained "
                "weights to it at intervals"
            )
    return ""


def _trained_alike(graph: ProgramGraph, value: int) -> Node | None:
    """A parameter of the same shape that has a gradient and is written to; None without one."""
    for other in graph.gradients:
        held = graph.held_in(other)
        node = graph.maker(held)
        if node is None or node.role != "parameter" or graph.shape(held) != graph.shape(value):
            continue
        if any(reader.writes for reader in graph.readers(held)):
            return node
    return None


def _is_discounted(graph: ProgramGraph, leaf: Node) -> bool:
    """Whether a value computed from a leaf is discounted, and data is added to it."""
    for node in graph.forward():
        if node.op != "add" or len(node.inputs) != 2:
            continue
        for guess, reward in (node.inputs, node.inputs[::-1]):
            above = graph.above(guess)
            if leaf.id not in above or graph.maker(reward) is None:
                continue
            if any(graph.nodes[number].role == "parameter" for number in graph.above(reward)):
                continue
            if any(_discounts(graph, graph.nodes[number], leaf) for number in above):
                return True
    return False


def _discounts(graph: ProgramGraph, node: Node, leaf: Node) -> bool:
    factor = node.attrs.get("x2", node.attrs.get("x1"))
    if node.op != "multiply" or not isinstance(factor, float):
        return False
    return _LEAST_DISCOUNT <= factor < 1 and leaf.id in graph.above(node.inputs[0])


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    """Whether a node reads a parameter."""
    return node.phase == "forward" and any(
        maker.role == "parameter" for maker in graph.makers(node)
    )


def _suits(nodes: Sequence[Node]) -> str:
    written = {node.inputs[port] for node in nodes for _, port in node.writes}
    still = [node.name for node in nodes
             if node.role == "parameter" and written.isdisjoint(node.outputs)]  # fmt: skip
    return f"{still[0]} is never written to" if still and written else ""


register(
    Rule(
        "target_not_updated",
        "a target network that the loss depends on is never updated, while its twin is trained",
        per_value(_begin),
        needs=frozenset({"history"}),
        parameters=(count("num_steps", 100, "steps without an update", unit="steps", low=1),),
        lasting=True,
        concerns=_concerns,
        explains=True,
        suits=_suits,
    )
)
