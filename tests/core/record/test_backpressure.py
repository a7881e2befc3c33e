"""Backpressure: a program that waits for its writer loses nothing, and never waits in vain."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.api import Run
from nodescope.record import shutdown
from nodescope.record.backpressure import Backpressure
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.writer import Writer


def test_nothing_is_lost_however_slow_the_disk_is(tmp_path: Path, monkeypatch) -> None:
    """The writer begins only once the program waits for it, again and again."""
    asked = threading.Semaphore(0)
    wait, commit = Recorder.wait_for_room, Writer.add_blobs

    def waits(self: Recorder, nbytes: int, most_bytes: int) -> None:
        asked.release()
        wait(self, nbytes, most_bytes)

    def slow(self: Writer, arrays: list) -> int:
        if any(array.nbytes > 1000 for *_, array in arrays):
            asked.acquire(timeout=20)
        return commit(self, arrays)

    monkeypatch.setattr(Recorder, "wait_for_room", waits)
    monkeypatch.setattr(Writer, "add_blobs", slow)
    run = Run(tmp_path / "run.nscope", level="values", waits=True)
    run.bus.probes[0]._most = 100_000
    run.start()
    for _ in ns.steps(range(30)):
        np.tanh(ns.tensor(np.ones(4000)))
    asked.release(100)
    run.finish()
    with Recording.open(run.info.recording) as recording:
        assert not recording.dropped().words
        assert recording.kept_arrays()[0] == 60


@pytest.mark.parametrize(("waits", "still_s"), [(True, 60.0), (False, 2.0)])
def test_the_end_is_waited_for_as_the_program_waits(
    waits: bool, still_s: float, tmp_path: Path, monkeypatch
) -> None:
    """A disk that stands still for some seconds takes nothing from a checked program."""
    asked: list[float] = []
    wait_for = shutdown.wait_for

    def patient(*given: Any, still_s: float, **more: Any) -> bool:
        asked.append(still_s)
        return wait_for(*given, still_s=still_s, **more)

    monkeypatch.setattr(shutdown, "wait_for", patient)
    run = Run(tmp_path / "run.nscope", level="values", waits=waits)
    run.start()
    run.finish()
    assert asked == [still_s]


def test_a_program_that_waits_is_not_sampled(tmp_path: Path) -> None:
    """The time between its nodes is the writer's as well."""
    for waits in (True, False):
        run = Run(tmp_path / f"{waits}.nscope", level="values", waits=waits)
        run.start()
        assert ("nodescope-sampler" in {thread.name for thread in threading.enumerate()}) != waits
        run.finish()


def test_a_recording_that_was_given_up_is_not_waited_for(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.nscope", level="values")
    recorder.close()
    recorder._queued = 1 << 30
    Backpressure(recorder, most_bytes=1).emit(None)  # type: ignore[arg-type]


def test_an_array_larger_than_what_may_wait_is_kept(tmp_path: Path) -> None:
    run = Run(tmp_path / "run.nscope", level="values", waits=True)
    run.bus.probes[0]._most = 1000
    run.start()
    for _ in ns.steps(range(3)):
        np.tanh(ns.tensor(np.ones(100_000)))
    run.finish()
    with Recording.open(run.info.recording) as recording:
        assert not recording.dropped().words
        assert recording.kept_arrays()[0] == 6
