"""MindInsight's operator overflow: where NaN and Inf arise from finite numbers."""

from __future__ import annotations

from nodescope.debug.watch import register
from nodescope.debug.watch.measures import nonfinite
from nodescope.debug.watch.observation import MissingData, Sight
from nodescope.debug.watch.rule import Example, Finding, Rule, Settings, plain


def _look(sight: Sight, settings: Settings) -> Finding | None:
    node = sight.node
    if node.is_leaf:
        return None
    result = sight.summary
    if not (result.nan_count or result.inf_count):
        return None
    unknown: MissingData | None = None
    ranges = []
    for operand in sight.inputs:
        try:
            summary = operand.summary
        except MissingData as error:
            unknown = error
            continue
        if summary.nan_count or summary.inf_count:
            return None  # passed on, not created here
        if summary.min is not None and summary.max is not None:
            ranges.append(f"[{summary.min:.6g}, {summary.max:.6g}]")
    if unknown is not None:
        raise MissingData(f"for an input, {unknown}")
    origin = f", from finite inputs in {' and '.join(ranges)}" if ranges else ""
    finding = nonfinite(sight, before=f"{node.op} produces ")
    return None if finding is None else Finding(finding.text + origin, finding.actual)


_NAN, _INF = float("nan"), float("inf")

register(
    Rule(
        "operator_overflow",
        "a node produces NaN or Inf from finite inputs",
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
                about="the second node passes on its input",
            ),
            Example([([1, 2], [3, 4])], ()),
        ),
    )
)
