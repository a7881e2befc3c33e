"""The thirteen predicates of the old TensorBoard debugger, over one summary each."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import COMPARISONS, STATISTICS, compared, nonfinite
from nodescope.debug.watch.observation import Sight
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, number, plain

_NAN, _INF = float("nan"), float("inf")

# The steps of these that each predicate hits.
_STEPS = [[1.0], [_NAN, 1.0], [_INF, 1.0], [_NAN, -_INF], [3], []]
_NONFINITE = (
    ("inf_or_nan", True, True, "NaN or Inf", (2, 3, 4)),
    ("inf", False, True, "Inf", (3, 4)),
    ("nan", True, False, "NaN", (2, 4)),
)
# The steps that the comparisons hit above and below 1.
_COMPARED = (
    ("max", "max", [[0.0, 2.0], [0.0, 0.5], [-2.0, 1.0]], (1,), (2,)),
    ("min", "min", [[2.0, 3.0], [0.0, 5.0], [1.0, 9.0]], (1,), (2,)),
    ("mean", "mean", [[0.0, 3.0], [0.0, 1.0], [0.0, 2.0]], (1,), (2,)),
    ("range", "max_min", [[0.0, 3.0], [5.0, 5.5], [4.0, 5.0]], (1,), (2,)),
    ("std", "std", [[0.0, 4.0], [0.0, 1.0], [0.0, 2.0]], (1,), (2,)),
)


def _compared(sight: Sight, settings: Settings, *, statistic: str, comparison: str) -> (
    Finding | None
):  # fmt: skip
    threshold = settings["threshold"]
    true, actual = compared(sight, f"{statistic}_{comparison}", threshold)
    if not true or actual is None:
        return None
    words, relation = STATISTICS[statistic][0], COMPARISONS[comparison][0]
    return Finding(f"{words} is {actual:.6g}, {relation} {threshold:g}", {"threshold": actual})


def _nonfinite_rule(name: str, nan: bool, inf: bool, elements: str, hits: tuple[int, ...]) -> Rule:
    return Rule(
        name,
        f"a value has {elements} elements",
        plain(lambda sight, settings: nonfinite(sight, nan=nan, inf=inf)),
        origin="TensorBoard",
        examples=(Example(_STEPS, hits),),
    )


def _compared_rule(
    name: str, statistic: str, comparison: str, steps: list[list[float]], hits: tuple[int, ...]
) -> Rule:
    words, relation = STATISTICS[statistic][0], COMPARISONS[comparison][0]
    return Rule(
        f"{name}_{comparison}",
        f"{words} of a value is {relation} a threshold",
        plain(
            lambda sight, settings: _compared(
                sight, settings, statistic=statistic, comparison=comparison
            )
        ),
        parameters=(number("threshold", None, "the threshold", required=True),),
        origin="TensorBoard",
        examples=(Example([*steps, [_NAN], []], hits, {"threshold": 1}),),
    )


register(
    *(_nonfinite_rule(*row) for row in _NONFINITE),
    *(
        _compared_rule(name, statistic, comparison, steps, hits)
        for name, statistic, steps, above, below in _COMPARED
        for comparison, hits in (("gt", above), ("lt", below))
    ),
)
