"""Rows are written in few statements, and none is lost, added or changed by that."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodescope.record.recording import Recording
from nodescope.record.rows import Dropped
from nodescope.record.writer import Writer

Row = tuple[int, str | None, bytes]


@pytest.mark.parametrize("count", [*range(18), 2047, 2048, 2049, 3000, 6145])
def test_as_many_rows_as_there_are(tmp_path: Path, count: int) -> None:
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
    assert sum("INSERT" in statement for statement in statements) == -(-count // 2048)


def test_rows_are_put_over_others(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run.nscope", budget_bytes=0)
    for rows in ([(1, 1, 10, None, None, 1), (2, 3, 20, None, None, 1)], [(2, 3, 20, 4, 25, 0)]):
        writer.begin()
        writer.insert("step", rows, replace=True)
        writer.commit(4, 25, Dropped())
    writer.finish()
    with Recording.open(tmp_path / "run.nscope") as recording:
        steps = [(step.step, step.end_seq, step.observed) for step in recording.steps()]
    assert steps == [(1, None, True), (2, 4, False)]
