"""SageMaker's StalledTrainingRule: no new loss for a long time."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.rule import Example, Finding, Look, Rule, Settings, number, per_value


def _begin(settings: Settings) -> Look:
    threshold, last = settings["threshold"], -1

    def look(sight: Sight) -> Finding | None:
        nonlocal last
        earlier_ns, last = last, sight.time_ns
        waited = (sight.time_ns - earlier_ns) / 1e9
        if earlier_ns < 0 or waited <= threshold:
            return None
        return Finding(
            f"it was computed {waited:.6g} s after the previous one, more than {threshold:g} s",
            {"threshold": waited},
        )

    return look


register(
    Rule(
        "stalled_training",
        "a loss takes too long to arrive; reported when it does",
        per_value(_begin),
        ("losses",),
        needs=frozenset({"history"}),
        parameters=(number("threshold", 1800.0, "hit after more than this", unit="s", low=0),),
        origin="SageMaker",
        aliases=("StalledTraining", "StalledTrainingRule", "stalled_training_rule"),
        examples=(
            Example([1.0, 1.0, 1.0], (3,), times_s=(5000, 6800, 8601)),
            Example([1.0, 1.0], (2,), {"threshold": 0.5}, times_s=(0, 1)),
        ),
    )
)
