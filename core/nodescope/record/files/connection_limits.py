"""Connection limits: what SQLite may do with an untrusted file, and for how long.

In a damaged small file, many pages may refer to one page, and many more to each of them: reading a
table or the schema itself would then never end.

Invariant: every connection to a recording goes through `guard`. A query ends: at its limit, at
Ctrl-C, or when its connection is closed.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sized
from itertools import chain, islice
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=Sized)

PATIENCE_S: Final = 120.0
"""Time limit of one query. Reading a whole recording takes far less; a cyclic one would never
end.
"""

BASE_S: Final = 3.0
BYTES_A_SECOND: Final = 12e6
"""Limit of the processor time of one query, in bytes of the file per second. A table of small rows
is read at 30 to 60 million bytes a second."""

OPENING_S: Final = 10.0
"""Time limit for opening: the schema, and SQLite's own check of a file that is not large."""

GLANCE_S: Final = 2.0
"""The same limit for a list of recordings."""

_STEPS: Final = 400_000
"""SQLite instructions between two checks of the clock, about ten milliseconds."""

_LIMITS: Final = {
    # No row of a recording is larger: arrays are stored in parts of a MiB.
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
    "trusted_schema=OFF",  # a schema must not call functions with side effects
    "cell_size_check=ON",
    "mmap_size=0",  # a mapped file that is truncated while being read would end the process
)


class OverdueError(sqlite3.DatabaseError):
    """A query did not end within its limit, although SQLite reported no damage."""


class QueryGuard:
    """Interrupts the queries of one connection: those of `ask`, and all within a ``with``
    statement.

    Args:
        database: The connection.
        size: The size of its file in bytes; None if that does not limit what a query reads.
    """

    def __init__(self, database: sqlite3.Connection, size: int | None = None) -> None:
        self._database = database
        self._size = size
        self._limit = PATIENCE_S
        self._until = self._busy_until = float("inf")
        self._too_long = ""
        self._stopped = False
        database.set_progress_handler(self._look, _STEPS)

    def within(self, seconds: float) -> Self:
        """For a ``with`` statement: the time limit of all queries in it together.

        Raises as `ask` does.
        """
        self._limit = seconds
        return self

    def __enter__(self) -> Self:
        self._until = time.monotonic() + self._limit
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if isinstance(error, sqlite3.OperationalError):
            self._tell(error)
        self._until = self._busy_until = float("inf")

    def ask(self, question: str, parameters: Any, most_rows: int) -> list[tuple[Any, ...]]:
        """All rows of a query's result.

        Raises:
            sqlite3.Error: The query failed, exceeded `PATIENCE_S` or the time that the size of the
                file allows, or returned more than ``most_rows`` rows.
            KeyboardInterrupt: Ctrl-C was pressed during the query.
        """
        return self._taken(list, question, parameters, most_rows)

    def table(self, question: str, parameters: Any, most_rows: int) -> NDArray[np.int64]:
        """All rows of an integer result, by row and column: faster than a tuple for each.

        Raises:
            Exception: As in `ask`; also a `sqlite3.Error` if a result is not an integer.
        """

        def take(rows: Iterator[tuple[int, ...]]) -> NDArray[np.int64]:
            first = next(rows, None)
            if first is None:
                return np.zeros((0, 0), dtype=np.int64)
            numbers = chain(first, chain.from_iterable(rows))
            try:
                return np.fromiter(numbers, dtype=np.int64).reshape(-1, len(first))
            except (TypeError, ValueError) as error:
                raise sqlite3.DatabaseError(
                    f"a value that should be an integer is not: {error}"
                ) from error

        return self._taken(take, question, parameters, most_rows)

    def _taken(
        self,
        take: Callable[[Iterator[tuple[Any, ...]]], T],
        question: str,
        parameters: Any,
        most_rows: int,
    ) -> T:
        self._limit = PATIENCE_S
        self._until = time.monotonic() + PATIENCE_S
        if self._size is not None:
            busy_s = min(BASE_S + self._size / BYTES_A_SECOND, PATIENCE_S)
            self._busy_until = time.thread_time() + busy_s
        try:
            answer = take(islice(self._database.execute(question, parameters), most_rows + 1))
        except sqlite3.OperationalError as error:
            self._tell(error)
            raise
        finally:
            self._until = self._busy_until = float("inf")
        if len(answer) > most_rows:
            raise sqlite3.DatabaseError("it claims more rows than fit into it")
        return answer

    def _tell(self, error: sqlite3.OperationalError) -> None:
        """Raise the error behind an interruption; the caller handles other errors."""
        if not is_interrupted(error):
            return
        if self._stopped:
            raise sqlite3.ProgrammingError("it was closed") from error
        if self._too_long:
            raise OverdueError(self._too_long) from error
        raise KeyboardInterrupt from error

    @property
    def overdue(self) -> bool:
        """Whether the last query that was interrupted had exceeded its limit (not Ctrl-C)."""
        return self._too_long != ""

    def stop(self) -> None:
        """Interrupt the current query, and refuse later ones. Callable from any thread."""
        self._stopped = True

    def _look(self) -> bool:
        # Ctrl-C raises in here, which SQLite also takes as a request to stop.
        self._too_long = ""
        if time.monotonic() > self._until:
            self._too_long = f"a query was not answered within {self._limit:g} s"
        elif time.thread_time() > self._busy_until:
            self._too_long = (
                f"a query did not end in the time that its {self._size:,} bytes take to read"
            )
        return self._stopped or self._too_long != ""


def guard(database: sqlite3.Connection, size: int | None = None) -> QueryGuard:
    """Set the limits of a connection before anything in the file is read; see `QueryGuard`."""
    for limit, value in _LIMITS.items():
        database.setlimit(limit, value)
    for pragma in _PRAGMAS:
        database.execute(f"PRAGMA {pragma}").fetchall()
    return QueryGuard(database, size)


def is_interrupted(error: BaseException) -> bool:
    """Whether a query failed because a guard, or Ctrl-C, ended it."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
