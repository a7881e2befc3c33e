"""How much weights change from step to step, under MindInsight's and SageMaker's names."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import change, close
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Need,
    Rule,
    Settings,
    count,
    flag,
    needs_steps,
    number,
    per_value,
    plain,
)

_NEEDS: frozenset[Need] = frozenset({"values", "previous_values"})
_TOLERANCE = (
    number("rtol", 1e-5, "relative tolerance", low=0),
    number("atol", 1e-8, "absolute tolerance", low=0),
    flag("equal_nan", False, "whether NaN equals NaN"),
)
_EPSILON = number("epsilon", 1e-9, "added to the denominator", low=0)
_RATIO = "mean magnitude of the change / (mean magnitude before + ε)"


def _within(settings: Settings) -> str:
    return f"within rtol {settings['rtol']:g} and atol {settings['atol']:g}"


def _same(sight: Sight, settings: Settings) -> bool | None:
    if not sight.size:
        return None
    return close(sight, settings["rtol"], settings["atol"], settings["equal_nan"])


def _unchanged(sight: Sight, settings: Settings) -> Finding | None:
    if not _same(sight, settings):
        return None
    return Finding(
        f"all {sight.size} elements are unchanged since the previous step, {_within(settings)}"
    )


def _unchanged_for(settings: Settings) -> Look:
    steps, unchanged, steps_seen = settings["num_steps"], 1, 0

    def look(sight: Sight) -> Finding | None:
        nonlocal unchanged, steps_seen
        steps_seen += 1
        if sight.before is not None:
            unchanged = unchanged + 1 if _same(sight, settings) else 1
        if steps_seen < steps and sight.size:
            raise needs_steps(steps, steps_seen)
        if unchanged < steps:
            return None
        return Finding(f"no element has changed in {unchanged} steps, {_within(settings)}",
                       {"num_steps": unchanged})  # fmt: skip

    return look


def _large(sight: Sight, settings: Settings) -> Finding | None:
    if len(sight.spec.shape) < settings["min_axes"]:
        return None
    ratio, limit = change(sight, settings["epsilon"]), settings["abs_mean_update_ratio_gt"]
    if ratio is None or not ratio > limit:
        return None
    return Finding(
        f"it changed by {ratio:.6g} of its mean magnitude, more than {limit:g}",
        {"abs_mean_update_ratio_gt": ratio},
    )


def _small(sight: Sight, settings: Settings) -> Finding | None:
    ratio, limit = change(sight, settings["epsilon"]), settings["abs_mean_update_ratio_lt"]
    if ratio is None or not ratio < limit:
        return None
    return Finding(
        f"it changed by {ratio:.6g} of its mean magnitude, less than {limit:g}",
        {"abs_mean_update_ratio_lt": ratio},
    )


def _ratio(settings: Settings) -> Look:
    interval, steps_seen = settings["num_steps"], 0
    large, small = settings["large_threshold"], settings["small_threshold"]

    def look(sight: Sight) -> Finding | None:
        nonlocal steps_seen
        if sight.before is None:
            raise needs_steps(interval + 1, 1)
        steps_seen += 1
        if steps_seen < interval:
            raise needs_steps(interval + 1, steps_seen + 1)
        if steps_seen % interval:
            return None
        ratio = change(sight, settings["epsilon"])
        if ratio is None or small <= ratio <= large:
            return None
        words = f"more than {large:g}" if ratio > large else f"less than {small:g}"
        return Finding(
            f"it changed by {ratio:.6g} of its mean magnitude, {words}",
            {"large_threshold" if ratio > large else "small_threshold": ratio},
        )

    return look


_NAN = float("nan")

register(
    Rule(
        "weight_not_changed",
        "a weight has not changed since the previous step",
        plain(_unchanged),
        ("weights",),
        needs=_NEEDS,
        parameters=_TOLERANCE,
        origin="MindInsight",
        aliases=("WNC",),
        examples=(
            Example([[1.0, 2.0], [1.0, 2.0], [1.0, 2.1], [1.0, 2.1 + 1e-6]], (2, 4)),
            Example([[_NAN], [_NAN]], ()),
            Example([[_NAN], [_NAN]], (2,), {"equal_nan": True}),
            Example([[1, 2], [1, 2], [1, 2, 3], []], (2,)),
        ),
    ),
    Rule(
        "weight_change_too_large",
        f"a weight changes too much: {_RATIO}",
        plain(_large),
        ("weights",),
        needs=_NEEDS,
        parameters=(
            number("abs_mean_update_ratio_gt", 0.1, "hit above it", low=0),
            _EPSILON,
            count("min_axes", 0, "weights with fewer axes (biases) are skipped"),
        ),
        origin="MindInsight",
        aliases=("WCL",),
        examples=(
            Example([[1.0, 1.0], [1.25, 1.0], [1.25, 1.25]], (2, 3)),
            Example([[4.0], [5.0]], (), {"abs_mean_update_ratio_gt": 0.25, "epsilon": 0},
                    about="exactly at the limit"),
            Example([[0.0], [0.0], [1.0]], (3,)),
            Example([[1j], [2j]], (2,)),
            Example([[1.0], [2.0], [[3.0]], [[9.0]]], (4,), {"min_axes": 2}),
        ),
    ),
    Rule(
        "weight_change_too_small",
        f"a weight changes too little: {_RATIO}",
        plain(_small),
        ("weights",),
        needs=_NEEDS,
        parameters=(number("abs_mean_update_ratio_lt", 1e-4, "hit below it", low=0), _EPSILON),
        origin="MindInsight",
        aliases=("WCS",),
        examples=(
            Example([[1.0, 1.0], [1.0, 1.0], [1.0, 1.1]], (2,)),
            Example([[4.0], [5.0]], (), {"abs_mean_update_ratio_lt": 0.25, "epsilon": 0}),
            Example([[], []], ()),
            Example([[_NAN], [_NAN]], (), about="nothing finite, so no change is known"),
        ),
    ),
    Rule(
        "weight_update_ratio",
        f"a weight changes too much or too little: {_RATIO}",
        per_value(_ratio),
        ("weights",),
        needs=_NEEDS,
        parameters=(
            count("num_steps", 1, "evaluate once in this many steps", unit="steps", low=1),
            number("large_threshold", 10.0, "hit above this", low=0),
            number("small_threshold", 1e-8, "hit below this", low=0),
            _EPSILON,
        ),
        origin="SageMaker",
        aliases=("WeightUpdateRatio",),
        examples=(
            Example([[1.0], [1.0], [1.1], [100.0]], (2, 4)),
            Example([[1.0], [1.0], [1.0]], (3,), {"num_steps": 2}),
        ),
    ),
    Rule(
        "unchanged_tensor",
        "a value has not changed in several steps",
        per_value(_unchanged_for),
        needs=_NEEDS | {"history"},
        parameters=(
            count("num_steps", 3, "steps without change", unit="steps", low=2), *_TOLERANCE,
        ),
        origin="SageMaker",
        aliases=("UnchangedTensor",),
        examples=(
            Example([[1.0], [1.0], [1.0], [1.0], [2.0], [2.0]], (3, 4)),
            Example([[3], [3], [4]], (2,), {"num_steps": 2}),
            Example([np.array([2**60 + i]) for i in (0, 1, 1)], (3,),
                    {"num_steps": 2, "rtol": 0, "atol": 0}),
            Example([[_NAN, 1.0], [_NAN, 1.0], [_NAN, 2.0]], (2,),
                    {"num_steps": 2, "rtol": 0, "atol": 0, "equal_nan": True}),
        ),
    ),
)  # fmt: skip
