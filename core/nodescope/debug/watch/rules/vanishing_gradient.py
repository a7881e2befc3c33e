"""SageMaker's VanishingGradient: the mean magnitude of a weight's gradient is very small."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import compared
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, number, plain


def _look(sight: Sight, settings: Settings) -> Finding | None:
    threshold = settings["threshold"]
    true, actual = compared(sight, "abs_mean_lt", threshold)
    if not true or actual is None:
        return None
    return Finding(f"the mean magnitude is {actual:.6g}, below {threshold:g}",
                   {"threshold": actual})  # fmt: skip


register(
    Rule(
        "vanishing_gradient",
        "the gradient of a weight has a very small mean magnitude",
        plain(_look),
        ("weight_gradients",),
        needs=frozenset({"summary", "values"}),
        parameters=(number("threshold", 1e-7, "hit below this", low=0),),
        origin="SageMaker",
        aliases=("VanishingGradient",),
        examples=(
            Example([[1e-8, -1e-8], [1e-3, -1e-3], [0.0, 0.0]], (1, 3)),
            Example([[1.0, -3.0], [1.0, -2.5]], (2,), {"threshold": 2}),
        ),
    )
)
