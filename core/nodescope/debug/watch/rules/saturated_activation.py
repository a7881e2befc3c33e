"""SageMaker's SaturatedActivation: inputs of tanh and sigmoid where these are flat."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, Unasked, number, plain
from nodescope.debug.watch.sight import Sight
from nodescope.debug.watch.units import ACTIVITY, inactive


def _look(sight: Sight, settings: Settings) -> Finding | None:
    op = sight.node.op
    if op not in ("tanh", "sigmoid"):
        return None
    if not sight.inputs:
        raise Unasked("the node has no input")
    given = sight.inputs[0].array
    if given.dtype.kind == "c":
        return None
    low, high = settings[f"threshold_{op}_min"], settings[f"threshold_{op}_max"]
    return inactive(
        ~((given < low) | (given > high)),  # NaN is nowhere, so not where it is flat
        settings["threshold_inactivity"],
        settings["threshold_layer"],
        f"saturated (input outside [{low:g}, {high:g}])",
    )


_NAN = float("nan")

register(
    Rule(
        "saturated_activation",
        "too many units of a tanh or sigmoid get inputs where it is flat",
        plain(_look),
        ("activations",),
        ops=frozenset({"tanh", "sigmoid"}),
        needs=frozenset({"values", "inputs"}),
        parameters=(
            number("threshold_tanh_min", -9.4999, "tanh is flat below"),
            number("threshold_tanh_max", 9.4999, "tanh is flat above"),
            number("threshold_sigmoid_min", -23.0, "sigmoid is flat below"),
            number("threshold_sigmoid_max", 16.99999, "sigmoid is flat above"),
            *ACTIVITY,
        ),
        origin="SageMaker",
        aliases=("SaturatedActivation",),
        examples=(
            Example(
                [
                    ([[1.0, 1.0]], [[12.0, -12.0]]),
                    ([[1.0, 0.0]], [[12.0, 0.0]]),
                    ([[1.0, 1.0], [1.0, 0.0]], [[12.0, 12.0], [12.0, 0.0]]),
                ],
                (1,),
                ops={"x": "tanh"},
            ),
            Example([([[_NAN]], [[_NAN]])], (), ops={"x": "tanh"}, about="NaN is not saturated"),
            Example([([[1.0]], [[17.0]]), ([[1.0]], [[16.0]])], (1,), ops={"x": "sigmoid"}),
        ),
    )
)
