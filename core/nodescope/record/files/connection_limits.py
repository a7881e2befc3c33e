"""Connection limits: what SQLite may do with an untrusted file, and for how long.

Invariant: every connection to a recording goes through `guard`. A query ends: at its limit, at
Ctrl-C, or when its connection is closed.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any, Final

PATIENCE_S: Final = 120.0
"""Limit of one query. Reading a whole recording takes far less; a cyclic one would never end."""

_STEPS: Final = 400_000
"""SQLite instructions between two looks at the clock, about ten milliseconds."""

_LIMITS: Final = {
    # No row of ours is as large: arrays are kept in parts of a MiB.
    sqlite3.SQLITE_LIMIT_LENGTH: 256 << 20,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 20,
    sqlite3.SQLITE_LIMIT_COLUMN: 64,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}

_PRAGMAS: Final = (
    "trusted_schema=OFF",  # functions with effects are not for what a schema says
    "cell_size_check=ON",
    "mmap_size=0",  # a file that is cut while it is read would end the process
)


class Guard:
    """Interrupts the queries of one connection.

    Args:
        database: The connection.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._until = float("inf")
        self._stopped = False
        database.set_progress_handler(self._look, _STEPS)

    def ask(self, question: str, parameters: Any, most_rows: int) -> list[tuple[Any, ...]]:
        """All rows of an answer.

        Raises:
            sqlite3.Error: It cannot be had, or not within `PATIENCE_S`, or has more rows than
                ``most_rows``.
            KeyboardInterrupt: Ctrl-C came meanwhile.
        """
        self._until = time.monotonic() + PATIENCE_S
        try:
            rows: list[tuple[Any, ...]] = self._database.execute(question, parameters).fetchmany(
                most_rows + 1
            )
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            if self._stopped:
                raise sqlite3.ProgrammingError("it was closed") from error
            if time.monotonic() > self._until:
                raise sqlite3.DatabaseError(
                    f"a query was not answered within {PATIENCE_S:g} s"
                ) from error
            raise KeyboardInterrupt from error
        finally:
            self._until = float("inf")
        if len(rows) > most_rows:
            raise sqlite3.DatabaseError("it claims more rows than fit into it")
        return rows

    def stop(self) -> None:
        """Interrupt the current query, and refuse later ones. From any thread."""
        self._stopped = True

    def _look(self) -> bool:
        # Ctrl-C raises in here, which SQLite takes as a wish to end, too.
        return self._stopped or time.monotonic() > self._until


def guard(database: sqlite3.Connection) -> Guard:
    """Set the limits of a connection, before anything of the file is read."""
    for limit, value in _LIMITS.items():
        database.setlimit(limit, value)
    for pragma in _PRAGMAS:
        database.execute(f"PRAGMA {pragma}").fetchall()
    return Guard(database)
