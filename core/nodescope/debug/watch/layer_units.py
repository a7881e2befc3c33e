"""Units of a layer: how many are inactive over the examples of a batch.

Units lie along the last axis; along axis 1 where there are four axes or more (images).
"""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch.rule import Finding, percent
from nodescope.events import Array

ACTIVITY = (
    percent(
        "threshold_inactivity", 1.0, "a unit counts if it is active in a smaller share of examples"
    ),
    percent("threshold_layer", 50.0, "hit if a larger share of units counts"),
)


def by_unit(array: Array) -> Array:
    """The array as (examples, units)."""
    if array.ndim >= 4:
        array = np.moveaxis(array, 1, -1)
    return array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)


def inactive(active: Array, inactivity: float, layer: float, word: str) -> Finding | None:
    """A finding if over ``layer`` percent of the units are inactive in too many examples."""
    if not active.size:
        return None
    activity = 100 * by_unit(active).mean(axis=0)
    below = np.flatnonzero(activity < inactivity)
    share = 100 * below.size / activity.size
    return unit_finding(below, activity.size, share, layer, word) if share > layer else None


def unit_finding(indices: Array, units: int, share: float, layer: float, word: str) -> Finding:
    """The finding, with the indices of the first such units."""
    first = ", ".join(map(str, indices[:5])) + (", …" if indices.size > 5 else "")
    return Finding(
        f"{indices.size} of {units} units are {word} ({share:.6g}%, more than {layer:g}%): "
        f"unit{'s'[: indices.size > 1]} {first}",
        {"threshold_layer": share, "units": int(indices.size)},
    )
