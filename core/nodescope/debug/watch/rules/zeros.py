"""Values that are all zero, or nearly, under MindInsight's and SageMaker's names."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import threshold_finding, threshold_parameter, zero_percentage
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, percent, plain


def _all_zero(sight: Sight, settings: Settings) -> Finding | None:
    share, limit = zero_percentage(sight), settings["threshold"]
    if share is None or share < limit:
        return None
    return Finding(f"{share:.6g}% of {sight.size} elements are zero", {"threshold": share})


_EXAMPLES = (
    Example([[0.0, -0.0], [0.0, 1.0], [0, 0], [False, False], [0j]], (1, 3, 4, 5)),
    Example([[], [float("nan"), 0.0]], (), about="NaN is not zero"),
)

register(
    Rule(
        "tensor_all_zero",
        "too many elements of a value are zero",
        plain(lambda sight, settings: threshold_finding(sight, settings, ("zero_percentage_ge",))),
        parameters=(threshold_parameter("zero_percentage_ge", 100),),
        origin="MindInsight",
        aliases=("TZ",),
        examples=(*_EXAMPLES, Example([[0.0, 1.0], [1.0, 1.0]], (1,), {"zero_percentage_ge": 50})),
    ),
    Rule(
        "all_zero",
        "too large a share of a value's elements is zero",
        plain(_all_zero),
        parameters=(percent("threshold", 100, "hit if at least this share is zero"),),
        origin="SageMaker",
        aliases=("AllZero",),
        examples=(*_EXAMPLES, Example([[0.0, 1.0], [1.0, 1.0]], (1,), {"threshold": 50})),
    ),
)
