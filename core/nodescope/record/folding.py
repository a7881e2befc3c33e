"""Folding: makes one portable file of a recording whose writer has ended.

A writer folds its recording itself, unless someone reads it at that moment. Then the last reader
does, once it has let go of the file.

Invariant: a file that anyone still has open, a living writer above all, is left as it is; so is
one that is not ours.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from nodescope.errors import RecordingError
from nodescope.record.guard import guard
from nodescope.record.opening import check_head
from nodescope.record.ours import beside, in_place, remember, written_here
from nodescope.telling import path_of


def fold(path: Path) -> bool:
    """Take the log beside a recording into it; whether there is one file now.

    Call it only where nothing in this process has the file open.
    """
    path = Path(os.path.realpath(path_of(path)))
    logs = [beside(path, each) for each in ("-wal", "-shm")]
    if not any(os.path.lexists(each) for each in logs):
        return True
    if written_here(path) or not in_place(path):
        return False
    try:
        check_head(path)
        # SQLite gives this mode only to a connection that is alone.
        database = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0.0)
        try:
            guard(database)
            database.execute("PRAGMA journal_mode=DELETE").fetchall()
        finally:
            database.close()
    except (RecordingError, sqlite3.Error, OSError, ValueError):
        return False
    folded = not any(os.path.lexists(each) for each in logs)
    if folded:
        remember(path)
    return folded
