"""New file: an empty recording, in place of an earlier one.

Invariant: a file that is no recording is never replaced.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from functools import lru_cache
from pathlib import Path
from typing import Final

from nodescope.errors import RecordingError
from nodescope.record.schema import APPLICATION_ID, HEADER, SCHEMA, SCHEMA_VERSION

PAGE_BYTES: Final = 4096
MEDIUM_PAGE_BYTES: Final = 1 << 14
"""For recordings with statistics: each page is written by several calls of the system. Each table
and index takes a page at least, 0.7 MB in all.
"""

LARGE_PAGE_BYTES: Final = 1 << 16
"""For recordings with the elements of most arrays, which SQLite then writes in half the time."""

HINT: Final = "choose another file with --record"
_SERIALISES: Final = hasattr(sqlite3.Connection, "serialize")  # not in every build
_WAL_MODE: Final = b"\x02\x02"  # bytes 18 and 19 of SQLite's header


def create(path: Path) -> None:
    """Make an empty private file."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():
            if not _replaceable(path):
                raise RecordingError(
                    f"{path} already exists and is not a recording",
                    hint=HINT,
                )
            if path.stat().st_size:
                path.unlink()
        for side in ("-wal", "-shm", "-journal"):
            path.with_name(path.name + side).unlink(missing_ok=True)
        # An empty file stays: its maker has reserved the name for this recording.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    except RecordingError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordingError(f"cannot write the recording {path}: {reason}", hint=HINT) from error


def _replaceable(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(72)
    ours = head[:16] == HEADER and int.from_bytes(head[68:72], "big") == APPLICATION_ID
    return not head or ours


def connect(path: Path | str) -> sqlite3.Connection:
    """A connection that writes, outside of transactions."""
    return sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, cached_statements=512
    )


def begin(path: Path, page_bytes: int) -> None:
    """Make an empty file a recording without rows, in WAL mode."""
    if _SERIALISES:
        path.write_bytes(_empty(page_bytes))
        return
    with contextlib.closing(connect(path)) as database:
        _define(database, page_bytes)
        database.execute("PRAGMA journal_mode=WAL").fetchall()


@lru_cache
def _empty(page_bytes: int) -> bytes:
    """The content of an empty recording: writing it at once takes a third of the time."""
    with contextlib.closing(connect(":memory:")) as database:
        _define(database, page_bytes)
        content = database.serialize()
    return content[:18] + _WAL_MODE + content[20:]


def _define(database: sqlite3.Connection, page_bytes: int) -> None:
    database.execute(f"PRAGMA page_size={page_bytes}")
    database.execute("PRAGMA synchronous=OFF")  # the file is still empty
    database.execute(f"PRAGMA application_id={APPLICATION_ID}")
    database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    database.executescript(f"BEGIN;{SCHEMA}INSERT INTO progress VALUES (0,0,0,0,0);COMMIT;")
