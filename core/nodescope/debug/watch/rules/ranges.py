"""MindInsight's range conditions: how much of a value lies in a range, and how wide it is."""

from __future__ import annotations

import numpy as np

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import share_within, threshold_finding, threshold_parameter
from nodescope.debug.watch.observation import MissingData, Sight, Target
from nodescope.debug.watch.rule import (
    Example,
    Finding,
    Look,
    Rule,
    Setting,
    Settings,
    WatchError,
    number,
    percent,
)

_SHARES = ("range_percentage_lt", "range_percentage_gt")
_WIDTHS = ("max_min_lt", "max_min_gt")


def _begin(settings: Settings) -> Look:
    low, high = settings["range_start_inclusive"], settings["range_end_inclusive"]
    shares = any(settings[name] is not None for name in _SHARES)
    if shares and (low is None or high is None):
        raise WatchError(
            "a range percentage requires a range",
            hint="set range_start_inclusive and range_end_inclusive",
        )
    if shares and low > high:
        raise WatchError(f"the range from {low:g} to {high:g} is empty")

    def look(sight: Sight) -> Finding | None:
        parts: list[str] = []
        actual: dict[str, Setting] = {}
        unasked: MissingData | None = None
        share = None
        if shares:
            try:
                share = share_within(sight, low, high)
            except MissingData as error:
                unasked = error
        for name in _SHARES:
            limit = settings[name]
            if share is None or limit is None:
                continue
            below = name.endswith("lt")
            if share < limit if below else share > limit:
                relation = "below" if below else "above"
                parts.append(
                    f"{share:.6g}% of elements are in [{low:g}, {high:g}], {relation} {limit:g}%"
                )
                actual[name] = share
        wide = threshold_finding(sight, settings, _WIDTHS)
        if wide is not None:
            parts.append(wide.text)
            actual |= wide.actual
        if parts:
            return Finding("; ".join(parts), actual)
        if unasked is not None:
            raise unasked
        return None

    return look


_TABLE: tuple[tuple[str, Target, str, str], ...] = (
    ("tensor_range", "values", "too many or too few elements of a value are in a range", "TR"),
    ("activation_range", "activations", "too many or too few activations are in a range", "AR"),
)
_UNIT = {"range_start_inclusive": 0.0, "range_end_inclusive": 1.0}
_NAN = float("nan")

register(
    *(
        Rule(
            name,
            about,
            _begin,
            (applies,),
            needs=frozenset({"summary", "values"}),
            parameters=(
                number("range_start_inclusive", None, "lower end of the range"),
                number("range_end_inclusive", None, "upper end of the range"),
                percent("range_percentage_lt", None, "hit if a smaller share is in the range"),
                percent("range_percentage_gt", None, "hit if a larger share is in the range"),
                threshold_parameter("max_min_lt"),
                threshold_parameter("max_min_gt"),
            ),
            any_of=(*_SHARES, *_WIDTHS),
            origin="MindInsight",
            aliases=(alias,),
            examples=(
                Example(
                    [[0.5, 2.0], [0.0, 1.0], [0.1, 0.2]], (2, 3),
                    {**_UNIT, "range_percentage_gt": 50},
                ),
                Example(
                    [[0.5, 2.0], [3.0, 2.0], [0.1, _NAN]], (2,),
                    {**_UNIT, "range_percentage_lt": 50},
                ),
                Example([[], [_NAN, _NAN]], (2,), {**_UNIT, "range_percentage_lt": 1}),
                Example(
                    [np.array([complex(np.inf, _NAN), np.inf, 0.5])], (1,),
                    {**_UNIT, "range_end_inclusive": np.inf, "range_percentage_lt": 70},
                    about="what has a NaN part is NaN and in no range",
                ),
                Example([[0, 3], [0, 4]], (2,), {"max_min_gt": 3}),
                Example([[0.0, 3.0], [0.0, 1.0]], (2,), {"max_min_lt": 3}),
            ),
        )
        for name, applies, about, alias in _TABLE
    )
)  # fmt: skip
