"""Backpressure: a program that waits for its writer loses nothing, and always goes on."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope import arrays
from nodescope.api import Run
from nodescope.events import NodesFinished
from nodescope.ir.graph import TensorSpec
from nodescope.ir.track import Track
from nodescope.record import shutdown
from nodescope.record.backpressure import Backpressure
from nodescope.record.kept.stored_arrays import StoredArrays
from nodescope.record.queue_writer import QueueWriter
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import Dropped
from tests.core.record.runs import chain, finished


def test_nothing_is_lost_however_slow_the_disk_is(tmp_path: Path, monkeypatch) -> None:
    """Each time, the writer starts only when the program waits for it."""
    asked = threading.Semaphore(0)
    wait, commit = QueueWriter.wait_for_room, StoredArrays.add

    def waits(self: QueueWriter, nbytes: int, most_bytes: int) -> None:
        asked.release()
        wait(self, nbytes, most_bytes)

    def slow(self: StoredArrays, arrays: list) -> int:
        if any(array.nbytes > 1000 for *_, array in arrays):
            asked.acquire(timeout=20)
        return commit(self, arrays)

    monkeypatch.setattr(QueueWriter, "wait_for_room", waits)
    monkeypatch.setattr(StoredArrays, "add", slow)
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


@pytest.mark.parametrize(("waits", "still_s"), [(True, 60.0), (False, 20.0)])
def test_the_end_is_waited_for_as_the_program_waits(
    waits: bool, still_s: float, tmp_path: Path, monkeypatch
) -> None:
    """If the disk stalls for seconds, nothing is lost; a checked program waits for a minute."""
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
    """The time between its nodes includes time spent waiting for the writer."""
    for waits in (True, False):
        run = Run(tmp_path / f"{waits}.nscope", level="values", waits=waits)
        run.start()
        assert ("nodescope-sampler" in {thread.name for thread in threading.enumerate()}) != waits
        run.finish()


class Elsewhere:
    """An array of another library."""

    def __init__(self, elements: Any) -> None:
        self.elements = elements


class ElsewhereArrays(arrays.OpaqueValues):
    def spec(self, array: Any) -> TensorSpec:
        return TensorSpec(array.elements.shape, "float64")

    def nbytes(self, array: Any) -> int:
        return int(array.elements.nbytes)

    def capture(self, array: Any, level: Any) -> Any:
        return array.elements.copy()


@pytest.mark.parametrize("kind", ["block", "elsewhere"])
def test_a_program_gives_way_before_executions_are_dropped(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer takes records only every fifth time that the program gives way to it."""
    monkeypatch.setattr(arrays, "_known", {**arrays._known, Elsewhere: ElsewhereArrays()})
    go, ended = threading.Event(), threading.Event()
    recorder = Recorder(
        tmp_path / "r.nscope", level="summary", queue_bytes=100_000,
        on_commit=lambda _: ended.is_set() or go.wait(60),
    )  # fmt: skip

    times = itertools.count(1)

    def gives_way(moments: int = 1) -> None:
        if next(times) % 5 == 0:
            go.set()
            assert recorder.flush(60)
            go.clear()

    recorder._give_way = gives_way  # type: ignore[method-assign]
    graph = chain([f"node_{at}" for at in range(100)])
    recorder.emit(graph)
    block = Track(graph.nodes, (), (0,) * 101)
    for at in range(300):
        if kind == "block":
            recorder.emit(NodesFinished(block, 0, np.zeros((100, 2), np.int64), 1, 1))
        else:
            recorder.emit(finished(graph.nodes[0], Elsewhere(np.full(2000, float(at)))))
    ended.set()
    go.set()
    assert recorder.close(20)
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert recording.dropped() == Dropped()


def test_a_recording_that_was_given_up_is_not_waited_for(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.nscope", level="values")
    recorder.close()
    recorder.queued = 1 << 30
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
