"""Predictions far larger than the targets that a loss compares them with, to the end of training.

For example, the state of a recurrence grows with each step, although the loss may fall from 1e16 to
1e13. The rule also finds predictions far smaller than targets, such as targets in millions, which
an optimizer's steps do not reach.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, ObservedContent, Sight
from nodescope.debug.watch.rule import (
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    number,
    per_value,
    percent,
)
from nodescope.debug.watch.target_comparisons import (
    becomes_loss,
    comparing,
    takes_two_forward,
    target_port,
)
from nodescope.ir.graph import Node

_OPS: Final = frozenset({"subtract", "mse", "huber"})
_LARGE: Final = 30.0  # size of targets that weights of the usual size do not predict


def _begin(settings: Settings) -> Look:
    steps, factor, part = settings["num_steps"], settings["factor_gt"], settings["part_lt"] / 100
    seen = far = near = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, far, near
        node, graph = sight.node, sight.graph
        target = target_port(graph, node)
        if target is None or len(sight.inputs) != 2:
            raise Inapplicable("no loss subtracts predictions and targets")
        seen += 1
        if seen > 1 and not graph.reaches_loss(node):
            return None  # no loss is computed from it, which its first step has shown
        sizes = [_size(content) for content in sight.inputs]
        target_size, prediction_size = sizes[target], sizes[1 - target]
        far = far + 1 if target_size and prediction_size > factor * target_size else 0
        # Use the median, since a few outliers would make all targets look large.
        typical = _typical(sight.inputs[target]) if target_size > _LARGE else 0.0
        large = typical > _LARGE and becomes_loss(graph, node)
        near = near + 1 if large and 0 < prediction_size < part * typical else 0
        if far < steps and near < steps:
            if seen < steps:
                raise needs_steps(steps, seen)
            return None
        names = [maker.name if maker is not None else "a value"
                 for maker in map(graph.maker, node.inputs)]  # fmt: skip
        if near >= steps:
            return Finding(
                f"half of the targets, {names[target]}, are above {typical:.3g} in magnitude, "
                f"the predictions, {names[1 - target]}, have a root mean square of "
                f"{prediction_size:.3g}: {typical / prediction_size:.2g} times too small, in all "
                f"of the last {near} steps; scale the targets to about 1, by their mean and "
                "standard deviation",
                {"part_lt": 100 * prediction_size / typical},
            )
        return Finding(
            f"the predictions, {names[1 - target]}, have a root mean square of "
            f"{prediction_size:.3g}, the targets, {names[target]}, of {target_size:.3g}: "
            f"{prediction_size / target_size:.2g} times as large, in all of the last {far} steps",
            {"factor_gt": prediction_size / target_size},
        )

    return look


def _size(content: ObservedContent) -> float:
    """The root mean square of the elements; 0 if one is not finite."""
    summary = content.summary
    elements = math.prod(size or 0 for size in summary.spec.shape)
    if summary.norm is None or summary.nan_count or summary.inf_count or not elements:
        return 0.0
    return summary.norm / math.sqrt(elements)


def _typical(content: ObservedContent) -> float:
    """The median magnitude of the elements; 0 if they are not kept."""
    array = content.array_or_none
    if array is None or not array.size or array.dtype.kind not in "iuf":
        return 0.0
    return float(np.median(np.abs(array.astype(np.float64))))


def _suits(nodes: Sequence[Node]) -> str:
    return comparing(nodes, _OPS, "compares what may be predictions with their targets")


register(
    Rule(
        "predictions_far_off",
        "predictions are many times as large or as small as their targets, to the end of training",
        per_value(_begin),
        ops=_OPS,
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(
            count("num_steps", 20, "number of consecutive steps", unit="steps", low=1),
            number("factor_gt", 1000.0, "hit above this multiple", low=1),
            percent("part_lt", 1, "hit below this share of targets that are large"),
        ),
        lasting=True,
        follows=("loss_diverging", "steps_too_large"),
        suits=_suits,
        concerns=takes_two_forward,
    )
)
