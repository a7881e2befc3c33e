"""Charging: what writing a recording takes from the program, and how long its thread waited.

Invariant: what is asked of the writer is charged once, when it is asked for, though it may still
lie in the queue.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from nodescope.record.accounts import weight
from nodescope.record.governor import Load, price_of_writing

# What writing costs by the price list before anything was written, and what the past counts.
_RATE: Final = 4.0
_FADING: Final = 0.7


class Charging:
    """The writer's bill."""

    def __init__(self) -> None:
        # What was asked of the writer and is not written yet: by weight, and by the price list.
        self._asked: deque[tuple[int, float]] = deque()
        self._paid = self._written = 0.0
        self._rate = _RATE
        self._queued = 0

    def charge(self, written: int, queued: int, loads: list[Load]) -> int:
        """What writing costs that was asked for in a window.

        The queue is written in order, so it is known what was written with the time it took.

        Args:
            written: Processor time of the writer in this window.
            queued: What waits at its end, by weight.
            loads: What ran in it.
        """
        asked = sum(weight(each) for each in loads)
        price = price_of_writing(loads)
        self._asked.append((asked, price))
        done = self._queued + asked - queued
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
        # The past counts less and less: what costs how much changes with what is recorded.
        self._paid *= _FADING
        self._written *= _FADING
        return int(price * self._rate)


class Idle:
    """How long a thread did not run: the most that it can have waited for the writer."""

    def __init__(self) -> None:
        self._before = (0, 0)  # a thread, and its processor time

    def since(self, lasted: int) -> int:
        """Of a stretch of so long that ends now and began where the last one ended."""
        me, cpu = threading.get_ident(), time.thread_time_ns()
        before, self._before = self._before, (me, cpu)
        return max(lasted - (cpu - before[1]), 0) if before[0] == me else lasted


def stood(held: Iterable[tuple[int, int]], since: int, now: int) -> int:
    """How long a debugger held the program since then; threads are held at the same time."""
    total, until = 0, since
    for start, end in sorted(held):
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
