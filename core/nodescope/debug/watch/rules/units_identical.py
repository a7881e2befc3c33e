"""Units of a layer that all have the same weights, bit for bit: training cannot tell them apart."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Settings,
    count,
    needs_steps,
    per_value,
)
from nodescope.debug.watch.rules.weight_frozen import digest
from nodescope.debug.watch.suiting import trains_weights
from nodescope.events import Array


def _identical(array: Array) -> int:
    """The number of units if all are identical, else 0.

    The units of a matrix are its columns; those of a convolution are its filters along axis 0.
    """
    rows = array.reshape(array.shape[0], -1)
    units = rows if array.ndim > 2 else rows.T
    return len(units) if len(units) > 1 and bool(np.all(units == units[:1])) else 0


def _begin(settings: Settings) -> Look:
    steps, first, seen, step = settings["num_steps"], b"", 0, -1

    def look(sight: Sight) -> Finding | None:
        nonlocal first, seen, step
        if len(sight.spec.shape) < 2 or not sight.size:
            return None
        units = _identical(sight.array)
        if not units:
            seen = 0
            return None
        now = digest(sight.array)
        first = first or now
        seen += sight.step != step
        step = sight.step
        if seen <= steps:
            raise needs_steps(steps + 1, seen)
        if now == first:
            return None  # it is not trained so far, which other rules report
        return Finding(
            f"all {units} units have had the same weights for {seen} steps: they were "
            "initialised identically, and their gradients are identical, too",
            {"num_steps": seen, "units": units},
        )

    return look


_ALIKE = [np.full((2, 3), value) for value in (0.5, 0.4, 0.3, 0.2)]

register(
    Rule(
        "units_identical",
        "all units of a layer have the same weights although it is trained",
        per_value(_begin),
        ("weights",),
        needs=frozenset({"values", "history"}),
        parameters=(count("num_steps", 3, "steps to wait", unit="steps", low=1),),
        lasting=True,
        explains=True,
        suits=trains_weights("units that are initialised identically stay identical"),
        examples=(
            Example(_ALIKE, (3, 4), {"num_steps": 2}),
            Example([np.zeros((2, 3))] * 4, (), {"num_steps": 1}, about="it is not trained"),
            Example([np.zeros((2, 2)), np.eye(2), np.eye(2) / 2], (), {"num_steps": 1}),
            Example([np.ones((4, 1)), np.ones((4, 1)) / 2], (), {"num_steps": 1},
                    about="a single unit"),
        ),
    )
)  # fmt: skip
