"""Loss progress: how far the losses of a run have fallen, for rules that judge learning.

Invariant: only finite losses of one element count, with which a backward pass could begin.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

from nodescope.debug.watch.observation import Sight

_FIRST: Final = 3
_LATEST: Final = 5


class _Course:
    """One loss: its first and its latest values."""

    __slots__ = ("first", "latest", "lowest", "seen")

    def __init__(self) -> None:
        self.first: list[float] = []
        self.latest: deque[float] = deque(maxlen=_LATEST)
        self.lowest = math.inf
        self.seen = 0


class LossProgress:
    """The course of the losses that a rule has seen, from the first steps to the latest."""

    def __init__(self) -> None:
        self._courses: dict[int, _Course] = {}

    def take(self, sight: Sight) -> None:
        """Take in a loss. Raises `MissingData`."""
        summary = sight.summary
        if sight.size != 1 or summary.mean is None or not math.isfinite(summary.mean):
            return
        course = self._courses.setdefault(sight.value, _Course())
        course.seen += 1
        course.latest.append(summary.mean)
        course.lowest = min(course.lowest, summary.mean)
        if len(course.first) < _FIRST:
            course.first.append(summary.mean)

    @property
    def left(self) -> float | None:
        """The remaining share of the loss that has fallen the most.

        This is the mean of its latest values divided by the mean of its first ones. None if there
        is nothing to compare: no loss, too few values, or only losses that were negative.
        """
        shares = [
            sum(course.latest) / len(course.latest) / (sum(course.first) / len(course.first))
            for course in self._courses.values()
            if course.seen > _FIRST and course.lowest >= 0 and sum(course.first) > 0
        ]
        return min(shares) if shares else None

    @property
    def losses(self) -> int:
        """The number of losses seen."""
        return len(self._courses)
