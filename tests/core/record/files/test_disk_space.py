"""A full disk: the recording waits, goes on when there is room, and counts the gap."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope import api
from nodescope.events import Loss, RunFinished, RunStarted, StepFinished, StepStarted
from nodescope.ir.capabilities import Framework
from nodescope.record.files import disk_space
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import UNWRITTEN, Dropped
from nodescope.record.writer import Writer
from nodescope_server.handlers.missing_values import why_not_kept
from tests.core.record.runs import RUN, chain, finished

GRAPH = chain(["x"])


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_space, "RETRY_S", 0.01)


def fill(recorder: Recorder, pages: int = 3) -> None:
    """Leave room for only a few more pages in the file."""
    database = recorder.writer.file.connection
    (now,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count={now + pages}").fetchall()


def set_aside(recorder: Recorder, pages: int) -> None:
    """Have room for this many pages appear when the recorder gives back its reserve."""
    release = recorder.writer.file.release_reserve

    def given_back() -> None:
        release()
        fill(recorder, pages)

    recorder.writer.file.release_reserve = given_back  # type: ignore[method-assign]


def make_room(recorder: Recorder) -> None:
    recorder.writer.file.connection.execute("PRAGMA max_page_count=1073741823").fetchall()


class EventLog:
    """The messages of a recorder about disk space; a test can wait for each."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.full, self.empty = threading.Event(), threading.Event()

    def __call__(self, full: bool, text: str) -> None:
        self.texts.append(text)
        (self.full if full else self.empty).set()


@pytest.mark.parametrize("level", ["values", "summary", "timing", "graph"])
def test_a_recorder_waits_for_space_continues_and_counts_what_is_missing(
    level: str, tmp_path: Path
) -> None:
    path, told = tmp_path / "r.nscope", EventLog()
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
    since = time.monotonic()
    assert not recorder.flush(60.0)  # `flush` does not wait for a full disk.
    assert time.monotonic() - since < 50.0
    for _ in range(5000):
        recorder.emit(finished(GRAPH.nodes[0], array))
    emitted += 5000
    make_room(recorder)
    while not told.empty.wait(0.01):  # Set once as much was written as the failed write needed.
        for _ in range(100):
            recorder.emit(finished(GRAPH.nodes[0], array))
        emitted += 100
    assert recorder.flush(60.0)
    recorder.emit(finished(GRAPH.nodes[0], array))
    emitted += 1
    assert recorder.close(20.0)
    assert not recorder.writer.fault
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
        told_count = int(re.findall(r"([\d,]+) execution", goes_on)[0].replace(",", ""))
        assert 0 < told_count <= dropped.executions


@pytest.mark.parametrize("merges", [True, False])
def test_a_log_that_cannot_grow_is_merged_before_anything_is_left_out(merges: bool) -> None:
    full = sqlite3.OperationalError("disk I/O error")
    full.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    tried: list[disk_space.Omit] = []
    merged: list[int] = []

    def attempt(omit: disk_space.Omit) -> str:
        tried.append(omit)
        if omit == disk_space.Omit.NOTHING and not (merged and merges):
            raise full
        return "written"

    def merge_log() -> bool:
        merged.append(len(tried))
        return merges

    texts: list[str] = []
    retry = disk_space.DiskSpaceRetry(
        texts.append, lambda: None, lambda: None, merge_log,
        hurried=lambda: False, ending=lambda: True,
    )  # fmt: skip
    assert retry.write(attempt, lambda: None, 100) == "written"
    assert merged == [1]
    nothing, elements = disk_space.Omit.NOTHING, disk_space.Omit.ELEMENTS
    assert tried == ([nothing, nothing] if merges else [nothing, elements])
    assert bool(texts) == (not merges)


@pytest.mark.parametrize(
    ("nbytes", "after_s", "writes"),
    [(100, 1.0, 1), (40, 1.0, 3), (1, disk_space.CALM_S, 1)],
    ids=["as much as failed", "as much in pieces", "little, after a while"],
)
def test_the_disk_has_space_again(
    nbytes: int, after_s: float, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    now = [100.0]
    monkeypatch.setattr(disk_space.time, "monotonic", lambda: now[0])
    room = [False]

    def attempt(omit: disk_space.Omit) -> None:
        if omit == disk_space.Omit.NOTHING and not room[0]:
            raise full

    said: list[str] = []
    retry = disk_space.DiskSpaceRetry(
        said.append, lambda: said.append("back"), lambda: None, lambda: False,
        hurried=lambda: True, ending=lambda: False,
    )  # fmt: skip
    retry.write(attempt, lambda: None, 100)
    room[0] = True
    now[0] += after_s
    for _ in range(writes):
        assert len(said) == 1
        assert retry.missing
        retry.write(attempt, lambda: None, nbytes)
    assert said[1:] == ["back"]
    assert not retry.missing


@pytest.mark.parametrize("late_nodes", [1, 300], ids=["fits", "needs what was set aside"])
def test_a_disk_that_stays_full_costs_neither_the_structure_nor_the_end(
    late_nodes: int, tmp_path: Path
) -> None:
    path, told, faults = tmp_path / "r.nscope", EventLog(), []
    recorder = Recorder(path, level="values", on_room=told, on_fault=faults.append)
    recorder.emit(RunStarted(RUN, "train.py", ("train.py",), 7, 1_000))
    recorder.emit(GRAPH)
    recorder.emit(StepStarted(1, 0))
    recorder.emit(finished(GRAPH.nodes[0], np.zeros(2000), step=1))
    recorder.emit(StepFinished(1, 1, losses=(Loss(1, 0.5),)))
    assert recorder.flush(20.0)
    fill(recorder)
    set_aside(recorder, pages=80)
    emitted, step = 1, 2
    while not told.full.is_set():
        recorder.emit(StepStarted(step, step))
        for _ in range(50):
            recorder.emit(finished(GRAPH.nodes[0], np.zeros(2000), step=step))
        recorder.emit(StepFinished(step, step + 1, losses=(Loss(1, 0.5),)))
        recorder.flush(20.0)  # The writer never falls behind.
        emitted, step = emitted + 50, step + 1
    names = ["x", *(f"late_{number}" for number in range(late_nodes))]
    late = chain(names)
    recorder.emit(late)
    recorder.emit(RunFinished(3, "ValueError: full", 99))
    recorder.close(20.0)
    assert not faults
    unwritten = recorder.writer.unwritten
    with Recording.open(path) as recording:
        assert recording.last_seq() == recorder.writer.committed_seq
        assert [row.node.name for row in recording.nodes()][-len(names) :] == names
        assert [row.step for row in recording.steps()] == list(range(1, step))
        assert all(row.end_ns is not None for row in recording.steps())
        assert [row.step for row in recording.losses()] == list(range(1, step))
        info, keeping = recording.run(), recording.keeping()
        assert (info.status, info.error) == (3, "ValueError: full")
        assert keeping is not None
        assert keeping.unwritten == unwritten
        assert (keeping.over_budget, keeping.behind) == (0, 0)
        dropped = recording.dropped()
        assert len(recording.executions()) + dropped.executions == emitted
        assert dropped.executions == unwritten.executions > 0
        assert (unwritten.first_step, unwritten.last_step) == (1, step - 1)
        assert info.trouble == str(unwritten)
        assert "the disk was full" in info.trouble
        assert f"{unwritten.executions:,} executions" in info.trouble


def test_a_program_that_has_nothing_more_to_write_is_told_that_recording_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_space, "PATIENCE_S", 0.0)
    monkeypatch.setattr(disk_space, "CALM_S", 0.05)
    told = EventLog()
    recorder = Recorder(tmp_path / "r.nscope", level="values", on_room=told)
    recorder.emit(GRAPH)
    assert recorder.flush(20.0)
    fill(recorder)
    while not told.full.is_set():
        recorder.emit(finished(GRAPH.nodes[0], np.arange(2000.0)))
    while recorder.queued:  # everything is written, with omissions
        time.sleep(0.001)
    make_room(recorder)
    assert told.empty.wait(30.0)
    assert "recording resumed; missing:" in told.texts[-1]
    assert recorder.close(20.0)
    assert not recorder.writer.fault


def test_elements_are_left_out_before_executions(tmp_path: Path) -> None:
    path, told = tmp_path / "r.nscope", EventLog()
    recorder = Recorder(path, level="values", on_room=told)
    recorder.emit(GRAPH)
    recorder.emit(finished(GRAPH.nodes[0], np.zeros(20)))
    assert recorder.flush(20.0)
    fill(recorder, pages=60)
    for number in range(40):
        recorder.emit(finished(GRAPH.nodes[0], np.full(40_000, number), at=number))
    recorder.emit(RunFinished(0, "", 99))
    recorder.close(20.0)
    assert told.full.is_set()
    with Recording.open(path) as recording:
        rows = recording.executions()
        assert len(rows) == 41
        last = rows[-1]
        assert last.flags & UNWRITTEN
        at = recording.latest_at(1, last.seq)
        assert at is not None
        assert (at.seq, at.summary.mean, at.summary.blob) == (last.seq, 39, False)
        assert recording.dropped() == Dropped(blobs=40)
        assert recording.run().trouble == "the disk was full: 40 arrays could not be recorded"
        reason = why_not_kept(recording, "values", 1, last.seq)
        assert reason == "Only statistics were kept: the disk was full."


def test_structure_without_room_at_the_end_is_counted(tmp_path: Path) -> None:
    path, told = tmp_path / "r.nscope", EventLog()
    recorder = Recorder(path, level="values", on_room=told)
    recorder.emit(RunStarted(RUN, "train.py", ("train.py",), 7, 1_000))
    assert recorder.flush(20.0)
    fill(recorder, pages=0)
    set_aside(recorder, pages=80)
    names = [f"layer_{number}/multiply" for number in range(2000)]
    recorder.emit(chain(names))
    recorder.emit(RunFinished(0, "", 99))
    assert not recorder.close(20.0)
    with Recording.open(path) as recording:
        assert recording.run().status == 0
        missing = recorder.writer.unwritten.structure
        assert 0 < missing < 2 * len(names)
        assert len(recording.nodes()) == len(names) - (missing - len(names) - 1)
        assert f"{missing:,} graph definitions" in recording.run().trouble


@pytest.mark.deep
def test_records_without_room_are_not_acknowledged(tmp_path: Path) -> None:
    path, told, faults = tmp_path / "r.nscope", EventLog(), []
    recorder = Recorder(path, level="values", on_room=told, on_fault=faults.append)
    recorder.emit(GRAPH)
    assert recorder.flush(20.0)
    fill(recorder, pages=0)
    crowd = chain([f"layer_{number}" for number in range(1000)])
    while not told.full.is_set():
        recorder.emit(crowd)
        recorder.emit(finished(GRAPH.nodes[0], np.arange(2000.0)))
    for number in range(1000):  # Not even the steps fit.
        recorder.emit(StepStarted(number, number))
    assert not recorder.close(100.0)
    assert len(told.texts) == len(faults) == 1
    with Recording.open(path) as recording:
        assert recording.last_seq() == recorder.writer.committed_seq < recorder.last_seq


def test_space_is_set_aside_and_given_back(tmp_path: Path) -> None:
    def used() -> int:
        return sum(os.fstat(fd).st_blocks for fd in descriptors() if not os.fstat(fd).st_nlink)

    def descriptors() -> list[int]:
        return [int(name) for name in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{name}")]

    before = used()
    reserve = disk_space.Reserve(tmp_path)
    assert used() - before >= disk_space.Reserve.BYTES // 512
    assert not list(tmp_path.iterdir())
    reserve.release()
    reserve.release()
    assert used() == before


def test_a_full_disk_is_reported_and_no_unwritten_record_acknowledged(tmp_path: Path) -> None:
    class Link:
        def __init__(self) -> None:
            self.said: list[str] = []
            self.seqs: list[int] = []
            self.trouble = self.said.append
            self.goodbye: Callable[[int, str], None] = lambda status, error: None

        def observed(self, frameworks: tuple[Framework, ...]) -> None:
            pass

        def committed(self, seq: int, *, owes: bool) -> None:
            self.seqs.append(seq)

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
    assert [bool(text) for text in link.said[:3]] == [True, False, True]
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert max(link.seqs) == recording.last_seq()
        (gap,) = [row.text for row in recording.logs() if row.stream == "nodescope"]
        assert gap.startswith("recording resumed; missing:")
    assert lines[-1] == link.said[-1] == str(run.recorder.writer.unwritten)
    assert lines[-1].startswith("the disk was full: ")


def test_arrays_dropped_for_the_budget_return_after_a_failure(tmp_path: Path) -> None:
    def content(failing: bool) -> list[tuple[int, ...]]:
        path = tmp_path / f"{failing}.nscope"
        writer = Writer(path, budget_bytes=100)
        first = [(value, value, np.full(40, value, np.uint8)) for value in (1, 2)]
        two = [(value, value, np.full(40, value, np.uint8)) for value in (3, 4, 5)]
        writer.begin()
        writer.arrays.add(first)
        writer.execute("COMMIT")
        if failing:
            writer.begin()
            assert writer.arrays.add(two) == 3
            writer.roll_back()
        writer.begin()
        assert writer.arrays.add(two) == 3
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
        assert writer.arrays.add([(1, 1, np.zeros(200, np.uint8))]) == 1
        writer.roll_back()
    assert writer.arrays.too_large == 0
    writer.begin()
    writer.arrays.add([(1, 1, np.zeros(200, np.uint8))])
    writer.execute("COMMIT")
    assert writer.arrays.too_large == 1
    writer.finish()


def test_a_disk_that_fails_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "r.nscope", on_fault=lambda text: None)

    def fails(*_: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    monkeypatch.setattr(recorder.writer.file, "commit", fails)
    recorder.emit(GRAPH)
    assert not recorder.close(20.0)
    assert "disk I/O error" in recorder.writer.fault
