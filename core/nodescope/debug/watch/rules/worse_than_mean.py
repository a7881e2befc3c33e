"""Predictions that are much worse than the mean of their targets, to the end of training.

This happens if targets are far from zero relative to their spread, so that training ends before the
predictions get there.
"""

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
    number,
    per_value,
)
from nodescope.debug.watch.target_comparisons import (
    comparing,
    is_only_loss,
    takes_two_forward,
    target_port,
)
from nodescope.ir.graph import Node

_OPS: Final = frozenset({"mse", "subtract"})
_LOPSIDED: Final = 30.0  # least distance of the targets' mean from zero, in deviations


def _begin(settings: Settings) -> Look:
    least, steps, factor = settings["num_steps"], settings["in_a_row"], settings["factor_gt"]
    seen = worse = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, worse
        graph, node = sight.graph, sight.node
        port = target_port(graph, node)
        if port is None or len(sight.inputs) != 2:
            raise Inapplicable("no loss takes predictions from targets")
        seen += 1
        if seen > 1 and not is_only_loss(graph, node):
            raise Inapplicable("no loss alone takes predictions from targets")
        targets, summary = sight.inputs[port].summary, sight.summary
        square = summary.mean
        if node.op == "subtract" and summary.norm is not None and sight.size:
            square = summary.norm**2 / sight.size
        variance = (targets.std or 0.0) ** 2
        broken = summary.nan_count or summary.inf_count
        # For other targets, training may simply not be finished. Targets that are far from zero
        # relative to their spread take very many steps.
        lopsided = abs(targets.mean or 0.0) > _LOPSIDED * (targets.std or 0.0)
        far = square is not None and not broken and 0 < factor * variance < square and lopsided
        worse = worse + 1 if far else 0
        if seen < least:
            raise needs_steps(least, seen)
        if worse < steps or square is None:
            return None
        given = graph.given(node.inputs[port])
        name = given.name if given is not None else "the targets"
        return Finding(
            f"the mean square error is {square:.3g}, {square / variance:.3g} times that of always "
            f"predicting the mean of {name} ({variance:.3g}; the mean is {targets.mean:.3g}), in "
            f"each of the last {worse} steps: are {name} scaled to a mean of 0 and a deviation of "
            "1, and is the learning rate high enough?",
            {"factor_gt": square / variance},
        )

    return look


def _suits(nodes: Sequence[Node]) -> str:
    return comparing(nodes, _OPS, "takes targets, whose mean is easily predicted")


register(
    Rule(
        "worse_than_mean",
        "targets are so far from zero that predictions stay worse than their mean",
        per_value(_begin),
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(
            count("num_steps", 60, "steps to judge by", unit="steps", low=1),
            count("in_a_row", 20, "number of consecutive steps", unit="steps", low=1),
            number("factor_gt", 4.0, "hit above this multiple of the variance", low=1),
        ),
        lasting=True,
        follows=("loss_diverging", "predictions_far_off", "targets_out_of_range",
                 "steps_too_large", "broadcast_in_loss", "steps_too_small", "loss_flat"),
        suits=_suits,
        concerns=takes_two_forward,
    )
)  # fmt: skip
