"""SageMaker's SaturatedActivation: inputs in the flat regions of tanh and sigmoid."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.layer_units import ACTIVITY, inactive
from nodescope.debug.watch.observation import MissingData, Sight
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, number, plain


def _look(sight: Sight, settings: Settings) -> Finding | None:
    op = sight.node.op
    if op not in ("tanh", "sigmoid"):
        return None
    if not sight.inputs:
        raise MissingData("the node has no input")
    activation_input = sight.inputs[0].array
    if activation_input.dtype.kind == "c":
        return None
    low, high = settings[f"threshold_{op}_min"], settings[f"threshold_{op}_max"]
    return inactive(
        ~((activation_input < low) | (activation_input > high)),  # NaN is not in the flat regions
        settings["threshold_inactivity"],
        settings["threshold_layer"],
        f"saturated (input outside [{low:g}, {high:g}])",
    )


_NAN = float("nan")

register(
    Rule(
        "saturated_activation",
        "too many units of a tanh or sigmoid get inputs from its flat region",
        plain(_look),
        ("activations",),
        ops=frozenset({"tanh", "sigmoid"}),
        needs=frozenset({"values", "inputs"}),
        parameters=(
            number("threshold_tanh_min", -9.4999, "tanh is flat below this"),
            number("threshold_tanh_max", 9.4999, "tanh is flat above this"),
            number("threshold_sigmoid_min", -23.0, "sigmoid is flat below this"),
            number("threshold_sigmoid_max", 16.99999, "sigmoid is flat above this"),
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
