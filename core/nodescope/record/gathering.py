"""How long the writer waits for more records before it writes a batch."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from nodescope.record.record_queue import RecordQueue

SLICE_S: Final = 0.025

_AT_ONCE: Final = 5
"""The slices of a wait. Much may be queued meanwhile, and a page may be opened."""


class Patience(NamedTuple):
    """Numbers of slices of time.

    Attributes:
        first: Before the first batch, which shows early what the program runs.
        followed: At most, while a page or a debugger is connected.
        most: At most: each batch takes the processor, and Python's lock, from the program.
        open: Whether a batch of elements stays open for so long while the program computes more.
    """

    first: int
    followed: int
    most: int
    open: bool = False


class Gathering:
    """The waits of a writer. Each is twice as long as the one before, up to a limit.

    Args:
        queue: The queue that fills meanwhile.
        patience: The limits.

    Attributes:
        followed: Whether a page or a debugger is connected.
    """

    def __init__(self, queue: RecordQueue, patience: Patience) -> None:
        self._queue, self._patience = queue, patience
        self._slices = patience.first
        self.followed = False

    def wait(self) -> None:
        """Wait for a batch to grow; a stop that waits for the batch ends this at once."""
        slices = 0
        self._queue.gathers = True
        while slices < min(self._slices, self._most):
            # Each wait interrupts the program.
            wait = min(_AT_ONCE, min(self._slices, self._most) - slices)
            slices += wait
            if self._queue.hurry.wait(wait * SLICE_S) or self._queue.queued > self._queue.plenty:
                break
        self._slices = min(2 * self._slices, self._patience.most)
        self._queue.gathers = False

    @property
    def opens(self) -> bool:
        """Whether a batch of elements may stay open."""
        return self._patience.open and not self.followed

    def more(self, since: float) -> bool:
        """Whether a batch that was begun at a time takes more records; if none is queued, waits for
        one for a moment.
        """
        end = since + SLICE_S * self._most
        if not self.opens or self._queue.hurry.is_set() or time.monotonic() >= end:
            return False
        if not self._queue.records:
            self._queue.hurry.wait(SLICE_S)
        return bool(self._queue.records)

    @property
    def _most(self) -> int:
        """The limit now: a page may be opened during a wait."""
        return self._patience.followed if self.followed else self._patience.most
