"""Dead and saturated units of any activation, judged by what it gives."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, percent, plain
from nodescope.debug.watch.sight import Sight, numbers
from nodescope.debug.watch.units import by_unit, told

# Between what an activation's results lie.
_BOUNDS = {
    "tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0), "erf": (-1.0, 1.0), "softsign": (-1.0, 1.0),
    "hardsigmoid": (0.0, 1.0), "relu6": (0.0, 6.0),
}  # fmt: skip
_LAYER = percent("threshold_layer", 50.0, "hit if a larger share of the units counts")


def _dead(sight: Sight, settings: Settings) -> Finding | None:
    if not sight.size:
        return None
    units = by_unit(sight.array)
    if len(units) < 2:
        return None  # One example tells nothing about a unit.
    which = np.flatnonzero((units == units[:1]).all(axis=0))
    share, layer = 100 * which.size / units.shape[1], settings["threshold_layer"]
    if share <= layer:
        return None
    return told(which, units.shape[1], share, layer, "the same for every example")


def _saturated(sight: Sight, settings: Settings) -> Finding | None:
    if sight.node.op not in _BOUNDS or not sight.size:
        return None
    (low, high), margin = _BOUNDS[sight.node.op], settings["margin"] / 100
    edge = margin * (high - low)
    array = numbers(sight.array).real
    flat = by_unit((array <= low + edge) | (array >= high - edge))
    which = np.flatnonzero(flat.mean(axis=0) * 100 >= settings["threshold_unit"])
    share, layer = 100 * which.size / flat.shape[1], settings["threshold_layer"]
    if share <= layer:
        return None
    return told(which, flat.shape[1], share, layer, "saturated")


register(
    Rule(
        "dead_activations",
        "too many units of an activation give the same value for every example of the batch",
        plain(_dead),
        ("activations",),
        needs=frozenset({"summary", "values"}),
        parameters=(_LAYER,),
        examples=(
            Example([[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 2.0]]], (1,)),
            Example([[[0.0, 1.0]], [[]], 3.0], (), about="one example, none, a scalar"),
        ),
    ),
    Rule(
        "saturated_activations",
        "too many units of a bounded activation stay at its bounds",
        plain(_saturated),
        ("activations",),
        ops=frozenset(_BOUNDS),
        needs=frozenset({"summary", "values"}),
        parameters=(
            percent("margin", 0.1, "how near to a bound counts, as a share of the span"),
            percent(
                "threshold_unit",
                99.0,
                "a unit that is there for at least this share of examples counts",
            ),
            _LAYER,
        ),
        examples=(
            Example(
                [[[1.0, -1.0, 0.0]], [[1.0, 0.9, 0.0]], [[0.998, 0.9979]], [[0.998, 0.99801]]],
                (1, 4),
                ops={"x": "tanh"},
            ),
            Example([[[0.0, 6.0]], [[1.0, 6.0]]], (1,), ops={"x": "relu6"}),
        ),
    ),
)
