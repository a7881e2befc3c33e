"""A classifier that is confidently wrong: its loss stays far above that of guessing.

Guessing among n classes costs log(n). If the loss begins at several times that, the scores are too
large from the start, for example because of unscaled initial weights. If it begins near that and
grows, the updates go uphill or are too large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

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
from nodescope.events import Array
from nodescope.ir.graph import Node

_CLASSES: Final = frozenset({"cross_entropy", "nll_loss"})
_BINARY: Final = frozenset({"bce_with_logits", "bce"})
_HIGH: Final = 2.5  # multiple of guessing's loss that the usual initialisations do not exceed
_UNKNOWN: Final = "no loss alone compares scores with labels"


def _begin(settings: Settings) -> Look:
    steps, in_a_row, factor = settings["num_steps"], settings["in_a_row"], settings["factor_gt"]
    seen = above = 0
    first = math.inf

    def look(sight: Sight) -> Finding | None:
        nonlocal seen, above, first
        loss, guessing = sight.summary.mean, _guessing(sight)
        if loss is None or not math.isfinite(loss) or guessing is None:
            raise Inapplicable(_UNKNOWN)
        seen += 1
        if seen > 1 and not is_only_loss(sight.graph, sight.node):
            raise Inapplicable(_UNKNOWN)
        if seen <= 3:
            first = min(first, loss)
        above = above + 1 if loss > factor * guessing else 0
        if seen < steps:
            raise needs_steps(steps, seen)
        if above < in_a_row:
            return None
        if first > _HIGH * guessing:
            why = (
                f"it was {first:.3g} in the first steps, so the scores are too large from the "
                "start: initialise the weights with a deviation of 1 / sqrt(inputs), or scale "
                "the inputs"
            )
        else:
            why = f"it was {first:.3g} at first: do the updates go uphill, or are they too large?"
        return Finding(
            f"the loss is {loss:.4g}, {loss / guessing:.3g} times that of guessing "
            f"({guessing:.3g}), and was far above it in each of the last {above} steps; {why}",
            {"factor_gt": loss / guessing},
        )

    return look


def _guessing(sight: Sight) -> float | None:
    """The loss of guessing among the classes; None if unknown, or if all labels are equal."""
    graph, node, inputs = sight.graph, sight.node, sight.inputs
    if sight.size != 1 or len(inputs) != 2 or target_port(graph, node) != 1:
        return None
    labels: Array = inputs[1].array
    shape = inputs[0].spec.shape
    if labels.size < 2 or not bool(np.any(labels != labels.reshape(-1)[0])):
        return None
    if node.op in _BINARY:
        return math.log(2) if np.isin(labels, (0, 1)).all() else None
    if labels.dtype.kind not in "iu" or len(shape) < 2:
        return None
    classes = shape[1] or 0
    return math.log(classes) if classes > 1 else None


def _suits(nodes: Sequence[Node]) -> str:
    return comparing(nodes, _CLASSES | _BINARY, "has labels, whose classes can be guessed")


register(
    Rule(
        "worse_than_chance",
        "a classifier's loss stays far above that of guessing",
        per_value(_begin),
        ops=_CLASSES | _BINARY,
        needs=frozenset({"summary", "inputs", "values", "history"}),
        parameters=(
            count("num_steps", 60, "steps to judge by", unit="steps", low=1),
            count("in_a_row", 30, "number of consecutive steps", unit="steps", low=1),
            number("factor_gt", 1.5, "hit above this multiple of the loss of guessing", low=1),
        ),
        lasting=True,
        explains=True,
        follows=(
            "targets_masked",
            "saturated_start",
            "saturated_layer",
            "steps_too_large",
            "loss_diverging",
            "rate_negative",
            "inputs_scale",
            "one_class_batches",
            "gradient_not_zeroed",
            "targets_out_of_range",
            "softmax_twice",
        ),
        suits=_suits,
        concerns=takes_two_forward,
    )
)
