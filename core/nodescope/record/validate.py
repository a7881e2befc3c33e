"""Opening a recording for reading: its kind, its integrity, and SQLite's access to it.

Invariant: opening changes neither the file nor those beside it, and a file's claims about other
files are not trusted: only the log of the user's own recording is read in place, any other in a
copy (`private_copies`).
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
from nodescope.record.files.connection_limits import (
    GLANCE_S,
    OPENING_S,
    OverdueError,
    QueryGuard,
    guard,
)
from nodescope.record.files.descriptors import high
from nodescope.record.files.ownership import (
    begin_reading,
    beside,
    end_reading,
    in_place,
    open_here,
    stamped,
    writing,
    written_here,
)
from nodescope.record.files.page_checksums import faults, read_seal
from nodescope.record.files.private_copies import copied
from nodescope.record.files.salvage import LOST, salvage
from nodescope.record.files.schema_check import objection
from nodescope.record.schema import APPLICATION_ID, HEADER, SCHEMA_VERSION, SUFFIX

# Larger files are not checked as a whole when opened; their faults show when a page is read.
# Checksums are as fast as the disk, SQLite's own check is not.
_SEALED_BYTES = 512 << 20
_CHECKED_BYTES = 48 << 20
# For a larger file, the time limit depends on the bytes that are really stored.
_SPARSE_BYTES = 64 << 20
# The least space that a row takes in a file, and the most rows that an answer may have.
_ROW_BYTES = 6
_FEW_ROWS = 1000
_MOST_ROWS = 20_000_000
# Larger files are not copied for an overview.
_GLANCED_BYTES = 16 << 20
# Files whose seal was verified, by the metadata that would show a change.
_intact: dict[tuple[int, ...], None] = {}
_MOST_INTACT = 64
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


class OpenedRecording(NamedTuple):
    """An opened recording.

    Attributes:
        database: The connection, within limits.
        guard: Interrupts its queries.
        most_rows: The most rows that an answer can have.
        release: Called when the connection has been closed.
        note: One line about a fault that leaves the file readable.
        schema: The version of its format.
    """

    database: sqlite3.Connection
    guard: QueryGuard
    most_rows: int
    release: Callable[[], None]
    note: str = ""
    schema: int = SCHEMA_VERSION

    def close(self) -> None:
        """Close the connection and release what it was reading."""
        self.database.close()
        self.release()


def connect(path: Path, *, whole: bool = True) -> OpenedRecording:
    """Open a recording read-only, wherever it comes from.

    Args:
        whole: Whether to check the whole file for damage, unless it is large. If not, a large file
            whose log would have to be copied is read as it was before the log.

    Raises:
        RecordingError: The file is missing, not a recording, too new or damaged.
    """
    real = Path(os.path.realpath(path))
    if not open_here(real):
        try:
            check_head(path)
        except RecordingError:
            if not whole or read_seal(real) is None:
                raise  # otherwise the first page of the seal is used again
    try:
        opened = _connect(path, real, whole=whole)
        try:
            with opened.guard.within(OPENING_S if whole else GLANCE_S):
                _check(opened, path, whole=whole)
        except OverdueError as error:
            opened.close()
            raise damaged(path, error) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            opened.close()
            if not whole or opened.note or _pending(real) or open_here(real):
                raise damaged(path, error) from error
            return _salvaged(path, real, f"{path} is damaged: {error}")
        except BaseException:
            opened.close()
            raise
    except RecordingError:
        raise
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror or error}") from error
    return opened


def _check(opened: OpenedRecording, path: Path, *, whole: bool) -> None:
    """Check that a file is whole and only a recording. Raises `sqlite3.Error` if it is damaged."""
    database = opened.database
    fault = objection(database)
    if fault:
        raise RecordingError(
            f"{path} is not a nodescope recording: {fault}",
            hint="it was modified or written by another program, so it is not opened",
        )
    if whole and path.stat().st_size <= _CHECKED_BYTES:
        verdict = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict is None or verdict[0] != "ok":
            raise sqlite3.DatabaseError(verdict[0] if verdict else "unreadable")
    some = database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    progress = database.execute("SELECT seq FROM progress").fetchone() if some else None
    if not some or (progress == (0,) and _just_made(Path(os.path.realpath(path)))):
        raise RecordingError(
            f"{path} is still empty", hint="its program has just started, or died at startup"
        )


def damaged(path: Path, error: Exception) -> RecordingError:
    """The error for a file that SQLite or nodescope cannot interpret."""
    return RecordingError(
        f"{path} is damaged: {error}", hint="it was truncated or modified after it was written"
    )


def check_head(path: Path) -> None:
    """Refuse a file that is not a recording. Raises `RecordingError`."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device, not a file"
            raise RecordingError(f"{path} is {kind}", hint=f"name a {SUFFIX} file")
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
        kind = next((name for start, name in _KINDS if head.startswith(start)), "something else")
        raise RecordingError(
            f"{path} is not a recording, it is {kind}", hint=f"open a {SUFFIX} file"
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
    """How a file is shorter than its header says; SQLite itself may not notice."""
    with path.open("rb") as file:
        head = file.read(32)
    page = int.from_bytes(head[16:18], "big")
    expected = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
    size = path.stat().st_size
    if size >= expected:
        return ""
    return f"{path} is damaged: it was cut to {size:,} of {expected:,} bytes"


def _changed(path: Path, real: Path) -> str:
    """Which part of a sealed file differs from what was written; empty if none is known to."""
    at = real.stat()
    state = (at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns)
    if state in _intact or at.st_size > _SEALED_BYTES:
        return ""
    page_seal = read_seal(real)
    pages = faults(real, page_seal) if page_seal is not None else []
    if page_seal is None or not pages:
        _intact[state] = None
        if len(_intact) > _MOST_INTACT:
            del _intact[next(iter(_intact))]
        return ""
    first = ", the first of them at byte " if len(pages) > 1 else ", at byte "
    return (
        f"{path} is damaged: {len(pages):,} of its {len(page_seal.sums):,} pages changed after "
        f"it was written{first}{pages[0] * page_seal.page:,}"
    )


def _salvaged(path: Path, real: Path, problem: str) -> OpenedRecording:
    """The intact part of a damaged file.

    Raises:
        RecordingError: Nothing is intact.
    """
    lost: list[str] = []
    try:
        opened = _of_copy(path, real, salvage, lost)
    except RecordingError as error:
        raise RecordingError(f"{problem}, and no part of it is intact", hint=_AGAIN) from error
    return opened._replace(note=f"{problem}; the intact part is shown{_missing(lost)}")


def _missing(tables: list[str]) -> str:
    return f"; missing: rows of {', '.join(tables)}" if tables else ""


def _just_made(real: Path) -> bool:
    """Whether nothing was written to a file yet, and nobody has finished it."""
    return not (open_here(real) or _pending(real) or read_seal(real) is not None)


def _pending(real: Path) -> bool:
    """Whether a non-empty log lies beside a file."""
    try:
        return os.lstat(beside(real, "-wal")).st_size > 0
    except OSError:
        return False


def _connect(path: Path, real: Path, *, whole: bool) -> OpenedRecording:
    size = real.stat().st_size
    final = f"{real.as_uri()}?mode=ro&immutable=1"
    if open_here(real) and in_place(real):
        # The file is examined through SQLite alone: closing a file descriptor releases the locks on
        # the file.
        try:
            return _in_place(path, real)
        except sqlite3.OperationalError as error:
            if written_here(real):
                raise damaged(path, error) from error
    if os.path.lexists(beside(real, "-journal")):
        if not whole and size > _GLANCED_BYTES:
            return _open(final, path, size)
        return _of_copy(path, real)  # a change was interrupted, or appears to have been
    # A live writer always has a non-empty log. Without one the file is final and is opened as
    # immutable, so that SQLite neither looks for files beside it nor leaves its own there. A
    # recording that nodescope finished has no log: a log beside it came from elsewhere.
    if not _pending(real) or stamped(real):
        problem = (whole and _changed(path, real)) or _cut(path)
        if not problem:
            return _open(final, path, size)
        if not whole:
            raise RecordingError(problem, hint=_AGAIN)
        return _salvaged(path, real, problem)
    if in_place(real):
        try:
            return _in_place(path, real)
        except sqlite3.OperationalError:
            pass  # the log of a dead program in a folder that is not writable
    if not whole and size > _GLANCED_BYTES:
        return _open(final, path, size)
    return _of_copy(path, real)


def _in_place(path: Path, real: Path) -> OpenedRecording:
    """Open a file with its log, taking locks; raises `sqlite3.OperationalError`."""
    key = begin_reading(real)
    try:
        uri = f"{real.as_uri()}?mode=ro"
        over = _once(lambda: end_reading(key))
        return _open(uri, path, _MOST_ROWS * _ROW_BYTES, over, begin=True)
    except BaseException:
        end_reading(key)
        raise


def _of_copy(
    path: Path,
    real: Path,
    make: Callable[[Path, Path], None] | None = None,
    lost: list[str] | None = None,
) -> OpenedRecording:
    copy = copied(real, make)
    try:
        if lost is not None:
            lost += copy.path.with_name(LOST).read_text().split()
        size = copy.path.stat().st_size
        uri = f"{copy.path.as_uri()}?mode=ro&immutable=1"
        return _open(uri, path, size, _once(copy.release))
    except BaseException:
        copy.release()
        raise


def _once(action: Callable[[], None]) -> Callable[[], None]:
    """Wrap an action so that only the first call performs it: a recording may be closed twice."""
    left = [action]

    def act() -> None:
        while left:
            left.pop()()

    return act


def _stored(path: Path, size: int) -> int:
    """Roughly how many bytes of a file are stored: a sparse file may claim any size."""
    blocks = getattr(path.stat(), "st_blocks", size)
    # Some file systems compress, and some report late.
    return min(size, _SPARSE_BYTES + 4 * 512 * blocks)


def _schema(database: sqlite3.Connection) -> int:
    """The format version of a file; the newest if it is too damaged to tell."""
    try:
        return int(database.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error:
        return SCHEMA_VERSION


def _open(
    uri: str,
    path: Path,
    size: int,
    release: Callable[[], None] = lambda: None,
    *,
    begin: bool = False,
) -> OpenedRecording:
    """Open a file, with ``begin`` also the files beside it; raises `sqlite3.OperationalError`."""
    database = None
    try:
        # If a program runs here, it may close any descriptor with a low number.
        with high() if writing() else contextlib.nullcontext():
            database = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
            )
            limits = guard(database, None if begin else _stored(path, size))
            if begin:
                database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except sqlite3.Error as error:
        if database is not None:
            database.close()
        if begin and isinstance(error, sqlite3.OperationalError):
            raise
        raise damaged(path, error) from error
    schema = _schema(database)
    most_rows = min(max(size // _ROW_BYTES, _FEW_ROWS), _MOST_ROWS)
    return OpenedRecording(database, limits, most_rows, release, schema=schema)
