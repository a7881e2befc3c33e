"""Copies: a private copy of a recording that is not the user's own, together with its log.

SQLite merges the log beside a file and rolls back an interrupted change. Both write to the file,
and a journal may name other files to be deleted. So a recording that comes with either is copied,
and SQLite works on the copy.

Invariant: the original is only read; a copy is removed after its last reader, and copies of killed
processes when the next copy is made.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from nodescope.errors import RecordingError
from nodescope.record.files.connection_limits import OPENING_S, guard
from nodescope.record.files.ownership import beside

_PREFIX: Final = "nodescope-copy-"
_STALE_S: Final = 3600.0
_TRIES: Final = 10
# The end of a journal that belongs to a change of several files, which it then names.
_SUPER: Final = bytes.fromhex("d9d505f920a163d7")
_PART: Final = 1 << 20

_State = tuple[object, ...]

_lock = threading.Lock()
_copies: dict[_State, Copy] = {}
_process = os.getpid()


class Copy:
    """A recovered copy, shared by all readers of the same recording.

    Attributes:
        path: Path of the copy, which is no longer written to.
    """

    def __init__(self, folder: Path, state: _State) -> None:
        self.path = folder / "recording"
        self._folder = folder
        self._state = state
        self._users = 0

    def take(self) -> None:
        """Add a reader; call this under the lock."""
        self._users += 1

    def release(self) -> None:
        """Remove a reader; the last one deletes the copy."""
        with _lock:
            self._users -= 1
            if self._users > 0:
                return
            _copies.pop(self._state, None)
        shutil.rmtree(self._folder, ignore_errors=True)


def copied(path: Path, make: Callable[[Path, Path], None] | None = None) -> Copy:
    """A copy of a recording as it is now; the caller calls `Copy.release` at the end.

    Args:
        path: The recording.
        make: ``make(path, target)`` makes the copy; by default the recording is copied and
            recovered.

    Raises:
        RecordingError: The recording cannot be read or copied, or a file beside it is not a plain
            file.
    """
    with _lock:
        state = (*_state(path), make)
        copy = _copies.get(state)
        if copy is None:
            copy = _copies[state] = _make(path, state, make)
        copy.take()
        return copy


def scratch() -> Path:
    """A private folder, removed by `Copy.release` or at the end of the process."""
    _sweep()
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


def _make(path: Path, state: _State, make: Callable[[Path, Path], None] | None) -> Copy:
    folder = scratch()
    try:
        if make is not None:
            make(path, folder / "recording")
            return Copy(folder, state)
        for _ in range(_TRIES):
            before = _state(path)
            _transfer(path, folder / "recording")
            for suffix in ("-wal", "-journal"):
                _transfer(beside(path, suffix), folder / f"recording{suffix}", missing=True)
            if _state(path)[:3] == before[:3]:
                break
        else:
            raise RecordingError(f"{path} is being written", hint="open it again in a moment")
        _recover(path, folder / "recording")
        return Copy(folder, state)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, RecordingError) or not isinstance(error, OSError):
            raise
        raise RecordingError(
            f"cannot copy {path} to {folder.parent}: {error.strerror or error}",
            hint="it has a log file beside it; set TMPDIR to a folder with room for both",
        ) from error


def _state(path: Path) -> _State:
    """A fingerprint of a recording and the files beside it."""
    at = os.stat(path)
    journal = os.path.lexists(beside(path, "-journal"))
    try:
        log = os.lstat(beside(path, "-wal"))
        size, changed = log.st_size, log.st_mtime_ns
    except OSError:
        size = changed = 0
    return (at.st_dev, at.st_ino), (at.st_size, at.st_mtime_ns), journal, size, changed


def _transfer(source: Path, target: Path, *, missing: bool = False) -> None:
    """Copy a plain file; never waits on anything else, such as a pipe."""
    try:
        at = os.lstat(source) if missing else os.stat(source)
    except FileNotFoundError:
        if missing:
            target.unlink(missing_ok=True)
            return
        raise
    if not stat.S_ISREG(at.st_mode):
        raise RecordingError(
            f"{source} is not a regular file",
            hint="nodescope did not create it; remove it",
        )
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    if missing:
        flags |= getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(source, flags)
    except FileNotFoundError:
        if missing:
            target.unlink(missing_ok=True)
            return
        raise
    with os.fdopen(handle, "rb") as reading, target.open("wb") as writing:
        # No more than its initial size: it may be growing, or endless.
        left = os.fstat(reading.fileno()).st_size
        while left > 0 and (part := reading.read(min(left, _PART))):
            writing.write(part)
            left -= len(part)


def _last_bytes(journal: Path) -> bytes:
    with journal.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - len(_SUPER)))
        return file.read(len(_SUPER))


def _recover(path: Path, copy: Path) -> None:
    """Let SQLite merge the copy with the log beside it."""
    journal = beside(copy, "-journal")
    if journal.exists() and _last_bytes(journal) == _SUPER:
        raise RecordingError(
            f"{beside(path, '-journal')} names another file, which nodescope never writes",
            hint="the file beside the recording was not written by nodescope; remove it",
        )
    try:
        database = sqlite3.connect(copy, isolation_level=None, timeout=0.0)
        try:
            with guard(database).within(OPENING_S):
                database.execute("PRAGMA journal_mode=DELETE").fetchall()
                database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        finally:
            database.close()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise RecordingError(
            f"{path} is damaged: {error}", hint="it was truncated or modified after it was written"
        ) from error
    for suffix in ("-wal", "-shm", "-journal"):
        beside(copy, suffix).unlink(missing_ok=True)


def _sweep() -> None:
    """Remove the copies of processes that were killed."""
    try:
        entries = list(os.scandir(tempfile.gettempdir()))
    except OSError:
        return
    for entry in entries:
        if not entry.name.startswith(_PREFIX):
            continue
        number = entry.name[len(_PREFIX) :].partition("-")[0]
        try:
            old = time.time() - entry.stat(follow_symlinks=False).st_mtime > _STALE_S
            if old and number.isdecimal() and not _alive(int(number)):
                shutil.rmtree(entry.path, ignore_errors=True)
        except OSError:
            continue


def _alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _remove_all() -> None:
    if os.getpid() != _process:
        return  # a forked child: the copies belong to its parent
    for copy in list(_copies.values()):
        shutil.rmtree(copy._folder, ignore_errors=True)


atexit.register(_remove_all)
