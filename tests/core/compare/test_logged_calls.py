"""Logged calls of two runs: the first that differs, and how it differs."""

from __future__ import annotations

import pytest

from nodescope.compare.logged_calls import OtherCall, first_other_call, without_arrays
from nodescope.ir.differences import CallLog, LoggedCall

Row = tuple[int, int, int, int]
"""Function, step, and the digests of arguments and result."""


def log(*rows: Row) -> CallLog:
    return CallLog(("f", "g"), tuple(LoggedCall(*row, row[3] > 0) for row in rows))


@pytest.mark.parametrize(
    ("eager", "compiled", "expected"),
    [
        ([(0, 1, 5, 6)], [(0, 1, 5, 6)], None),
        ([(0, 1, 5, 6), (0, 1, 7, 8)], [(0, 1, 7, 8), (0, 1, 5, 6)], None),
        ([(0, 1, 5, 6), (1, 1, 5, 9)], [(1, 1, 5, 9), (0, 1, 5, 6)], None),
        ([(0, 1, 5, 6)], [(0, 1, 5, 7)], OtherCall("f", 1, 1, "result")),
        ([(0, 1, 5, 6)], [(0, 1, 4, 7)], OtherCall("f", 1, 1, "given")),
        ([(0, 1, 5, 6), (0, 2, 5, 6)], [(0, 1, 5, 6)], OtherCall("f", 2, 2, "missing")),
        ([(0, 2, 5, 6), (1, 1, 5, 6)], [(0, 2, 5, 7), (1, 1, 5, 7)],
         OtherCall("g", 1, 1, "result")),
        ([(0, 1, 5, 6), (0, 1, 5, 6)], [(0, 1, 5, 6), (0, 1, 5, 7)],
         OtherCall("f", 1, 2, "result")),
    ],
)  # fmt: skip
def test_the_first_other_call(
    eager: list[Row], compiled: list[Row], expected: OtherCall | None
) -> None:
    assert first_other_call(log(*eager), log(*compiled)) == expected


def test_functions_that_give_no_arrays() -> None:
    assert without_arrays(log((0, 1, 5, 6), (1, 1, 5, 0))) == {"g"}
