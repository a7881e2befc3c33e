"""A learning rate below zero, for example from an oscillating schedule: updates go uphill."""

from __future__ import annotations

from collections.abc import Sequence

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.program_graph import ProgramGraph
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    per_value,
    percent,
)
from nodescope.ir.graph import Node


def _begin(settings: Settings) -> Look:
    least, share = settings["num_steps"], settings["share"] / 100
    seen = below = 0
    lowest = 0.0
    known = -1, False  # graph version, whether the node scales a step

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, below, lowest, known
        rate, graph = sight.attrs.get("x2"), sight.graph
        if known[0] != graph.version:
            known = graph.version, _is_step(graph, sight.node)
        if not isinstance(rate, int | float) or not known[1]:
            raise Inapplicable("no optimizer scales its steps by a number")
        seen += 1
        below += rate < 0
        lowest = min(lowest, rate)
        if seen < least:
            raise needs_steps(least, seen)
        if below < share * seen:
            return None
        return Finding(
            f"the learning rate is negative in {below} of {seen} updates (down to {lowest:.3g}): "
            "these go uphill; look at the schedule, such as the angle that a cosine is given",
            {"updates": below, "lowest": lowest},
        )

    return look


def _is_step(graph: ProgramGraph, node: Node) -> bool:
    """Whether a node's result is subtracted from a parameter."""
    return any(
        reader.op == "subtract"
        and reader.inputs[-1:] == node.outputs[:1]
        and any(last.writes for last in graph.readers(reader.outputs[0]))
        for reader in graph.readers(node.outputs[0])
    )


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return node.phase == "optimizer" and len(node.inputs) == 1


def _suits(nodes: Sequence[Node]) -> str:
    optimizes = any(node.phase == "optimizer" and node.op == "multiply" for node in nodes)
    return "it has an optimizer, whose rate must not be negative" if optimizes else ""


register(
    Rule(
        "rate_negative",
        "the learning rate is negative in many updates, which go uphill",
        per_value(_begin),
        ops=frozenset({"multiply"}),
        needs=frozenset({"history"}),
        parameters=(
            count("num_steps", 10, "updates to judge by", unit="steps", low=1),
            percent("share", 10, "of the updates"),
        ),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=_concerns,
    )
)
