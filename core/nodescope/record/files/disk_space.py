"""Disk space: how records are written while the disk is full.

A log that cannot grow is merged into the recording, and written again from its start. While
nothing can be written, records wait in memory. When that does not help, less is written:
first the elements of arrays are left out, then executions with their statistics. For the structure,
the steps, the losses and the end of the run, space was set aside at the start.

Invariant: a batch is written or kept; nothing unwritten is ever acknowledged, and everything left
out is counted.
"""

from __future__ import annotations

import contextlib
import enum
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from nodescope.record.files.descriptors import Held, intact

T = TypeVar("T")

RETRY_S: Final = 0.5
PATIENCE_S: Final = 2.0
"""After waiting for space this long, less is written."""

_FULL: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_WRITE,  # a quota, or a limit of file sizes
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }
)
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})  # somebody holds the file


class Omit(enum.IntEnum):
    """What a batch leaves out."""

    NOTHING = 0
    ELEMENTS = 1
    EXECUTIONS = 2
    """With their statistics, elements and the program's output."""


class Reserve:
    """Disk space for the end of a recording: a file without a name, removed with the process.

    Args:
        folder: Of the recording.
    """

    BYTES: Final = 2 << 20
    # No more than one part in so many of what is free.
    _SHARE: Final = 16

    def __init__(self, folder: Path) -> None:
        self._held: tuple[Held, ...] = ()
        descriptor = -1
        try:
            flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
            descriptor = os.open(folder, flags, 0o600)
            free = os.fstatvfs(descriptor)
            size = min(self.BYTES, free.f_bavail * free.f_frsize // self._SHARE)
            os.posix_fallocate(descriptor, 0, max(size, 1))
            at = os.fstat(descriptor)
            self._held = ((descriptor, at.st_dev, at.st_ino),)
        except (OSError, AttributeError):  # a system or a file system that does not have it
            if descriptor >= 0:
                os.close(descriptor)

    def release(self) -> None:
        """Give the space back; nothing is done a second time, or if the program closed it."""
        blocks, self._held = self._held, ()
        if blocks and intact(blocks):
            with contextlib.suppress(OSError):
                os.ftruncate(blocks[0][0], 0)  # a forked child may hold it open, too
                os.close(blocks[0][0])


class DiskSpaceRetry:
    """Tries a write until it succeeds, with less if need be.

    Args:
        on_full: Called with a line when waiting begins.
        back: Called when everything can be written again.
        on_wait: Called when a write begins to be waited for.
        merge_log: Merges the log into the file, so that its space is written again; whether there
            is any.
        hurried: Whether something is to be written soon, even with less.
        ending: Whether the program has ended, so that no space is waited for.

    Attributes:
        missing: Whether the last write left something out, or is being waited for.
        stuck: Whether a write is being waited for.
    """

    def __init__(
        self,
        on_full: Callable[[str], None],
        back: Callable[[], None],
        on_wait: Callable[[], None],
        merge_log: Callable[[], bool],
        *,
        hurried: Callable[[], bool],
        ending: Callable[[], bool],
    ) -> None:
        self._told = on_full
        self._back = back
        self._on_wait = on_wait
        self._merge_log = merge_log
        self._hurried = hurried
        self._ending = ending
        self._over = threading.Event()
        self._omit = Omit.NOTHING
        self._whole_again = 0.0  # when to try without leaving anything out
        # There is space again once as much was written as failed to be.
        self._failed_bytes = self._written_bytes = 0
        self.missing = self.stuck = False

    def leave(self) -> None:
        """Stop waiting: the next failing write is not repeated."""
        self._over.set()

    def write(self, attempt: Callable[[Omit], T], undo: Callable[[], None], nbytes: int) -> T:
        """Repeat ``attempt()``, with less in it after a while, until it succeeds.

        Args:
            attempt: Writes, and leaves out what it is told.
            undo: Called after an attempt that failed.
            nbytes: How much it is to write, if it leaves nothing out.

        Raises:
            NoSpace: The program has ended, and there is no space even for a little.
            sqlite3.Error: It failed in another way, or nobody waits any more.
        """
        since = time.monotonic()
        omit = self._omit if since < self._whole_again else Omit.NOTHING
        merged = False
        while True:
            try:
                written = attempt(omit)
            except sqlite3.Error as error:
                undo()
                code = getattr(error, "sqlite_errorcode", None)
                full = code in _FULL
                if not full and code not in _BUSY:
                    raise
                if full and not merged:
                    merged = True
                    if self._merge_log():
                        continue
                now = time.monotonic()
                if not self.missing:
                    self.missing = True
                    self._told(
                        f"the recording is paused, your program continues: {error}; it "
                        "resumes when there is space; what cannot be kept until then is counted"
                    )
                if full and omit == Omit.NOTHING:
                    self._whole_again = now + RETRY_S
                    self._failed_bytes, self._written_bytes = nbytes, 0
                if full and (self._over.is_set() or self._ending()):
                    if omit == Omit.EXECUTIONS:
                        raise NoSpace(str(error)) from error
                    omit = Omit(omit + 1)
                    continue
                if full and (now - since >= PATIENCE_S or self._hurried()):
                    if omit < Omit.EXECUTIONS:
                        omit = Omit(omit + 1)
                        continue
                    omit = Omit.NOTHING
                if not self.stuck:
                    self.stuck = True
                    self._on_wait()
                if self._over.wait(RETRY_S) and not full:
                    raise
            else:
                self.stuck = False
                self._omit = omit
                if omit == Omit.NOTHING:
                    self._written_bytes += nbytes
                    if self.missing and self._written_bytes >= self._failed_bytes:
                        self.missing = False
                        self._back()
                return written


class NoSpace(Exception):
    """The disk is full at the end of the program."""
