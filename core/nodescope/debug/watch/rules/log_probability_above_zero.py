"""Logarithms of probabilities above 0, although no class has a probability above 1.

A loss takes raw scores for the result of a log-softmax. It falls without end, because larger scores
always make it smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, Sight
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, count, needs_steps, per_value
from nodescope.ir.graph import Node

_OP: Final = "nll_loss"
_ROUNDING: Final = 1e-3


def _begin(settings: Settings) -> Look:
    least = settings["num_steps"]
    seen = above = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, above
        if not sight.inputs or sight.phase != "forward":
            raise Inapplicable("no loss takes logarithms of probabilities")
        highest = sight.inputs[0].summary.max
        if highest is None:
            return None
        seen += 1
        above = above + 1 if highest > _ROUNDING else 0
        if seen < least:
            raise needs_steps(least, seen)
        if above < least:
            return None
        maker = sight.graph.maker(sight.node.inputs[0])
        name = maker.name if maker is not None else "its input"
        return Finding(
            f"{name}, which it takes for logarithms of probabilities, is up to {highest:.3g}, and "
            f"has been above 0 in each of the last {above} steps: these are scores; apply "
            "log_softmax to them, or use cross_entropy, which does",
            {"highest": highest},
        )

    return look


def _suits(nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.op == _OP and node.phase == "forward":
            return f"{node.name} takes logarithms of probabilities"
    return ""


register(
    Rule(
        "log_probability_above_zero",
        "a loss that takes logarithms of probabilities is given numbers above 0, as scores are",
        per_value(_begin),
        ops=frozenset({_OP}),
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(count("num_steps", 5, "consecutive steps", unit="steps", low=1),),
        lasting=True,
        explains=True,
        suits=_suits,
    )
)
