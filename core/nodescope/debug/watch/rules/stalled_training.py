"""SageMaker's StalledTrainingRule: nothing new for a long time."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.rule import Example, Finding, Look, Rule, Settings, number, per_value
from nodescope.debug.watch.sight import Sight


def _begin(settings: Settings) -> Look:
    threshold, last = settings["threshold"], -1

    def look(sight: Sight) -> Finding | None:
        nonlocal last
        then, last = last, sight.time_ns
        waited = (sight.time_ns - then) / 1e9
        if then < 0 or waited <= threshold:
            return None
        return Finding(
            f"it was computed {waited:.6g} s after the time before, more than {threshold:g} s",
            {"threshold": waited},
        )

    return look


register(
    Rule(
        "stalled_training",
        "a loss took long to arrive; reported once it has",
        per_value(_begin),
        ("losses",),
        needs=frozenset({"history"}),
        parameters=(number("threshold", 1800.0, "hit after a longer time", unit="s", low=0),),
        origin="SageMaker",
        aliases=("StalledTraining", "StalledTrainingRule", "stalled_training_rule"),
        examples=(
            Example([1.0, 1.0, 1.0], (3,), times_s=(5000, 6800, 8601)),
            Example([1.0, 1.0], (2,), {"threshold": 0.5}, times_s=(0, 1)),
        ),
    )
)
