"""Folding: makes one portable file of a recording whose writer has ended.

A writer folds its recording itself, unless someone reads it at that moment. Then the last reader
does, once it has let go of the file.

Invariant: a file that anyone still has open, a living writer above all, is left as it is.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from nodescope.record.schema import APPLICATION_ID, HEADER


def fold(path: Path) -> bool:
    """Take the log beside a recording into it; whether there is one file now.

    Call it only where nothing in this process has the file open.
    """
    beside = [path.with_name(path.name + each) for each in ("-wal", "-shm")]
    if not any(each.exists() for each in beside):
        return True
    try:
        with path.open("rb") as file:
            head = file.read(72)
        if head[:16] != HEADER or int.from_bytes(head[68:72], "big") != APPLICATION_ID:
            return False
        # SQLite gives this mode only to a connection that is alone.
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=0.0)
        try:
            database.execute("PRAGMA journal_mode=DELETE").fetchall()
        finally:
            database.close()
    except (sqlite3.Error, OSError, ValueError):
        return False
    return not any(each.exists() for each in beside)
