"""Room: what a writer does while the disk is full.

Invariant: a batch is written or kept; nothing is said to be written that is not.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from nodescope.record.rows import Dropped

T = TypeVar("T")

RETRY_S: Final = 0.5

_WAITED_FOR: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_WRITE,  # a quota, or a limit of file sizes
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_BUSY,  # somebody holds the file for long
        sqlite3.SQLITE_LOCKED,
    }
)


class Room:
    """Tries a write until it succeeds.

    Args:
        told: Called with a line when waiting begins.
        back: Called when a write succeeded after that.

    Attributes:
        missing: Whether a write is being waited for.
    """

    def __init__(self, told: Callable[[str], None], back: Callable[[], None]) -> None:
        self._told = told
        self._back = back
        self._over = threading.Event()
        self.missing = False

    def leave(self) -> None:
        """Wait no longer: the next write that fails is the last one."""
        self._over.set()

    def write(self, attempt: Callable[[], T], undo: Callable[[], None]) -> T:
        """``attempt()``, again and again while there is no room.

        Raises:
            sqlite3.Error: It failed in another way, or nobody waits any more.
        """
        while True:
            try:
                written = attempt()
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", None) not in _WAITED_FOR:
                    raise
                undo()
                if not self.missing:
                    self.missing = True
                    self._told(
                        f"the recording is paused, your program continues: {error}; it "
                        "resumes when there is space, and what did not fit into memory is counted"
                    )
                if self._over.wait(RETRY_S):
                    raise
            else:
                if self.missing:
                    self.missing = False
                    self._back()
                return written


def lost(before: Dropped, now: Dropped) -> str:
    """What is missing since a moment, in words."""
    counts = (
        (now.executions - before.executions, "execution"),
        (now.summaries - before.summaries, "statistic"),
        (now.blobs - before.blobs, "array"),
    )
    said = [f"{count:,} {name}{'s'[: count != 1]}" for count, name in counts if count]
    return f"recording resumed; missing: {', '.join(said) or 'nothing'}"
