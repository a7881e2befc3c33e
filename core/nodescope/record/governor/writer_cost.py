"""Writer cost: what writing a recording takes from the program, and how long its thread waited.

Invariant: work for the writer is charged once, when it is requested, even if it is still queued.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from nodescope.record.governor.decisions import Load, price_of_writing
from nodescope.record.governor.node_costs import weight

# The initial rate of writing relative to the price list, and the weight of the past.
_RATE: Final = 4.0
_FADING: Final = 0.7


class WriterCost:
    """Charges the writer's work to the windows that requested it."""

    def __init__(self) -> None:
        # Requested and not written yet: by weight, and by the price list.
        self._asked: deque[tuple[int, float]] = deque()
        self._paid = self._written = 0.0
        self._rate = _RATE
        self._queued = 0

    def charge(self, written: int, queued: int, loads: list[Load]) -> int:
        """The cost of the writing that was requested in a window.

        The queue is written in order, so the measured time belongs to known records.

        Args:
            written: Processor time of the writer in this window.
            queued: Weight of the queue at its end.
            loads: The nodes that ran in it.
        """
        requested = sum(weight(load) for load in loads)
        price = price_of_writing(loads)
        self._asked.append((requested, price))
        done = self._queued + requested - queued
        self._queued = queued
        paid = 0.0
        while self._asked and done > 0:
            weighs, worth = self._asked.popleft()
            if weighs > done:
                share = done / weighs
                self._asked.appendleft((weighs - done, worth * (1 - share)))
                worth *= share
            paid += worth
            done -= weighs
        self._paid += paid
        self._written += written
        if self._paid > 0 and self._written > 0:
            self._rate = self._written / self._paid
        # The past fades: costs change with what is recorded.
        self._paid *= _FADING
        self._written *= _FADING
        return int(price * self._rate)


class IdleTime:
    """The idle time of a thread: an upper bound of its wait for the writer."""

    def __init__(self) -> None:
        self._before = (0, 0)  # a thread, and its processor time

    def since(self, lasted: int) -> int:
        """The idle time of a stretch of ``lasted`` nanoseconds that ends now."""
        me, cpu = threading.get_ident(), time.thread_time_ns()
        before, self._before = self._before, (me, cpu)
        return max(lasted - (cpu - before[1]), 0) if before[0] == me else lasted


def stood(holds: Iterable[tuple[int, int]], since: int, now: int) -> int:
    """How long a debugger held the program in a period; overlapping holds count once."""
    total, until = 0, since
    for start, end in sorted(holds):
        start, end = max(start, until), min(end, now)
        if end > start:
            total += end - start
            until = end
    return total


def own_clock() -> int | None:
    """The clock of the calling thread's processor time, for other threads; None without any."""
    try:
        return time.pthread_getcpuclockid(threading.get_ident())
    except (AttributeError, OSError):
        return None


def read_clock(clock: int | None) -> int | None:
    """Processor time; None if there is no such clock, or its thread is gone."""
    try:
        return None if clock is None else time.clock_gettime_ns(clock)
    except OSError:
        return None
