"""Opening a recording for reading: what it is, whether it is whole, and how SQLite may look at it.

Invariant: opening changes neither the file nor what lies beside it, and what a file says about
other files is not believed: only the log of a recording that is ours is read where it lies, any
other in a copy (`copies`).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from nodescope.errors import RecordingError
from nodescope.record.copies import copied
from nodescope.record.descriptors import high
from nodescope.record.exact import objection
from nodescope.record.guard import Guard, guard
from nodescope.record.ours import beside, in_place, writing, written_here
from nodescope.record.salvage import salvage
from nodescope.record.schema import APPLICATION_ID, HEADER, SCHEMA_VERSION, SUFFIX

# Larger files are not read through at opening; their faults show when the page is read.
_CHECKED_BYTES = 48 << 20
# The least that a row takes in a file, and the most rows that an answer may have.
_ROW_BYTES = 6
_FEW_ROWS = 1000
_MOST_ROWS = 20_000_000
# Larger files are not copied for a glance.
_GLANCED_BYTES = 16 << 20
_AGAIN = "copy it again, or record again"
_KINDS = (
    (b"PK\x03\x04", "a ZIP archive (such as .npz or .pt)"),
    (b"\x93NUMPY", "a NumPy .npy file"),
    (b"\x80", "a Python pickle"),
    (b"\x89PNG", "a PNG picture"),
    (b"\x1f\x8b", "a gzip file"),
    (b"%PDF", "a PDF"),
    (b"{", "JSON"),
    (b"<", "XML or HTML"),
)


class Opened(NamedTuple):
    """A recording that is open.

    Attributes:
        database: Reads it, within limits.
        guard: Ends its questions.
        most_rows: More than this no answer can have.
        release: To be called when the connection is closed.
        note: What is wrong with it, in a line, though it can be read.
    """

    database: sqlite3.Connection
    guard: Guard
    most_rows: int
    release: Callable[[], None]
    note: str = ""

    def close(self) -> None:
        """Close the connection, and let go of what it read."""
        self.database.close()
        self.release()


def connect(path: Path, *, whole: bool = True) -> Opened:
    """Open a recording read-only, wherever it comes from.

    Args:
        whole: Read it through for damage, unless it is large. Otherwise a large one with a log
            that would have to be copied is read as it was before the log.

    Raises:
        RecordingError: There is none, or it is something else, too new or damaged.
    """
    real = Path(os.path.realpath(path))
    if not written_here(real):
        check_head(path)
    try:
        opened = _connect(path, real, whole=whole)
    except RecordingError:
        raise
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        _check(opened, path, whole=whole)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        opened.close()
        raise damaged(path, error) from error
    except BaseException:
        opened.close()
        raise
    return opened


def _check(opened: Opened, path: Path, *, whole: bool) -> None:
    """Whether it is whole, and nothing but a recording."""
    database = opened.database
    said = objection(database)
    if said:
        raise RecordingError(
            f"{path} is not a nodescope recording: {said}",
            hint="it was changed or made by another program, so it is not read",
        )
    if whole and path.stat().st_size <= _CHECKED_BYTES:
        verdict = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict is None or verdict[0] != "ok":
            raise RecordingError(
                f"{path} is damaged: {verdict[0] if verdict else 'unreadable'}",
                hint="it was cut or changed after it was written; record again",
            )
    if not database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        raise RecordingError(
            f"{path} is still empty", hint="its program has just started, or died at startup"
        )
    database.execute("SELECT seq FROM progress").fetchone()


def damaged(path: Path, error: Exception) -> RecordingError:
    """The error for a file that SQLite or we cannot make sense of."""
    return RecordingError(
        f"{path} is damaged: {error}", hint="it was cut or changed after it was written"
    )


def check_head(path: Path) -> None:
    """Refuse what is no recording. Raises `RecordingError`."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device, not a file"
            raise RecordingError(f"{path} is {what}", hint=f"name a {SUFFIX} file")
        with path.open("rb") as file:
            head = file.read(100)
    except RecordingError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordingError(f"cannot open the recording {path}: {reason}") from error
    if not head:
        raise RecordingError(f"{path} is empty", hint="the program may have died at startup")
    if head[:16] != HEADER:
        what = next((name for start, name in _KINDS if head.startswith(start)), "something else")
        raise RecordingError(
            f"{path} is not a recording, it is {what}", hint=f"open a {SUFFIX} file"
        )
    if len(head) < 100:
        raise RecordingError(f"{path} is damaged: it ends after {len(head)} bytes")
    if int.from_bytes(head[68:72], "big") != APPLICATION_ID:
        raise RecordingError(
            f"{path} is an SQLite database, but not a recording", hint=f"open a {SUFFIX} file"
        )
    schema = int.from_bytes(head[60:64], "big")
    if schema > SCHEMA_VERSION:
        raise RecordingError(
            f"{path} has schema version {schema}; this nodescope reads up to {SCHEMA_VERSION}",
            hint="upgrade nodescope",
        )
    if schema < 1:
        raise RecordingError(f"{path} is damaged: it has no schema version")


def _cut(path: Path) -> str:
    """Whether a file is shorter than its header says, in words; SQLite itself may not notice."""
    with path.open("rb") as file:
        head = file.read(32)
    page = int.from_bytes(head[16:18], "big")
    expected = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
    size = path.stat().st_size
    if size >= expected:
        return ""
    return f"{path} is damaged: it was cut to {size:,} of {expected:,} bytes"


def _connect(path: Path, real: Path, *, whole: bool) -> Opened:
    size = real.stat().st_size
    final = f"{real.as_uri()}?mode=ro&immutable=1"
    if os.path.lexists(beside(real, "-journal")):
        if not whole and size > _GLANCED_BYTES:
            return _open(final, path, size)
        return _of_copy(path, real)  # a change was broken off, or so it seems
    try:
        pending = os.lstat(beside(real, "-wal")).st_size > 0
    except OSError:
        pending = False
    # A live writer always has a log that is not empty. Without one the file is final, and saying
    # so keeps SQLite from looking for files beside it, and from leaving files of its own there.
    if not pending:
        cut = _cut(path)
        if not cut:
            return _open(final, path, size)
        if not whole:
            raise RecordingError(cut, hint=_AGAIN)
        try:
            return _of_copy(path, real, salvage)._replace(note=f"{cut}; the intact part is shown")
        except RecordingError as error:
            raise RecordingError(f"{cut}, and no part of it is intact", hint=_AGAIN) from error
    if in_place(real):
        try:
            return _open(f"{real.as_uri()}?mode=ro", path, _MOST_ROWS * _ROW_BYTES, begin=True)
        except sqlite3.OperationalError:
            pass  # the log of a dead program in a place where we may not write
    if not whole and size > _GLANCED_BYTES:
        return _open(final, path, size)
    return _of_copy(path, real)


def _of_copy(path: Path, real: Path, make: Callable[[Path, Path], None] | None = None) -> Opened:
    copy = copied(real, make)
    try:
        size = copy.path.stat().st_size
        uri = f"{copy.path.as_uri()}?mode=ro&immutable=1"
        return _open(uri, path, size, _once(copy.release))
    except BaseException:
        copy.release()
        raise


def _once(action: Callable[[], None]) -> Callable[[], None]:
    """The action, which is done at the first call only: a recording may be closed again."""
    left = [action]

    def act() -> None:
        while left:
            left.pop()()

    return act


def _open(
    uri: str,
    path: Path,
    size: int,
    release: Callable[[], None] = lambda: None,
    *,
    begin: bool = False,
) -> Opened:
    """Open a file; with ``begin``, and what lies beside it, or raise `sqlite3.OperationalError`."""
    database = None
    try:
        # Where a program runs, it may close any descriptor with a low number.
        with high() if writing() else contextlib.nullcontext():
            database = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
            )
            limits = guard(database)
            if begin:
                database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except sqlite3.Error as error:
        if database is not None:
            database.close()
        if begin and isinstance(error, sqlite3.OperationalError):
            raise
        raise damaged(path, error) from error
    most = min(max(size // _ROW_BYTES, _FEW_ROWS), _MOST_ROWS)
    return Opened(database, limits, most, release)
