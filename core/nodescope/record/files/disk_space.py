"""Disk space: how records are written while the disk is full.

A log that cannot grow is merged into the recording, and written again from its start. While nothing
can be written, records wait in memory. If the disk stays full, less is written: first the elements
of arrays are left out, then executions with their statistics. Space for the structure, the steps,
the losses and the end of the run is reserved at the start.

Invariant: a batch is either written or kept; unwritten records are never acknowledged, and
everything left out is counted.
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
"""After waiting this long for space, less is written."""
CALM_S: Final = 5.0
"""The disk has space again if no write has failed for this long."""

_FULL: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR_WRITE,  # a quota, or a limit of file sizes
        sqlite3.SQLITE_IOERR_SHMSIZE,
    }
)
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})  # held by another process


class Omit(enum.IntEnum):
    """What a batch leaves out."""

    NOTHING = 0
    ELEMENTS = 1
    EXECUTIONS = 2
    """Executions with their statistics, their elements and the program's output."""


class Reserve:
    """Disk space for the end of a recording: an unnamed file, which is removed with the process.

    Args:
        folder: The recording's folder.
    """

    BYTES: Final = 2 << 20
    # At most one part in this many of the free space.
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
        except (OSError, AttributeError):  # a system or file system without support for it
            if descriptor >= 0:
                os.close(descriptor)

    def release(self) -> None:
        """Give the space back, once; does nothing if the program has closed the file."""
        blocks, self._held = self._held, ()
        if blocks and intact(blocks):
            with contextlib.suppress(OSError):
                os.ftruncate(blocks[0][0], 0)  # a forked child may have it open as well
                os.close(blocks[0][0])


class DiskSpaceRetry:
    """Repeats a write until it succeeds, writing less if necessary.

    Args:
        on_full: Called with a message when waiting begins.
        back: Called when everything can be written again.
        on_wait: Called when waiting for a write begins.
        merge_log: Merges the log into the file so that its space can be reused; returns whether
            there is any.
        hurried: Whether a write is urgent, even with less in it.
        ending: Whether the program has ended, so that waiting for space is pointless.

    Attributes:
        missing: Whether the last write left something out, or is still waiting.
        stuck: Whether a write is waiting.
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
        self._whole_again = 0.0  # the time of the next attempt without leaving anything out
        # Space is considered available once as much has been written as the failed write needed,
        # or once no write has failed for a while: a program may never write as much again.
        self._failed_bytes = self._written_bytes = 0
        self._failed_at = 0.0
        self.missing = self.stuck = False

    @property
    def again_s(self) -> float | None:
        """In how many seconds to write again, in case the program has nothing more to write; None
        if nothing is missing.
        """
        return CALM_S if self.missing else None

    def leave(self) -> None:
        """Stop waiting: the next failing write is not repeated."""
        self._over.set()

    def write(self, attempt: Callable[[Omit], T], undo: Callable[[], None], nbytes: int) -> T:
        """Repeat ``attempt()`` until it succeeds; after `PATIENCE_S`, it leaves records out.

        Args:
            attempt: Writes, leaving out the records that its `Omit` argument names.
            undo: Called after an attempt that failed.
            nbytes: The size of the complete write.

        Raises:
            NoSpace: The program has ended, and there is no space even for the smallest write.
            sqlite3.Error: The write failed for another reason, or waiting was stopped.
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
                now = self._failed_at = time.monotonic()
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
                    enough = self._written_bytes >= self._failed_bytes
                    if self.missing and (enough or since - self._failed_at >= CALM_S):
                        self.missing = False
                        self._back()
                return written


class NoSpace(Exception):
    """The disk is full at the end of the program."""
