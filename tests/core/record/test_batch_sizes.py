"""How much the writer gathers for a batch, and when a batch ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nodescope.events import Bus, StepFinished, StepStarted
from nodescope.ir.graph import Node
from nodescope.record.gathering import SLICE_S, Gathering, Patience
from nodescope.record.governor.governor import Governor
from nodescope.record.queue_writer import QueueWriter
from nodescope.record.record_queue import BATCH_BYTES, LEAST_BATCH_BYTES
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording

MIB = 1 << 20


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(tmp_path / "r.nscope", level="values")
    assert recorder.flush(30)
    yield recorder
    recorder.queued = 0
    recorder.close()


class Waits:
    """Stands for the event `hurry`, and counts slices of time."""

    waited = told = 0

    def wait(self, seconds: float) -> bool:
        self.waited += round(seconds / SLICE_S)
        return False

    def set(self) -> None:
        self.told += 1

    def is_set(self) -> bool:
        return False


def test_the_writer_gathers_until_there_is_plenty(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    with monkeypatch.context() as patch:
        for queued in (24 * MIB, 24 * MIB + 1):
            hurry = Waits()
            patch.setattr(recorder, "hurry", hurry)
            patch.setattr(recorder, "queued", queued)
            patch.setattr(recorder.writer._gathering, "_slices", 8)
            assert recorder.writer.behind == (queued > 24 * MIB)
            assert recorder.writer._pressed() == (queued > 24 * MIB)
            recorder.writer._gathering.wait()
            waits.append(hurry.waited)
    assert waits == [8, 5]


@pytest.mark.parametrize("followed", [False, True])
def test_first_batches_come_soon_and_later_ones_grow(followed: bool) -> None:
    """Each batch takes the processor, and Python's lock, from the program."""
    queue: Any = SimpleNamespace(hurry=Waits(), queued=0, plenty=1)
    gathering = Gathering(queue, Patience(first=1, followed=4, most=10))
    gathering.followed = followed
    totals = [0]
    for _ in range(6):
        gathering.wait()
        totals.append(queue.hurry.waited)
    assert np.diff(totals).tolist() == ([1, 2, 4, 4, 4, 4] if followed else [1, 2, 4, 8, 10, 10])


def test_a_page_that_is_opened_meanwhile_ends_a_long_wait() -> None:
    class Opened(Waits):
        def wait(self, seconds: float) -> bool:
            gathering.followed = True
            return super().wait(seconds)

    queue: Any = SimpleNamespace(hurry=Opened(), queued=0, plenty=1)
    gathering = Gathering(queue, Patience(first=10, followed=4, most=10))
    gathering.wait()
    assert queue.hurry.waited == 5


def test_a_batch_takes_more_while_more_comes_and_nobody_waits() -> None:
    class Filled(Waits):
        def wait(self, seconds: float) -> bool:
            queue.records.append("one more")
            return super().wait(seconds)

    queue: Any = SimpleNamespace(hurry=Filled(), queued=0, plenty=1, records=[])
    gathering = Gathering(queue, Patience(first=1, followed=4, most=10, open=True))
    now = time.monotonic()
    assert gathering.more(now)
    assert gathering.more(now)
    assert queue.hurry.waited == 1  # only while nothing is queued
    assert not gathering.more(now - 10 * SLICE_S)
    gathering.followed = True
    assert not gathering.more(now)
    gathering.followed = False
    queue.hurry.is_set = lambda: True
    assert not gathering.more(now)
    queue.hurry, queue.records = Waits(), []
    assert not gathering.more(now)
    assert queue.hurry.waited == 1
    assert not Gathering(queue, Patience(first=1, followed=4, most=10)).more(now)


class OnThisThread:
    """A recorder at level `values` whose writer runs only when it is called."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch, budget_bytes: int) -> None:
        monkeypatch.setattr(QueueWriter, "start", lambda writer: None)
        self.commits: list[int] = []
        self.recorder = Recorder(
            path, level="values", budget_bytes=budget_bytes, on_commit=self.commits.append
        )
        self.writer, self.ran = self.recorder.writer, 0
        self.most_held, self.step = 0, 1

    def run(self, many: int, first: float | None = None) -> None:
        """Run executions of 100 KB each; the first one computes this number."""
        for nth in range(many):
            self.ran += 1
            output = np.full(12_500, first if first is not None and not nth else float(self.ran))
            node = Node(1, "n", "add", "elementwise", outputs=(1,))
            sink: Any = self.recorder.outputs_sink()
            assert sink(node, 1, self.step, 7, self.ran, self.ran + 1, (), (output,))
        self.recorder.number_times()

    def feed(self, rounds: int, many: int) -> Callable[[float], bool]:
        """A replacement of `Gathering.more`: for so many times, the program runs executions."""
        left = iter(range(rounds))

        def more(began: float) -> bool:
            held = self.writer.file.arrays.waiting_bytes + self.writer._batch._noted.kept.nbytes
            self.most_held = max(self.most_held, held)
            if next(left, None) is None:
                return False
            self.run(many)
            return True

        return more


def test_an_open_batch_replaces_what_still_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = OnThisThread(tmp_path / "r.nscope", monkeypatch, 40 * MIB)
    more = held.feed(30, 80)
    monkeypatch.setattr(held.writer._gathering, "more", more)
    held.run(80)
    while held.recorder.records or more(0):
        held.writer._write_some()
    assert held.recorder.queued == 0
    assert held.commits[-1] == held.recorder.seq == held.ran == 31 * 80
    assert len(held.commits) <= 31 * 80 * 100_000 // (40 * MIB) + 1
    assert held.most_held <= 40 * MIB + 4 * MIB  # a lot becomes a pack at once
    kept = held.writer.file.arrays.waiting
    assert 40 * MIB - 16 * MIB <= kept * 100_000 <= 40 * MIB
    assert kept + held.recorder.dropped().blobs == held.ran
    held.writer.file.abandon()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nothing_gives_way_once_a_first_nan_has_appeared(
    number: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = OnThisThread(tmp_path / "r.nscope", monkeypatch, 40 * MIB)
    writer, recorder = held.writer, held.recorder

    def more(began: float) -> bool:
        if held.ran < 4000:
            held.run(80)
        return held.ran < 4000

    monkeypatch.setattr(writer._gathering, "more", more)
    recorder.emit(StepStarted(1, 0))
    held.run(80)
    recorder.emit(StepFinished(1, 1))
    recorder.emit(StepStarted(2, 2))
    held.step = 2
    held.run(80, first=number)
    recorder.emit(StepFinished(2, 3))
    recorder.emit(StepStarted(3, 4))
    held.step = 3
    held.run(80)
    while held.ran < 4000:
        writer._write_some()
        held.run(80)
    writer._write_some()
    writer.closing = True
    writer._settle_rest()
    writer.file.finish()
    with Recording.open(tmp_path / "r.nscope") as recording:
        around = [row.seq for row in recording.executions() if row.step in (1, 2)]
        assert len(around) == 160
        assert all(recording.array(1, seq) is not None for seq in around)


@pytest.mark.parametrize("why", ["closing", "a stop", "a reader", "followed", "limited"])
def test_a_batch_somebody_waits_for_is_not_kept_open(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = OnThisThread(tmp_path / "r.nscope", monkeypatch, 256 * MIB)
    writer = held.writer
    asked: list[float] = []
    monkeypatch.setattr(
        writer._gathering, "more", lambda began: bool(asked.append(began)) or len(asked) < 2
    )
    held.run(10)
    if why == "closing":
        writer.closing = True
    elif why == "a stop":
        writer._hasty = held.recorder.seq
    elif why == "a reader":
        writer._packs.want(held.recorder.seq)
    elif why == "followed":
        writer.attended(True)
    else:
        monkeypatch.setattr(writer._gathering, "_patience", Patience(8, 8, 8))
    writer._write_some()
    assert asked == []
    assert held.commits == [held.recorder.seq]
    assert held.recorder.queued == 0
    writer.file.abandon()


@pytest.mark.parametrize("governed", [False, True])
def test_a_limited_run_writes_as_often_whether_it_is_followed_or_not(
    tmp_path: Path, governed: bool
) -> None:
    policy = Governor(2.0, tell=print, bus=Bus()) if governed else None
    recorder = Recorder(tmp_path / "r.nscope", level="timing", policy=policy)
    if policy is not None:
        policy.govern(recorder)
    try:
        gathering = recorder.writer._gathering
        assert gathering._patience == ((8, 8, 8, False) if governed else (1, 4, 10, True))
        recorder.writer.attended(True)
        assert gathering.followed
        recorder.writer.attended(False)
        assert not gathering.followed
    finally:
        recorder.close()


def test_a_small_queue_has_plenty_earlier_and_so_has_a_limited_run(tmp_path: Path) -> None:
    def plenty(name: str, policy: Governor | None = None, queue_bytes: int = 64 * MIB) -> int:
        path = tmp_path / name
        recorder = Recorder(path, level="values", policy=policy, queue_bytes=queue_bytes)
        if policy is not None:
            policy.govern(recorder)
        recorder.close()
        return recorder.plenty

    assert plenty("small.nscope", queue_bytes=MIB) == 3 * MIB // 8
    assert plenty("limited.nscope", Governor(2.0, tell=print, bus=Bus())) == 8 * MIB
    assert plenty("default.nscope") == 24 * MIB


def test_a_batch_ends_earlier_while_the_program_waits_for_room(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fills = recorder.writer._fills
    assert (fills(BATCH_BYTES), fills(BATCH_BYTES + 1)) == (False, True)
    monkeypatch.setattr(recorder, "queued", recorder.nearly_full - MIB)
    assert (fills(LEAST_BATCH_BYTES), fills(LEAST_BATCH_BYTES + 1)) == (False, True)


@pytest.mark.parametrize("gathers", [True, False])
def test_a_program_that_waits_for_room_ends_the_gathering(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, gathers: bool
) -> None:
    def give_way(moments: int) -> None:
        recorder.queued = 0

    hurry = Waits()
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "hurry", hurry)
        patch.setattr(recorder, "_give_way", give_way)
        patch.setattr(recorder, "gathers", gathers)
        patch.setattr(recorder, "queued", recorder.nearly_full)
        recorder._await_room(1)
        recorder._await_room(1)  # there is room now
    assert hurry.told == gathers
