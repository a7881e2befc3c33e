"""Answers in columns of integers: the same numbers as in rows, up to the allowed number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import numpy as np
import pytest

from nodescope.record.files.connection_limits import QueryGuard

NUMBERS = "SELECT a, b FROM pair WHERE a >= ? ORDER BY a"
LARGEST = (1 << 63) - 1


@pytest.fixture
def guard() -> Iterator[QueryGuard]:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE pair (a INTEGER, b)")
    database.executemany(
        "INSERT INTO pair VALUES (?, ?)", [(1, -1), (2, LARGEST), (3, -LARGEST - 1)]
    )
    yield QueryGuard(database)
    database.close()


def test_a_table_holds_what_rows_hold(guard: QueryGuard) -> None:
    table = guard.table(NUMBERS, (1,), 3)
    assert table.dtype == np.int64
    assert [tuple(row) for row in table.tolist()] == guard.ask(NUMBERS, (1,), 3)
    assert len(guard.table(NUMBERS, (4,), 3)) == 0


def test_more_rows_than_fit_into_the_file_are_refused(guard: QueryGuard) -> None:
    for answer in (guard.ask, guard.table):
        with pytest.raises(sqlite3.DatabaseError, match="more rows than fit"):
            answer(NUMBERS, (1,), 2)


@pytest.mark.parametrize("other", ["NULL", "'text'", "x'00'"])
def test_anything_but_an_integer_is_a_fault_of_the_file(guard: QueryGuard, other: str) -> None:
    with pytest.raises(sqlite3.DatabaseError, match="should be an integer"):
        guard.table(f"SELECT a, {other} FROM pair WHERE a > ?", (1,), 3)
