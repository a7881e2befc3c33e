"""Pacing: which batches a worker observes, so that observing at most doubles its time.

Invariant: pure.
"""

from __future__ import annotations

from typing import Final

_OVERHEAD: Final = 1.0  # of the worker's own time
_LATELY: Final = 0.2  # weight of the newest batch in the moving average


class Pacing:
    """The batches of one worker.

    The first batch is observed. The second is not, which measures how long a batch takes by itself.
    After that, a batch is observed whenever the total cost of observing is within the limit.
    """

    def __init__(self) -> None:
        self._batches = 0
        self._plain_ns = 0.0  # moving average over the batches that are not observed
        self._own_ns = self._cost_ns = 0.0
        self._observed: list[float] = []

    def observes(self) -> bool:
        """Whether the next batch is observed."""
        return self._batches != 1 and self._cost_ns <= _OVERHEAD * self._own_ns

    def took(self, nanoseconds: int, *, observed: bool) -> None:
        """Record how long a batch took, and whether it was observed."""
        self._batches += 1
        if not observed:
            known = self._plain_ns or nanoseconds
            self._plain_ns = known + _LATELY * (nanoseconds - known)
            self._own_ns += nanoseconds
        if observed and not self._plain_ns:
            self._observed.append(nanoseconds)
            return
        for took in (*self._observed, *((nanoseconds,) if observed else ())):
            self._own_ns += min(took, self._plain_ns)
            self._cost_ns += max(0.0, took - self._plain_ns)
        self._observed = []
