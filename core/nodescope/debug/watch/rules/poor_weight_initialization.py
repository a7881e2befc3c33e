"""SageMaker's PoorWeightInitialization: the first steps of training, over all layers."""

from __future__ import annotations

import math

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import STATISTICS
from nodescope.debug.watch.observation import Sight, numbers
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    number,
)
from nodescope.debug.watch.rules.losses import loss_of


def _begin(settings: Settings) -> Look:
    variances: dict[str, float] = {}
    step, first = 0, -1
    # By loss.
    best: dict[int, float] = {}
    waits: dict[int, int] = {}
    counts: dict[int, int] = {}

    def weights(sight: Sight) -> Finding | None:
        variance = STATISTICS["variance"][1](sight)
        if variance is None or len(sight.spec.shape) < 2:
            return None
        variances[sight.node.name] = variance
        low, high = min(variances, key=variances.__getitem__), max(
            variances, key=variances.__getitem__
        )  # fmt: skip
        if sight.node.name not in (low, high) or variances[low] == variances[high]:
            return None
        ratio = variances[high] / variances[low] if variances[low] else math.inf
        if ratio <= settings["threshold"]:
            return None
        return Finding(
            f"the variance of {high} is {variances[high]:.6g}, that of {low} {variances[low]:.6g}: "
            f"{ratio:.6g} times, more than {settings['threshold']:g}",
            {"threshold": ratio},
        )

    def gradients(sight: Sight) -> Finding | None:
        if sight.size < 2:
            return None
        array = numbers(sight.array)
        real = np.abs(array) if array.dtype.kind == "c" else array
        finite = real[np.isfinite(real)]
        if not finite.size:
            return None
        low, high = np.percentile(finite, (5, 95))
        if high - low >= settings["distribution_range"]:
            return None
        return Finding(
            f"its elements hardly vary: {high - low:.6g} between 5th and 95th percentile, less "
            f"than {settings['distribution_range']:g}",
            {"distribution_range": float(high - low)},
        )

    def losses(sight: Sight) -> Finding | None:
        loss, value = loss_of(sight), sight.value
        if loss is None:
            return None
        least = best.setdefault(value, math.inf)
        losses_seen = counts[value] = counts.get(value, 0) + 1
        if loss < least:
            best[value], waits[value] = loss, 0
        else:
            waits[value] = waits.get(value, 0) + 1
        if losses_seen <= settings["patience"]:
            raise needs_steps(settings["patience"] + 1, losses_seen)
        waited = waits.get(value, 0)
        if waited < settings["patience"]:
            return None
        return Finding(f"it has not fallen below {least:.6g} in {waited} steps",
                       {"patience": waited})  # fmt: skip

    def look(sight: Sight) -> Finding | None:
        nonlocal step, first
        if first < 0:
            first = sight.step
        if sight.step - first >= settings["steps"]:
            return None
        if sight.step != step:
            step = sight.step
            variances.clear()
        if "losses" in sight.roles:
            return losses(sight)
        return gradients(sight) if "weight_gradients" in sight.roles else weights(sight)

    return look


register(
    Rule(
        "poor_weight_initialization",
        "in the first steps, weight variances differ, gradients hardly vary, or a loss stays high",
        _begin,
        ("weights", "weight_gradients", "losses"),
        needs=frozenset({"summary", "values", "history"}),
        parameters=(
            number("threshold", 10.0, "hit if two variances differ by a larger ratio", low=1),
            number("distribution_range", 0.001, "hit if a gradient's 5th and 95th percentile "
                   "are closer together", low=0),
            count("patience", 5, "steps without a lower loss", unit="steps", low=1),
            count("steps", 10, "number of steps evaluated", unit="steps", low=1),
        ),
        origin="SageMaker",
        aliases=("PoorWeightInitialization",),
        examples=(
            Example(
                [
                    {"a": [[0.0, 1.0]], "b": [[0.0, 2.0]]},
                    {"a": [[0.0, 1.0]], "b": [[0.0, 4.0]]},
                    {"a": [[0.0, 1.0]], "b": [0.0, 9.0]},
                ],
                (2,),
                ops={"a": "parameter", "b": "parameter"},
            ),
            Example([3.0, 3.0, 3.0, 3.0], (3,), {"patience": 2, "steps": 3}, {"x": "mse"}),
            Example([{"a": 9.0 - i, "b": 1.0 - i} for i in range(4)], (), {"patience": 2},
                    {"a": "mse", "b": "mse"}, about="both fall, one below the other"),
            Example([{"a": 9.0, "b": 1.0 - i} for i in range(4)], (3, 4), {"patience": 2},
                    {"a": "mse", "b": "mse"}, about="one falls, the other does not"),
        ),
    )
)  # fmt: skip
