"""Opening a recording for reading: what it is, whether it is whole, and how SQLite may look at it.

Invariant: opening never changes the file, whatever state it is in, but to undo a change that its
writer did not live to finish.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from nodescope.errors import RecordingError
from nodescope.record.schema import APPLICATION_ID, HEADER, SCHEMA_VERSION, SUFFIX

# Larger files are not read through at opening; their faults show when the page is read.
_CHECKED_BYTES = 48 << 20
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


def connect(path: Path) -> sqlite3.Connection:
    """Open a recording read-only.

    Raises:
        RecordingError: There is none, or it is something else, too new or damaged.
    """
    check_head(path)
    database = _connect(path)
    try:
        if path.stat().st_size <= _CHECKED_BYTES:
            verdict = database.execute("PRAGMA quick_check(1)").fetchone()
            if verdict is None or verdict[0] != "ok":
                raise RecordingError(
                    f"{path} is damaged: {verdict[0] if verdict else 'unreadable'}",
                    hint="it was cut or changed after it was written; record again",
                )
        if not database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
            raise RecordingError(
                f"{path} holds nothing yet", hint="its program has just started, or died there"
            )
        database.execute("SELECT seq FROM progress").fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        database.close()
        raise damaged(path, error) from error
    except RecordingError:
        database.close()
        raise
    return database


def damaged(path: Path, error: Exception) -> RecordingError:
    """The error for a file that SQLite or we cannot make sense of."""
    return RecordingError(
        f"{path} is damaged: {error}", hint="it was cut or changed after it was written"
    )


def check_head(path: Path) -> None:
    """Refuse what is no recording. Raises `RecordingError`."""
    try:
        if path.is_dir():
            raise RecordingError(f"{path} is a directory", hint=f"name a {SUFFIX} file")
        with path.open("rb") as file:
            head = file.read(100)
    except RecordingError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordingError(f"cannot open the recording {path}: {reason}") from error
    if not head:
        raise RecordingError(f"{path} is empty", hint="the program may have died at its start")
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
            f"{path} is made by schema {schema}, this nodescope reads up to {SCHEMA_VERSION}",
            hint="upgrade nodescope",
        )
    if schema < 1:
        raise RecordingError(f"{path} is damaged: it has no schema version")


def _check_length(path: Path) -> None:
    """Refuse a file that is shorter than its header says; SQLite itself may not notice."""
    with path.open("rb") as file:
        head = file.read(32)
    page = int.from_bytes(head[16:18], "big")
    expected = int.from_bytes(head[28:32], "big") * (65536 if page == 1 else page)
    found = path.stat().st_size
    if found < expected:
        raise RecordingError(
            f"{path} is damaged: it was cut to {found:,} of {expected:,} bytes",
            hint="copy it again, or record again",
        )


def _connect(path: Path) -> sqlite3.Connection:
    wal = path.with_name(path.name + "-wal")
    try:
        pending = wal.stat().st_size > 0
    except OSError:
        pending = False
    base = f"{path.absolute().as_uri()}?"
    # A live writer always has a log that is not empty. Without one the file is final, and saying
    # so keeps SQLite from leaving files of its own beside it.
    if not pending:
        _recover(path)
        _check_length(path)
        return _try(f"{base}mode=ro&immutable=1", path)
    try:
        database = _try(f"{base}mode=ro", path)
        database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return database
    except (sqlite3.OperationalError, RecordingError):
        # The log of a dead program in a place where we may not write: read a copy.
        return _try(f"{_copied(path, wal).as_uri()}?mode=ro", path)


def _recover(path: Path) -> None:
    """Undo the writing of a branch that was broken off, where its writer died and we may write."""
    journal = path.with_name(path.name + "-journal")
    if not journal.exists():
        return
    try:
        # SQLite itself knows whether the writer still lives; then nothing is undone.
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=2.0)
        try:
            database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        finally:
            database.close()
    except sqlite3.Error:
        return  # what is wrong is said by who reads it


def _try(uri: str, path: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
        )
    except sqlite3.Error as error:
        raise damaged(path, error) from error


def _copied(path: Path, wal: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="nodescope-"))
    copy = folder / path.name
    try:
        shutil.copyfile(path, copy)
        shutil.copyfile(wal, folder / wal.name)
        os.chmod(copy, 0o600)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise RecordingError(f"cannot read {path}: {error.strerror or error}") from error
    return copy
