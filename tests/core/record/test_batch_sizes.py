"""How much the writer gathers for a batch, and when a batch ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nodescope.events import Bus
from nodescope.record.gathering import Gathering, Patience
from nodescope.record.governor.governor import Governor
from nodescope.record.record_queue import BATCH_BYTES, LEAST_BATCH_BYTES
from nodescope.record.recorder import Recorder

MIB = 1 << 20


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    recorder = Recorder(tmp_path / "r.nscope", level="values")
    assert recorder.flush(30)
    yield recorder
    recorder.queued = 0
    recorder.close()


class Waits:
    """Stands for the event `hurry`, and counts."""

    waited = told = 0

    def wait(self, seconds: float) -> bool:
        self.waited += 1
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
            patch.setattr(recorder.writer._gathering, "_slices", 4)
            assert recorder.writer.behind == (queued > 24 * MIB)
            assert recorder.writer._pressed() == (queued > 24 * MIB)
            recorder.writer._gathering.wait()
            waits.append(hurry.waited)
    assert waits == [4, 1]


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
            gathering.followed = self.waited == 6
            return super().wait(seconds)

    queue: Any = SimpleNamespace(hurry=Opened(), queued=0, plenty=1)
    gathering = Gathering(queue, Patience(first=10, followed=4, most=10))
    gathering.wait()
    assert queue.hurry.waited == 7


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
        assert gathering._patience == ((8, 8, 8) if governed else (1, 4, 10))
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
