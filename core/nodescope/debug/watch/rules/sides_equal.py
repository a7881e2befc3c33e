"""A loss whose two sides are equal from the first step on: a model is compared with itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    per_value,
)
from nodescope.debug.watch.target_comparisons import (
    becomes_loss,
    comparing,
    takes_two_forward,
)
from nodescope.ir.graph import Node

_OPS: Final = frozenset({"subtract", "mse", "huber"})


def _begin(settings: Settings) -> Look:
    steps = settings["num_steps"]
    same = 0
    differed = False

    def look(sight: Sight) -> Finding | None:
        nonlocal same, differed
        graph, node = sight.graph, sight.node
        trained = [any(leaf.is_weight for leaf in graph.leaves(value)) for value in node.inputs]
        if not all(trained):
            raise Inapplicable("no two predictions are compared")
        first, second = (content.summary for content in sight.inputs)
        equal = sight.summary.zero_count == sight.size > 0 and first.zero_count < sight.size
        differed |= not equal or first.mean != second.mean
        same += not differed
        if differed:
            return None
        if same < steps:
            raise needs_steps(steps, same)
        if not becomes_loss(graph, node):
            return None
        names = [maker.name for maker in map(graph.maker, node.inputs) if maker is not None]
        return Finding(
            f"its two sides, {' and '.join(names)}, are equal in each of {same} steps: a model is "
            "compared with itself. Are two names given to one object?",
            {"steps": same},
        )

    return look


def _suits(nodes: Sequence[Node]) -> str:
    return comparing(nodes, _OPS, "compares two values, which must not be the same")


register(
    Rule(
        "sides_equal",
        "a loss compares a model with itself: both sides are equal from the first step on",
        per_value(_begin),
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(count("num_steps", 10, "so many steps", unit="steps", low=1),),
        lasting=True,
        explains=True,
        suits=_suits,
        concerns=takes_two_forward,
    )
)
