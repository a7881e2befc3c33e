"""The governor's messages for the user."""

from __future__ import annotations

import pytest

from nodescope.record.governor.reports import ended
from nodescope.record.rows import Governed

HEAD = "slowdown about 2.5×, limit 2×: over the limit"


@pytest.mark.parametrize(
    ("governed", "line"),
    [
        (Governed(limit=2, slowdown=1.234), "slowdown about 1.23×, limit 2×. Nothing was left out"),
        (
            Governed(limit=2, slowdown=2.5, because="a breakpoint is set"),
            HEAD + ", since a breakpoint is set. Nothing was left out",
        ),
        (
            Governed(
                limit=2, slowdown=2.5, measured=True, steps=1200, steps_left_out=1100, calls=1,
                calls_left_out=1,
            ),
            "slowdown about 2.5× (measured against unobserved steps), limit 2×: over the limit. "
            "Left out: 1,100 of 1,200 steps, 1 of 1 call outside of steps",
        ),
        (
            Governed(
                limit=2, slowdown=2.5, stuck=True, lowered=3, arrays=4, summaries=5, executions=1
            ),
            HEAD + ", with as little recorded as allowed. Left out, of 3 nodes: elements of 4 "
            "values, statistics of 5 values, 1 execution (counted)",
        ),
    ],
)  # fmt: skip
def test_the_end_is_reported_with_what_was_left_out(governed: Governed, line: str) -> None:
    assert ended(governed) == line
