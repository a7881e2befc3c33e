"""A disk that is full: the recording waits, goes on when there is room, and counts the gap."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope import api
from nodescope.record import room
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.writer import Writer
from tests.core.record.runs import chain, finished

GRAPH = chain(["x"])


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "RETRY_S", 0.01)


def fill(recorder: Recorder) -> None:
    """From now on the file has room for little more."""
    database = recorder._writer.connection
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count={pages + 3}").fetchall()


def make_room(recorder: Recorder) -> None:
    recorder._writer.connection.execute("PRAGMA max_page_count=1073741823").fetchall()


class Told:
    """What a recorder says about room; each can be waited for."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.full, self.empty = threading.Event(), threading.Event()

    def __call__(self, full: bool, text: str) -> None:
        self.texts.append(text)
        (self.full if full else self.empty).set()


@pytest.mark.parametrize("level", ["values", "summary", "graph"])
def test_it_waits_goes_on_and_counts_what_is_missing(level: str, tmp_path: Path) -> None:
    path, told = tmp_path / "r.nscope", Told()
    acknowledged: list[tuple[int, int]] = []

    def committed(seq: int) -> None:
        with Recording.open(path) as recording:
            acknowledged.append((seq, recording.last_seq()))

    recorder = Recorder(
        path, level=level, queue_bytes=1 << 20, on_commit=committed, on_room=told  # type: ignore[arg-type]
    )  # fmt: skip
    recorder.emit(GRAPH)
    assert recorder.flush(20.0)
    fill(recorder)
    array, emitted = np.arange(2000.0), 0
    while not told.full.is_set():
        recorder.emit(chain(["x", f"y{emitted}"]) if level == "graph" else GRAPH)
        recorder.emit(finished(GRAPH.nodes[0], array))
        emitted += 1
    assert not recorder.flush(20.0)  # at once: nobody waits for a disk
    for _ in range(5000):
        recorder.emit(finished(GRAPH.nodes[0], array))
    emitted += 5000
    make_room(recorder)
    assert told.empty.wait(60)
    assert recorder.flush(60.0)
    recorder.emit(finished(GRAPH.nodes[0], array))
    emitted += 1
    assert recorder.close(20.0)
    assert not recorder.fault
    assert all(inside >= seq for seq, inside in acknowledged)
    with Recording.open(path) as recording:
        assert recording.last_seq() == recorder.last_seq
        dropped = recording.dropped()
        rows = recording.executions()
        if level != "graph":
            assert len(rows) + dropped.executions == emitted
            assert len({row.seq for row in rows}) == len(rows)
        assert recording.state_at(recorder.last_seq)[0][1] == emitted
    waits, goes_on = told.texts
    assert "full" in waits
    assert "recording resumed; missing:" in goes_on
    if dropped.executions:
        assert int(re.findall(r"([\d,]+) execution", goes_on)[0].replace(",", "")) >= 4000


def test_what_is_acknowledged_at_the_end_is_in_the_file(tmp_path: Path) -> None:
    path, told, faults = tmp_path / "r.nscope", Told(), []
    recorder = Recorder(path, level="values", on_room=told, on_fault=faults.append)
    recorder.emit(GRAPH)
    assert recorder.flush(20.0)
    fill(recorder)
    while not told.full.is_set():
        recorder.emit(finished(GRAPH.nodes[0], np.arange(2000.0)))
    assert not recorder.close(0.05)
    assert len(told.texts) == len(faults) == 1
    with Recording.open(path) as recording:
        assert recording.last_seq() == recorder.committed_seq < recorder.last_seq


def test_a_run_tells_the_page_and_never_acknowledges_what_is_not_there(tmp_path: Path) -> None:
    class Link:
        def __init__(self) -> None:
            self.said: list[str] = []
            self.seqs: list[int] = []
            self.committed, self.trouble = self.seqs.append, self.said.append
            self.goodbye: Callable[[int, str], None] = lambda status, error: None

    lines: list[str] = []
    run = api.Run(tmp_path / "r.nscope", level="values", say=lines.append)
    link = run._link = Link()  # type: ignore[assignment]
    run.start()
    np.tanh(ns.tensor(np.ones(2000)))
    assert run.recorder.flush(20.0)
    fill(run.recorder)
    while not link.said:
        np.tanh(ns.tensor(np.ones(2000)))
    make_room(run.recorder)
    while len(link.said) < 2:
        np.tanh(ns.tensor(np.ones(2)))
    assert run.recorder.flush(20.0)
    fill(run.recorder)
    while len(link.said) < 3:
        np.tanh(ns.tensor(np.ones(2000)))
    run.finish()
    assert [bool(text) for text in link.said] == [True, False, True, True]
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert max(link.seqs) == recording.last_seq()
        (gap,) = [row.text for row in recording.logs() if row.stream == "nodescope"]
        assert gap.startswith("recording resumed; missing:")
    assert [line for line in lines if "stopped" in line] == [run.recorder.fault]


def test_arrays_that_fell_to_the_budget_are_back_after_a_failure(tmp_path: Path) -> None:
    def content(failing: bool) -> list[tuple[int, ...]]:
        path = tmp_path / f"{failing}.nscope"
        writer = Writer(path, budget_bytes=100)
        one = [(value, value, np.full(40, value, np.uint8)) for value in (1, 2)]
        two = [(value, value, np.full(40, value, np.uint8)) for value in (3, 4, 5)]
        writer.begin()
        writer.add_blobs(one)
        writer.execute("COMMIT")
        if failing:
            writer.begin()
            assert writer.add_blobs(two) == 3
            writer.roll_back()
        writer.begin()
        assert writer.add_blobs(two) == 3
        writer.execute("COMMIT")
        writer.finish()
        with sqlite3.connect(path) as database:
            rows = database.execute("SELECT id, value FROM blob").fetchall()
        database.close()
        return rows

    assert content(True) == content(False) == [(4, 4), (5, 5)]


def test_an_array_too_large_is_counted_once_however_often_it_is_tried(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "r.nscope", budget_bytes=100)
    for _ in range(3):
        writer.begin()
        assert writer.add_blobs([(1, 1, np.zeros(200, np.uint8))]) == 1
        writer.roll_back()
    assert writer.too_large == 0
    writer.begin()
    writer.add_blobs([(1, 1, np.zeros(200, np.uint8))])
    writer.execute("COMMIT")
    assert writer.too_large == 1
    writer.finish()


def test_a_disk_that_fails_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "r.nscope", on_fault=lambda text: None)

    def fails(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    monkeypatch.setattr(recorder._writer, "commit", fails)
    recorder.emit(GRAPH)
    assert not recorder.close(20.0)
    assert "disk I/O error" in recorder.fault
