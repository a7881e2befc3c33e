"""Rows are written in few statements, without losing, adding or changing any."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.record import new_file
from nodescope.record.recording import Recording
from nodescope.record.rows import Dropped
from nodescope.record.schema import SCHEMA, SCHEMA_VERSION
from nodescope.record.writer import Writer

Row = tuple[int, str | None, bytes]


@pytest.mark.parametrize("count", [*range(18), 256, 257, 512, 513, 1023, 1024, 1025, 3000, 6145])
def test_any_number_of_rows_is_inserted(tmp_path: Path, count: int) -> None:
    writer = Writer(tmp_path / "run.nscope", budget_bytes=0)
    writer.execute("CREATE TABLE some (number INTEGER NOT NULL, word TEXT, data BLOB NOT NULL)")
    rows: list[Row] = [(k, None if k % 3 else str(k), bytes([k % 256])) for k in range(count)]
    statements: list[str] = []
    writer.connection.set_trace_callback(statements.append)
    writer.begin()
    writer.insert("some", rows)
    writer.commit(1, 0, Dropped())
    result = writer.connection.execute("SELECT * FROM some ORDER BY rowid").fetchall()
    assert result == rows
    assert sum("INSERT" in statement for statement in statements) <= count // 1024 + 2


def test_rows_replace_earlier_rows(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.nscope", budget_bytes=0)
    for rows in ([(1, 1, 10, None, None, 1), (2, 3, 20, None, None, 1)], [(2, 3, 20, 4, 25, 0)]):
        writer.begin()
        writer.insert("step", rows, replace=True)
        writer.commit(4, 25, Dropped())
    writer.finish()
    with Recording.open(tmp_path / "run.nscope") as recording:
        steps = [(step.step, step.end_seq, step.observed) for step in recording.steps()]
    assert steps == [(1, None, True), (2, 4, False)]


def _kept(writer: Writer) -> dict[int, list[int]]:
    """The seqs of the arrays that are kept, by value; each has its elements."""
    rows = writer.connection.execute("SELECT value, seq, id FROM blob ORDER BY id").fetchall()
    chunks = writer.connection.execute("SELECT DISTINCT blob FROM chunk").fetchall()
    assert sorted(number for (number,) in chunks) == [number for _, _, number in rows]
    value_seqs: dict[int, list[int]] = {}
    for value, seq, _ in rows:
        value_seqs.setdefault(value, []).append(seq)
    return value_seqs


WEIGHT, LOSS, OTHER = 1, 2, 3


def _emit_rounds(writer: Writer, rounds: range, weight: int) -> None:
    for number in rounds:
        arrays = [(WEIGHT, weight), (LOSS, 1), (OTHER, 100)]
        writer.arrays.add([(value, 3 * number + value, np.zeros(n)) for value, n in arrays])


def test_weights_and_losses_outlast_all_others(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.nscope", budget_bytes=8000)
    writer.begin()
    _emit_rounds(writer, range(2), 10)
    writer.arrays.keep_values(frozenset({WEIGHT}), frozenset({LOSS}))
    _emit_rounds(writer, range(2, 12), 10)
    kept = _kept(writer)
    assert kept[WEIGHT] == [3 * number + WEIGHT for number in range(12)]
    assert kept[LOSS] == [3 * number + LOSS for number in range(12)]
    assert kept[OTHER] == [3 * number + OTHER for number in range(4, 12)]
    writer.abandon()


def test_weights_that_take_too_much_are_spread_over_the_run(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.nscope", budget_bytes=8000)
    writer.begin()
    writer.arrays.keep_values(frozenset({WEIGHT}), frozenset({LOSS}))
    _emit_rounds(writer, range(64), 50)
    kept = _kept(writer)
    # Losses may take an eighth of the budget.
    assert kept[LOSS][:15] == [3 * number + LOSS for number in range(15)]
    weights = [(seq - WEIGHT) // 3 for seq in kept[WEIGHT]]
    assert weights[0] == 0
    assert 32 in weights
    assert weights[-1] == 63  # The newest weight is kept as one of the newest values.
    assert sum(len(seqs) for seqs in kept.values()) == len(writer.arrays._blobs) + len(
        writer.arrays._lasting
    )
    writer.abandon()


def test_a_batch_that_failed_may_drop_weights_again(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.nscope", budget_bytes=8000)
    writer.arrays.keep_values(frozenset({WEIGHT}), frozenset({LOSS}))
    writer.begin()
    _emit_rounds(writer, range(8), 50)
    writer.commit(24, 0, Dropped())
    before = _kept(writer)
    writer.begin()
    _emit_rounds(writer, range(8, 40), 50)
    writer.roll_back()
    assert _kept(writer) == before
    writer.begin()
    _emit_rounds(writer, range(8, 40), 50)
    writer.commit(120, 0, Dropped())
    kept = _kept(writer)
    assert sum(8 * {WEIGHT: 50, LOSS: 1, OTHER: 100}[value] * len(seqs)
               for value, seqs in kept.items()) <= 8000  # fmt: skip
    assert kept[WEIGHT][0] == WEIGHT
    writer.abandon()


@pytest.mark.parametrize("serialises", [True, False])
def test_a_recording_begins_as_one_in_wal_mode(
    serialises: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_file, "_SERIALISES", serialises)
    path = tmp_path / "r.nscope"
    writer = Writer(path, budget_bytes=0)
    ask = writer.connection.execute
    assert ask("PRAGMA journal_mode").fetchone() == ("wal",)
    assert ask("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert ask("SELECT * FROM progress").fetchall() == [(0, 0, 0, 0, 0)]
    assert path.stat().st_mode & 0o777 == 0o600
    statements = ask("SELECT sql FROM sqlite_schema").fetchall()
    writer.finish()
    with Recording.open(path) as recording:
        assert recording.last_seq() == 0
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        assert statements == database.execute("SELECT sql FROM sqlite_schema").fetchall()


def test_the_log_of_large_arrays_is_written_from_its_start_again(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    writer = Writer(path, budget_bytes=1 << 30, page_bytes=new_file.LARGE_PAGE_BYTES)
    for seq in range(1, 13):
        writer.begin()
        writer.arrays.add([(OTHER, seq, np.zeros(1 << 19))])
        writer.commit(seq, 0, Dropped())
    assert path.with_name(f"{path.name}-wal").stat().st_size < 24 << 20  # 48 MiB were written.
    writer.finish()
    with Recording.open(path) as recording:
        assert recording.kept_arrays() == (12, 48 << 20)


def test_as_many_large_pages_are_in_memory_as_a_batch_changes(tmp_path: Path) -> None:
    writer = Writer(
        tmp_path / "r.nscope", budget_bytes=1 << 30, page_bytes=new_file.LARGE_PAGE_BYTES
    )
    tables = writer.connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    (pages,) = writer.connection.execute("PRAGMA cache_size").fetchone()
    assert pages > tables
    writer.finish()


@pytest.mark.parametrize(
    ("level", "size"), [("timing", 4096), ("summary", 1 << 14), ("values", 1 << 16)]
)
def test_pages_are_as_large_as_what_is_recorded(level: Any, size: int, tmp_path: Path) -> None:
    with ns.record(tmp_path / "r.nscope", level=level):
        ns.tensor([1.0]) + 1.0
    with closing(sqlite3.connect(tmp_path / "r.nscope")) as database:
        assert database.execute("PRAGMA page_size").fetchone() == (size,)
