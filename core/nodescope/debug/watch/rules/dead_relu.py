"""SageMaker's DeadRelu: units of a ReLU that output zero for nearly every example."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.layer_units import ACTIVITY, inactive
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, plain


def _look(sight: Sight, settings: Settings) -> Finding | None:
    if not sight.summary.zero_count:
        return None
    return inactive(
        sight.array != 0, settings["threshold_inactivity"], settings["threshold_layer"], "dead"
    )


register(
    Rule(
        "dead_relu",
        "too many units of a ReLU output zero for nearly every example",
        plain(_look),
        ("activations",),
        ops=frozenset({"relu", "relu6"}),
        needs=frozenset({"summary", "values"}),
        parameters=ACTIVITY,
        origin="SageMaker",
        aliases=("DeadRelu",),
        examples=(
            Example(
                [
                    [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
                    [[0.0, 0.0, 1.0], [0.0, 2.0, 0.0]],
                    [[0.0, 0.0], [0.0, 1.0]],
                ],
                (1,),
                ops={"x": "relu"},
                about="the third has half of its units dead, which is not more than 50%",
            ),
            Example([[[0.0, 1.0]], [[]]], (1,), {"threshold_layer": 40}, {"x": "relu"}),
        ),
    )
)
