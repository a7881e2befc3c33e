"""Two factors that are both zero: the gradient of each is the other, so neither ever changes."""

from __future__ import annotations

from typing import Final

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
)
from nodescope.debug.watch.suiting import trains_weights
from nodescope.debug.watch.target_comparisons import takes_two_forward
from nodescope.ir.graph import Node

_OPS: Final = frozenset({"multiply", "matmul", "einsum"})


def _begin(settings: Settings) -> Look:
    steps = settings["num_steps"]
    seen = zero = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, zero
        sides = [_weights(sight.graph, value) for value in sight.node.inputs]
        if len(sides) != 2 or not all(sides) or sides[0] == sides[1]:
            raise Inapplicable("no two weights are multiplied")
        seen += 1
        if not zero and seen > steps:
            return None
        counts = [(content.summary.zero_count, content.size) for content in sight.inputs]
        zero = zero + 1 if all(zeros == size > 0 for zeros, size in counts) else 0
        if zero < steps:
            raise needs_steps(steps, zero)
        if not sight.graph.reaches_loss(sight.node):
            return None
        return Finding(
            f"both factors, {sides[0][0]} and {sides[1][0]}, are zero in each of {zero} steps: "
            "the gradient of each is the other one, so neither moves; initialise one of them "
            "with small random numbers",
            {"steps": zero},
        )

    return look


def _weights(graph: ProgramGraph, value: int) -> list[str]:
    """The names of the parameters from which a factor is computed."""
    leaves = graph.leaves(value)
    return [leaf.name for leaf in leaves if leaf.role == "parameter"]


def _concerns(node: Node, graph: ProgramGraph) -> bool:
    return takes_two_forward(node, graph)


register(
    Rule(
        "both_factors_zero",
        "two weights that are multiplied together are both zero, and stay zero",
        per_value(_begin),
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(count("num_steps", 5, "number of consecutive steps", unit="steps", low=1),),
        lasting=True,
        explains=True,
        suits=trains_weights("two factors that are initialised to zero never move"),
        concerns=_concerns,
    )
)
