"""MindInsight's thresholds on statistics: too large, too small, vanishing.

Invariant: a table; the rules differ only in what they apply to and in their thresholds.
"""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import threshold_finding, threshold_parameter
from nodescope.debug.watch.observation import Sight, Target
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, count, plain

_LARGE: tuple[str, ...] = ("abs_mean_gt", "max_gt", "min_gt", "mean_gt")
_SMALL: tuple[str, ...] = ("abs_mean_lt", "max_lt", "min_lt", "mean_lt")

_TABLE: tuple[tuple[str, Target, tuple[str, ...], str, tuple[str, ...]], ...] = (
    ("tensor_too_large", "values", _LARGE, "a value is too large", ("TL",)),
    ("weight_too_large", "weights", _LARGE, "a weight is too large", ("WL",)),
    (
        "gradient_too_large", "weight_gradients", _LARGE, "the gradient of a weight is too large",
        ("GL",),
    ),
    ("tensor_too_small", "values", _SMALL, "a value is too small", ("TS",)),
    ("weight_too_small", "weights", _SMALL, "a weight is too small", ("WS",)),
    (
        "gradient_vanishing", "weight_gradients", _SMALL, "the gradient of a weight vanishes",
        ("GV", "grad_vanish"),
    ),
)  # fmt: skip

_NAN, _TINY = float("nan"), 2.0**-30
_EXAMPLES = {
    _LARGE: (
        Example([[3.0, -5.0], [3.0, -3.0]], (1,), {"abs_mean_gt": 3}, about="exactly at the limit"),
        Example([[1.0, 2.5], [1.0, 2.0], [_NAN, 9.0]], (1, 3), {"max_gt": 2}),
        Example([[3.0, 4.0], [2.0, 4.0]], (1,), {"min_gt": 2, "mean_gt": 90}, about="any one"),
        Example([[1, 2], [5, 7]], (2,), {"mean_gt": 2}),
        Example([[_NAN, _NAN], []], (), {"max_gt": -1}, about="nothing finite, no elements"),
        Example([[3 + 4j, 3 + 4j]], (1,), {"abs_mean_gt": 4.9}, about="magnitudes"),
    ),
    _SMALL: (
        Example([[_TINY / 2, -_TINY / 2], [_TINY, -_TINY]], (1,), {"abs_mean_lt": _TINY}),
        Example([[1.0, -2.5], [1.0, -2.0]], (1,), {"min_lt": -2}),
        Example([[1.0, 2.0], [1.0, 1.0]], (2,), {"max_lt": 2, "mean_lt": -9}),
        Example([[True, False], [True, True]], (1,), {"mean_lt": 0.75}),
        Example([[_NAN, _NAN], []], (), {"max_lt": 1}),
    ),
}


def _initialised(sight: Sight, settings: Settings) -> Finding | None:
    first = sight.before is None
    # A bias may begin at zero on purpose.
    if not first or len(sight.spec.shape) < settings["min_axes"]:
        return None
    return threshold_finding(sight, settings, _INITIAL)


_INITIAL = ("zero_percentage_ge", "max_gt", "min_lt")

register(
    *(
        Rule(
            name,
            about,
            plain(lambda sight, settings, names=names: threshold_finding(sight, settings, names)),  # type: ignore[misc]
            (applies,),
            needs=frozenset({"summary", "values"}),
            parameters=tuple(threshold_parameter(statistic) for statistic in names),
            any_of=names,
            origin="MindInsight",
            aliases=aliases,
            examples=_EXAMPLES[names],
        )
        for name, applies, names, about, aliases in _TABLE
    ),
    Rule(
        "weight_initialization",
        "a weight is initialised to all zeros, or with elements that are too large or too small",
        plain(_initialised),
        ("weights",),
        needs=frozenset({"summary", "previous_summary"}),
        parameters=(
            threshold_parameter("zero_percentage_ge", 100),
            threshold_parameter("max_gt"),
            threshold_parameter("min_lt"),
            count("min_axes", 2, "weights with fewer axes (biases) are skipped"),
        ),
        origin="MindInsight",
        aliases=("WI", "initial_weight"),
        examples=(
            Example([[[0.0, 0.0]], [[0.0, 0.0]]], (1,), about="at the beginning only"),
            Example([[[0.0, 0.1]], [[0.0, 0.0]]], ()),
            Example([[0.0, 0.0]], (), about="a bias may begin at zero"),
            Example([[0.0, 0.0]], (1,), {"min_axes": 1}),
            Example([[[0.0, 0.5]]], (1,), {"zero_percentage_ge": 50}),
            Example([[[3.0, 0.5]]], (1,), {"max_gt": 2.5}),
        ),
    ),
)
