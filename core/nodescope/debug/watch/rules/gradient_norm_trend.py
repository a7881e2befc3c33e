"""The norm of a gradient departs from its recent mean: it explodes, or it vanishes."""

from __future__ import annotations

import math
from collections import deque

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
    number,
    per_value,
)


def _begin(settings: Settings) -> Look:
    steps, grows, falls = settings["num_steps"], settings["factor_gt"], settings["factor_lt"]
    norms: deque[float] = deque(maxlen=steps)
    steps_seen = 0

    def look(sight: Sight) -> Finding | None:
        nonlocal steps_seen
        norm = sight.summary.norm
        steps_seen += 1
        if norm is None:
            return None  # no finite element, which the overflow rules report
        usual = sum(norms) / steps if len(norms) == steps else 0.0
        if math.isfinite(norm):
            norms.append(norm)
        if steps_seen <= steps:
            raise needs_steps(steps + 1, steps_seen)
        if not usual or falls <= norm / usual <= grows:
            return None
        ratio = norm / usual
        words = f"more than {grows:g}" if ratio > grows else f"less than {falls:g}"
        return Finding(
            f"its norm is {norm:.6g}, {ratio:.6g} times the mean of the previous {steps} steps "
            f"({usual:.6g}), {words}",
            {"factor_gt" if ratio > grows else "factor_lt": ratio},
        )

    return look


register(
    Rule(
        "gradient_norm_trend",
        "the norm of a weight's gradient is far above or below its mean over the previous steps",
        per_value(_begin),
        ("weight_gradients",),
        needs=frozenset({"summary", "history"}),
        parameters=(
            count("num_steps", 5, "number of previous steps to compare with", unit="steps", low=1),
            number("factor_gt", 10.0, "hit above this multiple", low=1),
            number("factor_lt", 0.1, "hit below this fraction", low=0, high=1),
        ),
        examples=(
            Example([[1.0], [1.0], [10.0], [100.0], [0.1]], (4, 5), {"num_steps": 2}),
            Example([[3.0, 4.0]] * 5 + [[30.0, 40.0], [33.0, 44.0]], ()),
            Example([[0.0], [5.0]], (), {"num_steps": 1}, about="there is no ratio to zero"),
        ),
    )
)
