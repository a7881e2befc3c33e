"""Packs that wait before they are written, or give way to newer ones first."""

from __future__ import annotations

import math
import random
import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.record.files.disk_space import Omit
from nodescope.record.kept import waiting_packs
from nodescope.record.kept.stored_arrays import StoredArrays
from nodescope.record.kept.waiting_packs import MOST_S, WaitingPacks
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import Dropped
from nodescope.record.writer import Writer
from tests.core.record.kept.test_files import LOSS, OTHER, WEIGHT, kept, pack_of, seqs_in
from tests.core.record.runs import chain, finished
from tests.depth import some


def outcome(path: Path, seed: int, most_waiting: int, *, early: bool = False) -> Any:
    """What is in a file after random batches, some of which fail at first, and what was dropped.

    Args:
        early: Whether packs give way while the batches that replace them grow.
    """
    draw = random.Random(seed)
    writer = Writer(path, budget_bytes=draw.choice((200_000, 400_000)))
    arrays, seq, dropped = writer.arrays, 1, 0
    arrays.most_waiting = most_waiting
    for _ in range(draw.randint(1, 12)):
        if draw.random() < 0.2:
            arrays.keep_values(frozenset({WEIGHT}), frozenset({LOSS}))
        if draw.random() < 0.2:
            arrays.protect(seq, seq + draw.choice((3, 60)))
        packs = [pack_of(seq + 400 * nth, draw.choice((10, 100, 300))) for nth in range(3)]
        packs = packs[: draw.choice((0, 1, 2, 3))]
        few = [(OTHER, seq + 1300, np.full(100, seq + 1300.0))] * draw.choice((0, 1))
        fails = draw.random() < 0.3
        for many in range(early * (len(packs) + 1)):
            arrays.give_way(sum(pack.nbytes for pack in packs[:many]))
        for attempt in range(1 + fails):
            writer.begin()
            fallen = arrays.add_packs(packs) + arrays.add(few)
            if fails and not attempt:
                writer.roll_back()
        writer.commit(seq + 1399, 0, Dropped())
        dropped += fallen
        seq += 1400
    while arrays.waiting:
        writer.begin()
        arrays.write_waiting(1)
        writer.commit(seq, 0, Dropped())
    contents = seqs_in(writer), dropped, arrays._nbytes
    writer.abandon()
    return contents


@pytest.mark.parametrize("seed", some(range(200), 10))
def test_the_same_arrays_are_kept_as_if_none_waited(seed: int, tmp_path: Path) -> None:
    expected = outcome(tmp_path / "at_once.nscope", seed, 0)
    assert outcome(tmp_path / "waiting.nscope", seed, 1 << 30) == expected
    assert outcome(tmp_path / "some.nscope", seed, 100_000) == expected
    for most in (1 << 30, 100_000):
        assert outcome(tmp_path / f"{most}.nscope", seed, most, early=True) == expected


def test_what_gives_way_in_time_is_never_written(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "r.nscope", budget_bytes=200_000)
    gathered = []

    def noting(first: int) -> Any:
        pack = pack_of(first)
        return pack._replace(gather=lambda: (gathered.append(first), pack.gather())[1])

    writer.arrays.most_waiting = 1 << 30
    writer.begin()
    assert writer.arrays.add_packs([noting(first) for first in (1, 101, 201, 301)]) == 200
    writer.commit(400, 0, Dropped())
    assert writer.arrays.oldest is not None
    assert writer.arrays.oldest[0] == 201
    assert (writer.arrays.waiting, writer.arrays.waiting_bytes) == (200, 160_000)
    assert seqs_in(writer) == ([], [])
    assert gathered == []
    writer.begin()
    writer.arrays.write_waiting(1)
    writer.commit(400, 0, Dropped())
    assert seqs_in(writer) == ([], [201])
    writer.abandon()
    assert gathered == [201]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_packs_are_due_after_a_while_or_when_somebody_reads(tmp_path: Path) -> None:
    writer, clock = Writer(tmp_path / "r.nscope", budget_bytes=1 << 20), Clock()
    arrays = writer.arrays = StoredArrays(writer, 1 << 20, clock)
    packs = WaitingPacks(arrays, clock=clock)
    assert packs.due_in() is None
    for seq in (1, 101):
        writer.begin()
        arrays.add_packs([pack_of(seq)])
        writer.commit(seq + 99, 0, Dropped())
        packs.committed()
        clock.now += 1.5
    assert packs.due_in() == 0.0  # The first has waited for 3 s.
    packs.settle(writer, 200, 0, Dropped(), Omit.NOTHING)
    packs.committed()
    assert (packs.many, packs.due_in()) == (0, None)  # As much as that is written at once.
    writer.begin()
    arrays.add_packs([pack_of(201)])
    writer.commit(300, 0, Dropped())
    packs.committed()
    assert packs.due_in() == MOST_S
    assert not packs.waits()
    assert packs.waits(300)
    assert not packs.waits(200)
    packs.want(250)
    assert packs.waits()
    assert packs.due_in() == 0.0
    assert packs.attended(True)
    assert not packs.attended(True)
    writer.begin()
    arrays.add_packs([pack_of(301)])
    writer.commit(400, 0, Dropped())
    assert seqs_in(writer) == ([], [1, 101, 201, 301])  # Nothing waits while somebody follows.
    writer.abandon()


def test_packs_wait_as_long_as_the_recording_is_told_to(tmp_path: Path) -> None:
    writer, clock = Writer(tmp_path / "r.nscope", budget_bytes=1 << 20), Clock()
    arrays = writer.arrays = StoredArrays(writer, 1 << 20, clock)
    packs = WaitingPacks(arrays, math.inf, clock)
    writer.begin()
    arrays.add_packs([pack_of(1)])
    writer.commit(100, 0, Dropped())
    packs.committed()
    clock.now += 1e6
    assert packs.due_in() is None
    packs.want(1)  # A reader, or the end.
    assert packs.due_in() == 0.0
    writer.abandon()


def test_packs_that_a_full_disk_leaves_out_are_counted(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "r.nscope", budget_bytes=1 << 20)
    packs = WaitingPacks(writer.arrays)
    writer.begin()
    writer.arrays.add_packs([pack_of(1), pack_of(101)])
    writer.commit(200, 0, Dropped())
    packs.committed()
    assert packs.settle(writer, 200, 0, Dropped(7), Omit.ELEMENTS) == Dropped(207)
    packs.committed()
    assert (packs.many, packs.nbytes, writer.arrays._nbytes) == (0, 0, 0)
    assert seqs_in(writer) == ([], [])
    writer.abandon()


def emit(recorder: Recorder, many: int) -> None:
    graph = chain(["a", "b", "c"])
    recorder.emit(graph)
    for at in range(many):
        recorder.emit(finished(graph.nodes[at % 3], np.full((7, 3), at // 2, np.float32), at=at))


def test_arrays_are_written_although_nobody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_packs, "MOST_S", 0.05)
    whole = threading.Event()

    def committed(seq: int) -> None:
        if seq >= 301 and not recorder.writer._packs.many:
            whole.set()

    recorder = Recorder(tmp_path / "r.nscope", level="values", on_commit=committed)
    emit(recorder, 300)
    assert recorder.flush(30, elements=False)
    assert whole.wait(30)
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert kept(recording) == [*range(300)]
    recorder.close()


def test_a_recording_says_that_arrays_still_wait(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="values")
    emit(recorder, 300)
    while recorder.writer.committed_seq < recorder.last_seq:
        recorder.writer._progress.acquire()
        recorder.writer._progress.wait(1)
        recorder.writer._progress.release()
    assert recorder.writer._packs.many == 300
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert recording.waits(150)
        assert kept(recording) == []
        assert recorder.flush(30)
        assert kept(recording) == [*range(300)]
        assert not recording.waits(150)
    recorder.close()


@pytest.mark.parametrize("read", [False, True])
def test_what_waits_at_the_end_is_in_one_file(read: bool, tmp_path: Path) -> None:
    """With a reader, through the log as before; without, straight into the file."""
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="values")
    emit(recorder, 900)
    assert recorder.flush(30, elements=False)
    reader = sqlite3.connect(path)
    if read:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM node").fetchall()
    else:
        reader.close()
    assert recorder.close(30)
    reader.close()
    assert recorder.writer.file.logs == read
    with Recording.open(path) as recording:
        assert kept(recording) == [*range(900)]
    if not read:
        assert [file.name for file in tmp_path.iterdir()] == ["r.nscope"]


def test_a_killed_end_leaves_what_was_committed(tmp_path: Path) -> None:
    """A journal beside the file undoes a half-written change."""
    writer = Writer(tmp_path / "r.nscope", budget_bytes=1 << 20)
    writer.begin()
    writer.arrays.add_packs([pack_of(1)])
    writer.commit(100, 0, Dropped())
    assert writer.leave_log()
    writer.begin()
    writer.arrays.add_packs([pack_of(101)])
    journal = tmp_path / "r.nscope-journal"
    assert journal.exists()
    copy = tmp_path / "copy.nscope"
    copy.write_bytes((tmp_path / "r.nscope").read_bytes())
    copy.with_name("copy.nscope-journal").write_bytes(journal.read_bytes())
    with Recording.open(copy) as recording:
        assert recording.kept_arrays() == (100, 80_000)
    writer.roll_back()
    writer.abandon()


def test_packs_give_way_to_a_batch_before_it_is_written(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "r.nscope", budget_bytes=200_000)
    arrays = writer.arrays
    arrays.most_waiting = 1 << 30
    writer.begin()
    arrays.add_packs([pack_of(1), pack_of(101)])
    writer.commit(200, 0, Dropped())
    assert arrays.give_way(40_000)
    assert arrays.waiting_bytes == 160_000
    assert arrays.give_way(80_000)
    assert arrays.waiting_bytes == 80_000
    writer.begin()
    assert arrays.add_packs([pack_of(201)]) == 100  # those that gave way
    writer.roll_back()
    writer.begin()
    assert arrays.add_packs([pack_of(201)]) == 100
    writer.commit(300, 0, Dropped())
    assert arrays.oldest is not None
    assert arrays.oldest[0] == 101
    assert not arrays.give_way(240_000)  # the batch alone would take more than the budget
    arrays.most_waiting = 0
    assert not arrays.give_way(800)  # somebody follows the run
    writer.abandon()
