"""MindInsight's operator overflow: where NaN and Inf are born of finite numbers."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import nonfinite
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, Unasked, plain
from nodescope.debug.watch.sight import Sight


def _look(sight: Sight, settings: Settings) -> Finding | None:
    node = sight.node
    if node.family == "leaf" or not (sight.summary.nan_count or sight.summary.inf_count):
        return None
    unknown: Unasked | None = None
    ranges = []
    for seen in sight.inputs:
        try:
            summary = seen.summary
        except Unasked as error:
            unknown = error
            continue
        if summary.nan_count or summary.inf_count:
            return None  # Handed on, not born here.
        if summary.min is not None and summary.max is not None:
            ranges.append(f"[{summary.min:.6g}, {summary.max:.6g}]")
    if unknown is not None:
        raise Unasked(f"of an input: {unknown}")
    told = f" of finite inputs in {' and '.join(ranges)}" if ranges else ""
    found = nonfinite(sight, before=f"{node.op} makes ")
    return None if found is None else Finding(found.text + told, found.actual)


_NAN, _INF = float("nan"), float("inf")

register(
    Rule(
        "operator_overflow",
        "a node makes NaN or Inf of inputs that are all finite",
        plain(_look),
        needs=frozenset({"summary", "inputs"}),
        origin="MindInsight",
        aliases=("OO",),
        examples=(
            Example(
                [
                    ([_INF, 0.0], [0.0, 1.0]),
                    ([_INF, 0.0], [_INF, 1.0]),
                    ([_NAN], [-1.0], [2.0]),
                    ([1.0], [2.0]),
                ],
                (1, 3),
                about="the second hands on what it was given",
            ),
            Example([([1, 2], [3, 4])], ()),
        ),
    )
)
