"""The seq of a thread's last record, told while executions are not numbered yet."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope import native
from nodescope.events import GraphExtended, Level, NodeFinished, RunFinished, RunStarted
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.record.noted_outputs import noted_outputs
from nodescope.record.noted_times import ListedTimes, noted_times
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording

NODE = Node(1, "n1", "exp", "elementwise", outputs=(1,))
MANY = 30


def nothing() -> None:
    """In place of what a recorder does when a sink is full, or asleep."""


def sinks() -> list[Any]:
    listed = ListedTimes(nothing, nothing)
    return [listed, noted_times(nothing, nothing), noted_outputs(4096, nothing, nothing, keep=True)]


def note(sink: Any, thread: int) -> None:
    if native.NotedOutputs is not None and isinstance(sink, native.NotedOutputs):  # type: ignore[arg-type]
        sink(NODE, 1, 1, thread, 3, 4, (), (np.ones(2),))
    else:
        sink(1, 1, thread, 3, 4)


@pytest.mark.parametrize("place", range(3))
def test_a_sink_tells_how_many_there_are_up_to_those_of_a_thread(place: int) -> None:
    sink = sinks()[place]
    assert sink.up_to(7) == sink.up_to(0) == 0
    note(sink, 7)
    note(sink, 1 << 62)
    assert (sink.up_to(7), sink.up_to(1 << 62)) == (0, 2)
    note(sink, 7)
    assert (sink.up_to(7), sink.up_to(1 << 62)) == (3, 0)
    sink.take()
    assert sink.up_to(7) == 0


@pytest.mark.parametrize("core", [True, False], ids=["native", "Python"])
@pytest.mark.parametrize("level", ["graph", "timing", "summary", "values"])
def test_each_thread_is_told_the_seq_of_its_own_record(
    level: Level, core: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not core:
        monkeypatch.setattr(native, "NotedTimes", None)
        monkeypatch.setattr(native, "NotedOutputs", None)
    path = tmp_path / "run.nscope"
    recorder = Recorder(path, level=level)
    recorder.emit(RunStarted("0" * 16, "train.py", ("train.py",), 7, 1_000))
    recorder.emit(GraphExtended((NODE,), (Value(1, TensorSpec((2,), "float64"), "v1"),)))
    before = recorder.thread_seq()

    def ran(time_ns: int) -> int:
        thread = threading.get_ident()
        recorder.emit(NodeFinished(NODE, (), (np.ones(2),), 0, thread, time_ns, time_ns + 1))
        return recorder.thread_seq()

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        told = []
        for time_ns in range(MANY):
            thread = one if time_ns % 7 < 4 else other
            told.append(thread.submit(ran, time_ns).result())
            assert other.submit(recorder.thread_seq).result() <= told[-1]
    assert told == list(range(before + 1, before + 1 + MANY))
    recorder.emit(RunFinished(0, "", MANY))
    assert recorder.close()
    with Recording.open(path) as recording:
        rows = recording.executions()
    assert [row.seq for row in rows] == (told[-1:] if level == "graph" else told)
