"""Dead and saturated units of any activation, judged by its outputs."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.layer_units import by_unit, unit_finding
from nodescope.debug.watch.observation import Sight, numbers
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, percent, plain

# The bounds of an activation's results.
_BOUNDS = {
    "tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0), "erf": (-1.0, 1.0), "softsign": (-1.0, 1.0),
    "hardsigmoid": (0.0, 1.0), "relu6": (0.0, 6.0),
}  # fmt: skip
_LAYER = percent("threshold_layer", 50.0, "hit if a larger share of units counts")


def _dead(sight: Sight, settings: Settings) -> Finding | None:
    if not sight.size:
        return None
    units = by_unit(sight.array)
    if len(units) < 2:
        return None  # a single example says nothing about a unit
    indices = np.flatnonzero((units == units[:1]).all(axis=0))
    share, layer = 100 * indices.size / units.shape[1], settings["threshold_layer"]
    if share <= layer:
        return None
    return unit_finding(indices, units.shape[1], share, layer, "constant across the batch")


def _saturated(sight: Sight, settings: Settings) -> Finding | None:
    if sight.node.op not in _BOUNDS or not sight.size:
        return None
    (low, high), margin = _BOUNDS[sight.node.op], settings["margin"] / 100
    edge = margin * (high - low)
    array = numbers(sight.array).real
    flat = by_unit((array <= low + edge) | (array >= high - edge))
    indices = np.flatnonzero(flat.mean(axis=0) * 100 >= settings["threshold_unit"])
    share, layer = 100 * indices.size / flat.shape[1], settings["threshold_layer"]
    if share <= layer:
        return None
    return unit_finding(indices, flat.shape[1], share, layer, "saturated")


register(
    Rule(
        "dead_activations",
        "too many units of an activation output the same value for every example in the batch",
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
            percent("margin", 0.1, "how close to a bound counts, as a share of the range"),
            percent(
                "threshold_unit",
                99.0,
                "a unit counts if it is at a bound for at least this share of examples",
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
