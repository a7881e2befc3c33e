"""Losses over a whole run: one that never moves, and one that diverges."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Inapplicable, MissingData, Sight
from nodescope.debug.watch.rule import (
    Example,
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
from nodescope.debug.watch.rules.losses import broken, loss_of
from nodescope.debug.watch.suiting import descends, trains_weights

_SUMS: Final = frozenset({"mean", "sum"})
_FEWEST_TERMS: Final = 8


def _too_few(sight: Sight, needed: int, had: int) -> MissingData:
    """The exception for a loss that was seen too seldom.

    A loss without a backward pass, such as that of a test after training, is not a training loss:
    it is reported only if there is no other.
    """
    reason = needs_steps(needed, had)
    return reason if sight.graph.reaches_loss(sight.node) else Inapplicable(str(reason))


def _flat(settings: Settings) -> Look:
    steps, band = settings["num_steps"], settings["band"] / 100
    low, high, seen = math.inf, -math.inf, 0

    def look(sight: Sight) -> Finding | None:
        nonlocal low, high, seen
        loss = loss_of(sight)
        if loss is None or math.isnan(loss):
            return None
        seen += 1
        low, high = min(low, loss), max(high, loss)
        if seen < steps:
            raise _too_few(sight, steps, seen)
        moved, size = high - low, max(abs(low), abs(high))
        if not high or moved > band * size or moved > band * size * _typical_share(sight):
            return None
        return Finding(
            f"it has stayed between {low:.6g} and {high:.6g} in all {seen} steps: nothing is "
            "learned",
            {"band": 100 * (high - low) / max(abs(low), abs(high))},
        )

    return look


def _typical_share(sight: Sight) -> float:
    """The ratio of the median to the mean magnitude of a loss's terms, at most 1.

    It is small if a few outliers make up nearly all of the loss; 1 if the terms are unknown.
    """
    if sight.node.op not in _SUMS or len(sight.inputs) != 1:
        return 1.0
    terms = sight.inputs[0].array_or_none
    if terms is None or terms.dtype.kind != "f" or terms.size < _FEWEST_TERMS:
        return 1.0
    sizes = np.abs(terms.astype(np.float64))
    mean, median = float(sizes.mean()), float(np.median(sizes))
    return median / mean if 0 < median < mean < math.inf else 1.0


_GROWTH: Final = 1.02
# A loss that stays above this multiple of its first values, and above this number, has diverged.
_FAR: Final = 1e4
_HIGH: Final = 1e3
_STAYS: Final = 10


def _diverging(settings: Settings) -> Look:
    factor, steps, first = settings["factor_gt"], settings["num_steps"], -math.inf
    seen = grown = stays = 0
    before = math.inf

    def look(sight: Sight) -> Finding | None:
        nonlocal first, seen, grown, stays, before
        loss = loss_of(sight)
        if loss is None:
            return None
        failed = broken(sight)
        if failed is not None:
            return failed
        seen += 1
        # If the first losses are near zero, any later one is a large multiple. So it must also have
        # grown in every step.
        grown = grown + 1 if loss > _GROWTH * before > 0 else 0
        before = loss
        if loss < 0 or seen <= 3:
            first = max(first, abs(loss))
        if seen <= 3:
            raise _too_few(sight, 4, seen)
        if not first:
            raise Inapplicable("there is no ratio to a loss of zero")
        stays = stays + 1 if loss > max(_FAR * first, _HIGH) else 0
        if stays >= _STAYS and grown < steps:
            return Finding(
                f"it is {loss:.6g}, {loss / first:.6g} times the largest of its first three "
                f"values, and has stayed above {_FAR:g} times that for {stays} steps",
                {"factor_gt": loss / first},
            )
        if loss <= factor * first or grown < steps:
            return None
        return Finding(
            f"it is {loss:.6g}, {loss / first:.6g} times the largest of its first three values, "
            f"and has grown in each of the last {grown} steps",
            {"factor_gt": loss / first},
        )

    return look


register(
    Rule(
        "loss_flat",
        "a loss hardly moves from the first step on",
        per_value(_flat),
        ("losses",),
        needs=frozenset({"summary", "inputs", "history"}),
        parameters=(
            count("num_steps", 20, "number of steps required", unit="steps", low=2),
            percent("band", 1, "hit if its highest and lowest value differ by less than this"),
        ),
        lasting=True,
        follows=(
            "dead_layer",
            "saturated_layer",
            "mean_of_one",
            "zero_slope",
            "clipped_layer",
            "both_factors_zero",
            "signal_fades",
            "schedule_ends_early",
            "clip_too_small",
            "steps_too_small",
            "sides_equal",
            "loss_of_data",
            "inputs_scale",
            "update_overwritten",
            "gradient_lost",
            "units_identical",
            "weight_frozen",
        ),
        suits=trains_weights("a loss that does not move means that nothing is learned"),
        examples=(
            Example([0.461, 0.4611, 0.461, 0.3], (3,), {"num_steps": 3}),
            Example([0.0, 0.0, 0.0], (), {"num_steps": 2}, about="it has nowhere to fall"),
            Example([2.0, 1.0, 1.0, 1.0, 1.0], (), {"num_steps": 2}, about="a plateau"),
            Example([1.0, math.nan, 1.0], (3,), {"num_steps": 2}, about="other rules report NaN"),
        ),
    ),
    Rule(
        "loss_diverging",
        "a loss is many times its initial value and keeps growing, or is not finite",
        per_value(_diverging),
        ("losses",),
        needs=frozenset({"summary", "history"}),
        parameters=(
            number("factor_gt", 100.0, "hit above this multiple", low=1),
            count(
                "num_steps",
                3,
                "number of consecutive steps in which it must grow",
                unit="steps",
                low=1,
            ),
        ),
        lasting=True,
        follows=("steps_too_large",),
        diverges=True,
        suits=descends("a loss that grows without bound has diverged"),
        examples=(
            Example([1.0, 2.0, 1.0, 50.0, 201.0, 210.0, 230.0], (5, 6, 7), {"num_steps": 2}),
            Example([0.001, 0.001, 0.001, 1.0, 0.9, 1.1, 1.2, 1.1], (), about="from near zero"),
            Example([1.0, math.inf, 1.0, 1.0], (2,)),
            Example([-1.0, 1.0, -1.0, 50.0], (), about="within the multiple"),
            Example([2.0, 1.0, 1.0, *[4e19, 3e19] * 6], (13, 14, 15), about="it jumped, and stays"),
            Example([2.0, 1.0, 1.0, *[4e19] * 9, 1.0, 4e19], (), about="it came back"),
            Example([1e-9, 1e-9, 1e-9, *[0.1] * 20], (), about="from almost zero"),
        ),
    ),
)
