"""Rows of steps: how the time of a step, or of several consecutive ones, was spent, as integers.

Invariant: the row of several steps always equals `joined` of their own rows, wherever it is stored.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

Part = Literal[
    "forward", "backward", "optimizer", "other", "data", "waiting", "python", "compiling",
    "between", "held",
]  # fmt: skip
PARTS: Final[tuple[Part, ...]] = (
    "forward", "backward", "optimizer", "other", "data", "waiting", "python", "compiling",
    "between", "held",
)  # fmt: skip
"""The first four are operations, by phase. ``python`` is the program's own code and its libraries,
by samples; ``compiling`` is tracing functions and compiling graphs; ``between`` is unattributed
time between operations: Python, and observing."""

Integers = NDArray[np.int64]

# The columns of a row. The time after the last step lasts until the next one begins.
FIRST, LAST, COUNT, BEGIN, END, UNTIL, LEFT_OUT = range(7)
_PART_COLUMNS: Final = slice(7, 7 + len(PARTS))
_OBSERVED_COLUMNS: Final = slice(_PART_COLUMNS.stop, _PART_COLUMNS.stop + len(PARTS))
_AFTER_COLUMNS: Final = slice(_OBSERVED_COLUMNS.stop, _OBSERVED_COLUMNS.stop + len(PARTS))
COLUMNS: Final = _AFTER_COLUMNS.stop
_SUMMED: Final = [COUNT, *range(LEFT_OUT, _AFTER_COLUMNS.start)]
_OF_THE_LAST: Final = [LAST, END, UNTIL, *range(_AFTER_COLUMNS.start, COLUMNS)]


class Stretch(msgspec.Struct, frozen=True):
    """One step or several consecutive ones, or the time after a step and before the next.

    Attributes:
        first, last: The steps.
        start_ns, end_ns: Nanoseconds since the run began, including held time.
        parts: Nanoseconds by `PARTS`; all but ``held`` add up to the duration.
        left_out: Number of steps that were not observed: their operations count as ``between``.
        after: Whether this is the time after step ``last``, such as an evaluation, and not part of
            it.
    """

    first: int
    last: int
    start_ns: int
    end_ns: int
    parts: tuple[float, ...]
    left_out: int = 0
    after: bool = False

    @property
    def duration_ns(self) -> float:
        """Duration without held time."""
        return self.end_ns - self.start_ns - self.parts[-1]


def no_rows() -> Integers:
    """Rows of no steps."""
    return np.zeros((0, COLUMNS), dtype=np.int64)


def step_rows(
    numbers: Integers, spans: tuple[Integers, Integers, Integers], ended: Any, observed: Any,
    parts: Integers, after: Integers,
) -> Integers:  # fmt: skip
    """One row for each step.

    Args:
        numbers, observed: The steps, and whether each was observed.
        spans: The start and end of each step, and the end of the time after it.
        ended: Whether each step has an end of its own.
        parts, after: The known time of the steps, and after them, by `PARTS`.
    """
    rows = np.zeros((len(numbers), COLUMNS), dtype=np.int64)
    begins, ends, until = spans
    seen = np.asarray(observed, dtype=np.int64)
    rows[:, FIRST] = rows[:, LAST] = numbers
    rows[:, COUNT] = 1
    rows[:, BEGIN], rows[:, END], rows[:, UNTIL] = spans
    rows[:, LEFT_OUT] = 1 - seen
    rows[:, _PART_COLUMNS] = _complete(parts, ends - begins)
    rows[:, _OBSERVED_COLUMNS] = rows[:, _PART_COLUMNS] * seen[:, None]
    ran = ended & after[:, :-1].any(axis=1)  # held time alone is not time of the program
    rows[ran, _AFTER_COLUMNS] = _complete(after[ran], (until - ends)[ran])
    return rows


def _complete(parts: Integers, lengths: Integers) -> Integers:
    """The parts, with the unattributed time added."""
    parts = parts.copy()
    between = PARTS.index("between")
    parts[:, between] = np.maximum(lengths - parts.sum(axis=1) + parts[:, between], 0)
    return parts


def joined(rows: Integers, groups: Any) -> Integers:
    """Consecutive rows merged into groups, each from its place up to the next group's."""
    firsts = np.asarray(groups)
    lasts = np.append(firsts[1:], len(rows)) - 1
    result: Integers = rows[firsts]
    result[:, _SUMMED] = np.add.reduceat(rows[:, _SUMMED], firsts, axis=0)
    result[:, _OF_THE_LAST] = rows[lasts][:, _OF_THE_LAST]
    return result


def stretches(rows: Integers) -> list[tuple[Stretch, Stretch | None]]:
    """The stretches in some rows, each with the time after its last step."""
    answer: list[tuple[Stretch, Stretch | None]] = []
    for row in rows.tolist():
        first, last, end, until = row[FIRST], row[LAST], row[END], row[UNTIL]
        step = Stretch(first, last, row[BEGIN], end, tuple(row[_PART_COLUMNS]), row[LEFT_OUT])
        ran = tuple(row[_AFTER_COLUMNS])
        after = Stretch(last, last, end, until, ran, after=True) if any(ran) else None
        answer.append((step, after))
    return answer


def observed_parts(rows: Integers) -> Integers:
    """Nanoseconds by `PARTS` of all observed steps together."""
    total: Integers = rows[:, _OBSERVED_COLUMNS].sum(axis=0)
    return total
