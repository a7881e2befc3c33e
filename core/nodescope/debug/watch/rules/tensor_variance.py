"""SageMaker's TensorVariance: the variance of a value leaves its bounds."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import STATISTICS
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, number, plain


def _look(sight: Sight, settings: Settings) -> Finding | None:
    variance = STATISTICS["variance"][1](sight)
    if variance is None:
        return None
    low, high = settings["min_threshold"], settings["max_threshold"]
    if high is not None and variance > high:
        return Finding(f"the variance is {variance:.6g}, above {high:g}",
                       {"max_threshold": variance})  # fmt: skip
    if low is not None and variance < low:
        return Finding(f"the variance is {variance:.6g}, below {low:g}",
                       {"min_threshold": variance})  # fmt: skip
    return None


register(
    Rule(
        "tensor_variance",
        "the variance of a value is above or below a threshold",
        plain(_look),
        parameters=(
            number("max_threshold", None, "hit above this"),
            number("min_threshold", None, "hit below this"),
        ),
        any_of=("max_threshold", "min_threshold"),
        origin="SageMaker",
        aliases=("TensorVariance",),
        examples=(
            Example([[0.0, 4.0], [0.0, 2.0], [float("nan")], []], (1,), {"max_threshold": 1}),
            Example([[0.0, 1.0], [0.0, 2.0], [3, 3]], (1, 3), {"min_threshold": 1}),
        ),
    )
)
