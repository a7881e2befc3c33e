"""Rounding, signs and other steps between a weight and the loss: their slope is zero everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.gradient_cuts import STEPS, around_step, flat_steps
from nodescope.debug.watch.graph_rule import graph_rule, stateless
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import Verdict
from nodescope.ir.graph import Node


def _judge(graph: ProgramGraph) -> Iterable[Verdict]:
    steps, around = flat_steps(graph)
    if not steps:
        return
    trained = {graph.held_in(value) for node in graph.nodes.values() for _, value in _writes(node)}
    known: set[int] = set()
    for node in steps:
        cut = [
            number
            for number in sorted(graph.above(node.outputs[0]))
            if graph.nodes[number].is_weight
            and number not in around
            and number not in known
            and graph.nodes[number].outputs[0] in trained
        ]
        known.update(cut)
        if not cut:
            yield Verdict(node)
            continue
        name, more = graph.nodes[cut[0]].name, f" (and {len(cut) - 1} more)" if len(cut) > 1 else ""
        yield Verdict(
            node,
            f"{node.op} is a step function, whose slope is 0 everywhere, so {name}{more} "
            f"before it is never trained; {around_step(node)}",
            {"parameters": len(cut)},
        )


def _writes(node: Node) -> Iterable[tuple[int, int]]:
    return ((output, node.inputs[port]) for output, port in node.writes)


def _suits(nodes: Sequence[Node]) -> str:
    if not any(node.phase == "backward" for node in nodes):
        return ""
    name = next((node.name for node in nodes if node.op in STEPS and node.phase == "forward"), "")
    return f"{name} is a step function, through which no gradient passes" if name else ""


register(
    graph_rule(
        "zero_slope",
        "a weight affects the loss only through rounding or a sign, whose slope is zero",
        stateless(_judge),
        suits=_suits,
    )
)
