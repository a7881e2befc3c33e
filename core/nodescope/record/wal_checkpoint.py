"""WAL checkpoint: merges a recording whose writer has ended into one portable file.

A writer merges its own recording unless it is being read at that moment. In that case the last
reader merges it after closing the file.

Invariant: a file that anything still has open, above all a live writer, is left as it is; so is one
that is not the user's own.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from nodescope.console_output import path_of
from nodescope.errors import RecordingError
from nodescope.record.files.connection_limits import guard
from nodescope.record.files.ownership import beside, in_place, remember, written_here
from nodescope.record.files.page_checksums import seal
from nodescope.record.validate import check_head


def fold(path: Path) -> bool:
    """Merge the log beside a recording into it; return whether there is one file now.

    Call this only while nothing in this process has the file open.
    """
    path = Path(os.path.realpath(path_of(path)))
    logs = [beside(path, suffix) for suffix in ("-wal", "-shm")]
    if not any(os.path.lexists(log) for log in logs):
        return True
    if written_here(path) or not in_place(path):
        return False
    try:
        check_head(path)
        # SQLite gives this mode only to a connection that is alone.
        database = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0.0)
        try:
            with guard(database):
                database.execute("PRAGMA journal_mode=DELETE").fetchall()
        finally:
            database.close()
    except (RecordingError, sqlite3.Error, OSError, ValueError):
        return False
    folded = not any(os.path.lexists(log) for log in logs)
    if folded:
        seal(path)
        remember(path)
    return folded
