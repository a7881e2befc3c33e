"""LossTable: the losses of the training steps, as the recording has them.

Invariant: reads only. SQLite stores NaN as NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from nodescope.record.rows import LossRow

_LAST: Final = (
    "SELECT curve, value FROM loss WHERE row IN (SELECT max(row) FROM loss GROUP BY curve)"
)
_SINCE: Final = (
    "SELECT step, value FROM loss WHERE curve = ?1 AND row > coalesce((SELECT max(row) FROM loss "
    "WHERE curve = ?1 AND abs(value) < 9e999), 0) ORDER BY row LIMIT 1"
)


class LossTable:
    """Reads table ``loss``.

    Args:
        ask: Runs a query on the file.
    """

    def __init__(self, ask: Callable[..., list[tuple[Any, ...]]]) -> None:
        self._ask = ask

    def rows(self) -> list[LossRow]:
        """All rows, in order."""
        rows = self._ask("SELECT seq, step, curve, node, times, value FROM loss ORDER BY row")
        return [
            LossRow(seq, step, curve, node, times, _number(value))
            for seq, step, curve, node, times, value in rows
        ]

    def broken(self) -> list[tuple[int, float]]:
        """Each loss that is not finite at the end of the run: the step in which that began, and the
        value there.
        """
        curves = [curve for curve, value in self._ask(_LAST) if not math.isfinite(_number(value))]
        rows = [row for curve in curves for row in self._ask(_SINCE, curve)]
        return [(step, _number(value)) for step, value in rows]


def _number(value: float | None) -> float:
    return math.nan if value is None else value
