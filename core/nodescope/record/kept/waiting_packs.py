"""Waiting packs: whole arrays that wait in memory before they are written.

A program that computes more than fits into the byte budget replaces its arrays again and again. If
nobody looks at them meanwhile, those that were replaced need never be written. So packs wait: until
somebody reads the recording, the program stops or ends, or for a given time.

Invariant: packs are taken and written on the recorder's thread only; `want` and `attended` are
called on others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from nodescope.record.files.disk_space import Omit
from nodescope.record.kept.stored_arrays import StoredArrays
from nodescope.record.rows import Dropped
from nodescope.record.writer import Writer

MOST_BYTES: Final = 256 << 20
"""Upper limit of what waits."""

MOST_S: Final = 2.0
"""The longest wait, by default: after ``kill -9``, arrays of this time are missing."""

AT_ONCE_BYTES: Final = 8 << 20
"""About as much is written at once, as a stop may have to wait for it."""

MOST_AT_ONCE_BYTES: Final = 128 << 20
"""The same at the end of the run, when nobody waits and each commit waits for the disk."""


class WaitingPacks:
    """When the packs of a recording are due.

    Args:
        arrays: The arrays of the recording.
        most_s: The longest wait in seconds; may be infinite.
        clock: Gives the time in seconds.

    Attributes:
        many, nbytes: The number and size of the arrays that wait.
        wanted: Everything that executions up to this seq produced is due.
    """

    def __init__(
        self,
        arrays: StoredArrays,
        most_s: float = MOST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._arrays, self._most_s, self._clock = arrays, most_s, clock
        self._oldest: tuple[int, float] | None = None
        self.wanted = 0
        self.many = self.nbytes = 0
        self.attended(False)

    def attended(self, somebody: bool) -> bool:
        """Note whether somebody follows the run: then nothing waits. Returns whether it is news."""
        before = self._arrays.most_waiting
        self._arrays.most_waiting = 0 if somebody else MOST_BYTES
        return self._arrays.most_waiting != before

    def want(self, seq: int) -> None:
        """Make everything that executions up to ``seq`` produced due."""
        self.wanted = max(seq, self.wanted)

    def settle(
        self, writer: Writer, seq: int, time_ns: int, dropped: Dropped, omit: Omit
    ) -> Dropped:
        """Write the oldest packs in one transaction; if that fails, the call can be repeated.

        Args:
            writer: Writes them.
            seq, time_ns: The last record in the file, and its time.
            dropped: Counts so far.
            omit: Unless nothing is left out, the packs are dropped.

        Returns:
            The counts after the commit.
        """
        writer.begin()
        most = AT_ONCE_BYTES if writer.logs else MOST_AT_ONCE_BYTES
        if omit:
            packs = self._arrays.drop_waiting(most)
            dropped = dropped.plus(Dropped(sum([pack.arrays for pack in packs])))
            if packs and omit != Omit.EXECUTIONS:
                writer.flag_unwritten(packs[0].first_seq, packs[-1].last_seq)
        else:
            dropped = dropped.plus(Dropped(self._arrays.write_waiting(most)))
        writer.commit(seq, time_ns, dropped)
        return dropped

    def drop(self) -> int:
        """Drop everything that waits; return the number of arrays."""
        packs = self._arrays.drop_waiting(self._arrays.waiting_bytes)
        self.committed()
        return sum([pack.arrays for pack in packs])

    def committed(self) -> None:
        """Take note of what waits after a commit."""
        self._oldest = self._arrays.oldest
        self.many, self.nbytes = self._arrays.waiting, self._arrays.waiting_bytes

    def waits(self, seq: int | None = None) -> bool:
        """Whether arrays wait that are wanted, or that executions up to ``seq`` produced."""
        oldest = self._oldest
        return oldest is not None and oldest[0] <= (self.wanted if seq is None else seq)

    def due_in(self) -> float | None:
        """In how many seconds the oldest pack is due; None if none waits, or none ever is."""
        if self._oldest is None:
            return None
        if self.waits():
            return 0.0
        left_s = self._oldest[1] + self._most_s - self._clock()
        return None if left_s == math.inf else max(0.0, left_s)
