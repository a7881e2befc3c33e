"""Pending arrays: full arrays still to be written, whose executions are written already.

A stop waits only for the execution where it stopped; its elements may follow a moment later.

Invariant: used by the recorder's thread only, except for `nbytes` and `many`; oldest first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from nodescope.events import Array

MOST_BYTES: Final = 8 << 20
"""Limit of bytes written at once; a stop may have to wait for them."""


class PendingArrays:
    """Arrays with their value and seq.

    Attributes:
        nbytes: Total size of the waiting arrays.
    """

    def __init__(self) -> None:
        self._items: deque[tuple[int, int, Array, bool]] = deque()
        self.nbytes = 0

    @property
    def many(self) -> int:
        """The number of waiting arrays."""
        return len(self._items)

    def add(self, arrays: Iterable[tuple[int, int, Array]], *, ours: bool) -> None:
        """Add arrays; the memory of those in ``ours`` is reused once they are written."""
        for value, seq, array in arrays:
            self._items.append((value, seq, array, ours))
            self.nbytes += array.nbytes

    def first(self) -> list[tuple[int, int, Array]]:
        """The arrays to write next: at least one, not much more than `MOST_BYTES`."""
        batch: list[tuple[int, int, Array]] = []
        nbytes = 0
        for value, seq, array, _ in self._items:
            batch.append((value, seq, array))
            nbytes += array.nbytes
            if nbytes > MOST_BYTES:
                break
        return batch

    def paid(self, count: int) -> list[Array]:
        """Remove the first ``count`` arrays, which have been written; return those that can be
        reused.
        """
        written = [self._items.popleft() for _ in range(count)]
        self.nbytes -= sum(item[2].nbytes for item in written)
        return [array for _, _, array, ours in written if ours]

    def drop(self) -> int:
        """Drop all waiting arrays; return their number."""
        count = len(self._items)
        self._items.clear()
        self.nbytes = 0
        return count
