"""Shutdown: how long the end of a program waits for its recording.

Invariant: the wait ends after ``still_s`` without progress, and continues as long as a slow disk
makes progress; it can be interrupted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from nodescope.record.queued import SEVERAL, Queued, QueuedOutputs, QueuedRecord

ANNOUNCED_S: Final = 2.0
"""The wait after which the user is told, and how to end it: Ctrl-C."""
STILL_S: Final = 20.0
"""The wait without progress: longer than a busy disk, or a machine that is paused, stands still."""
PATIENT_S: Final = 60.0
"""The wait without progress of a program that waits for its recording, such as a checked one."""
MOST_S: Final = 120.0
"""Upper limit of the wait: a disk that exceeds it writes less than a MiB per second."""
FOLDING_S: Final = 20.0
"""The wait for SQLite to merge the log; nothing is lost if that does not finish."""
LEAVING_S: Final = 0.5
"""The wait for the writer to end after the rest has been dropped."""


def wait_for(
    thread: threading.Thread,
    written: Callable[[], float],
    slow: Callable[[], None],
    *,
    still_s: float = STILL_S,
    most_s: float = MOST_S,
) -> bool:
    """Wait for a writer to end while it makes progress.

    Args:
        thread: The writer.
        written: A measure of progress: only whether it changes matters.
        slow: Called once if the writer takes longer than `ANNOUNCED_S` and the wait continues.
        still_s: The longest wait without progress.
        most_s: The longest wait in total.

    Returns:
        Whether the writer has ended.
    """
    end = time.monotonic() + most_s
    announced = False
    known, still = written(), 0.0
    while True:
        left = min(ANNOUNCED_S, still_s - still, end - time.monotonic())
        if left > 0:
            thread.join(left)
        if not thread.is_alive():
            return True
        before, known = known, written()
        still = still + left if known == before else 0.0
        if left <= 0 or still >= still_s:
            return False
        if not announced:
            announced = True
            slow()


class UnwrittenRest:
    """Counts of records not written at the end of a recording."""

    def __init__(self) -> None:
        self.executions = self.arrays = self.nbytes = 0

    def add(self, executions: int, arrays: int, nbytes: int) -> None:
        """Count omitted records; ``nbytes`` is the size of their elements."""
        self.executions += executions
        self.arrays += arrays
        self.nbytes += nbytes

    def __str__(self) -> str:
        counts = ((self.executions, "execution"), (self.arrays, "array"))
        parts = [f"{count:,} {name}{'s'[: count != 1]}" for count, name in counts if count]
        size = f" ({self.nbytes / (1 << 20):,.1f} MiB)" if self.nbytes else ""
        return " and ".join(parts) + size if parts else "nothing but its last lines"


def unwritten(records: Iterable[Queued]) -> UnwrittenRest:
    """What would be missing if these records were not written."""
    left = UnwrittenRest()
    for item in records:
        if isinstance(item, QueuedOutputs) and item.lot.keep:
            left.add(item.many, item.lot.outputs, item.lot.copied)
        elif isinstance(item, SEVERAL):
            left.add(item.many, 0, 0)
        elif not isinstance(item, QueuedRecord):
            arrays = item.outputs if item.keep_arrays else ()
            left.add(1, len(arrays), sum(array.nbytes for _, array in arrays))
    return left
