"""Pacing: which batches a worker observes, so that it takes at most twice its time.

Invariant: pure.
"""

from __future__ import annotations

from typing import Final

_OVERHEAD: Final = 1.0  # of the worker's own time
_LATELY: Final = 0.2  # the weight of the newest batch


class Pacing:
    """The batches of one worker.

    The first is observed, the second is not: it says how long one takes. From then on, one is
    observed whenever what earlier ones cost has been made up for.
    """

    def __init__(self) -> None:
        self._batches = 0
        self._plain_ns = 0.0  # a batch that is not observed, lately
        self._own_ns = self._cost_ns = 0.0
        self._observed: list[float] = []

    def observes(self) -> bool:
        """Whether the next batch is observed."""
        return self._batches != 1 and self._cost_ns <= _OVERHEAD * self._own_ns

    def took(self, nanoseconds: int, *, observed: bool) -> None:
        """Note how long a batch took, and whether it was observed."""
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
