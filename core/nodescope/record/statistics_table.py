"""Statistics of all values at one moment, from table ``summary``.

Invariant: one row for each value, the latest at or before the moment; nothing but numbers is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodescope.record.measured.measured_table import MeasuredTable

_LATEST = (
    "SELECT s.value, s.seq, s.shape, s.zero_count, s.norm "
    "FROM (SELECT DISTINCT id FROM value) AS v "
    "CROSS JOIN summary AS s ON s.value = v.id AND s.seq = "
    "(SELECT max(seq) FROM summary WHERE value = v.id AND seq <= ?) ORDER BY s.value"
)


@dataclass(frozen=True, slots=True)
class ValueStatistics:
    """Some statistics of one value.

    Attributes:
        elements, zeros: Numbers of elements, and of those that are zero.
        norm: The Euclidean norm of its finite elements; None without any.
    """

    value: int
    elements: int
    zeros: int
    norm: float | None


class StatisticsTable:
    """Reads table ``summary`` across all values.

    Args:
        ask: Runs a query on the file.
        measured: Statistics that are not in the table.
    """

    def __init__(self, ask: Callable[..., list[tuple[Any, ...]]], measured: MeasuredTable) -> None:
        self._ask, self._measured = ask, measured

    def at(self, seq: int) -> list[ValueStatistics]:
        """The latest statistics of each value at or before a seq, by value."""
        latest = {row[0]: row for row in self._ask(_LATEST, seq)}
        for row in self._measured.all_latest(seq):
            before = latest.get(row[0])
            if before is None or before[1] < row[1]:
                latest[row[0]] = row
        return [
            ValueStatistics(value, _elements(shape), zeros, norm)
            for value, _, shape, zeros, norm in sorted(latest.values(), key=lambda row: row[0])
        ]


def _elements(shape: str) -> int:
    """The number of elements of a shape as in the file; 0 if it is damaged."""
    sizes = shape.split(",") if shape else []
    return math.prod(map(int, sizes)) if all(map(str.isdecimal, sizes)) else 0
