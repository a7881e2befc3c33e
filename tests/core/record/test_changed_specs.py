"""Values whose shapes change: recorded with the executions around them, without own numbers."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from nodescope import native
from nodescope.events import GraphExtended, NodeFinished, RunStarted
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording

RUN = RunStarted("0" * 16, "train.py", ("train.py",), 7, 1_000)
NODE = Node(1, "exp", "exp", "elementwise", outputs=(1,))
SIZES = (4, 4, 2, 4)


def shaped(size: int) -> Value:
    return Value(1, TensorSpec((size,), "float32"), "exp")


def recorder_at(path: Path, level: str) -> Recorder:
    recorder = Recorder(path, level=level)  # type: ignore[arg-type]
    recorder.emit(RUN)
    recorder.emit(GraphExtended((NODE,), (shaped(SIZES[0]),)))
    return recorder


def ran(recorder: Recorder, size: int) -> None:
    array = np.zeros(size, np.float32)
    recorder.emit(NodeFinished(NODE, (), (array,), 1, threading.get_ident(), 3, 4))


def run(recorder: Recorder) -> int:
    """Run the node on arrays of these sizes; return the seq before."""
    first, before = recorder.thread_seq(), SIZES[0]
    for size in SIZES:
        if size != before:
            recorder.emit(GraphExtended((), (shaped(size),)))
        before = size
        ran(recorder, size)
    return first


def sizes_at(recording: Recording, seqs: list[int]) -> list[tuple[int, ...]]:
    return [recording.values(until=seq)[0].value.tensor.shape for seq in seqs]


@pytest.mark.parametrize("core", [True, False])
@pytest.mark.parametrize("level", ["graph", "timing", "summary", "values"])
def test_each_execution_finds_its_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str, core: bool
) -> None:
    if not core:
        monkeypatch.setattr(native, "NotedTimes", None)
        monkeypatch.setattr(native, "NotedOutputs", None)
    recorder = recorder_at(tmp_path / "r.nscope", level)
    first = run(recorder)
    last = recorder.last_seq
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert sizes_at(recording, [last]) == [(4,)]
        rows = recording.executions()
        if level == "graph":
            return
        assert sizes_at(recording, [row.seq for row in rows]) == [(size,) for size in SIZES]
        if core or level == "timing":  # noted in one lot
            assert sizes_at(recording, [row.seq - 1 for row in rows]) == [(4,), (4,), (4,), (2,)]
            assert [row.seq for row in rows] == [*range(first + 1, first + 5)]


@pytest.mark.parametrize("level", ["timing", "values"])
def test_they_stay_if_the_executions_do_not_fit(tmp_path: Path, level: str) -> None:
    recorder = recorder_at(tmp_path / "r.nscope", level)
    ran(recorder, 4)
    assert recorder.flush(20)
    recorder.emit(GraphExtended((), (shaped(2),)))
    ran(recorder, 2)
    room, recorder.most_bytes = recorder.most_bytes, 0
    lost = recorder.last_seq
    recorder.most_bytes = room
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert recording.dropped().executions == 1
        assert sizes_at(recording, [lost - 1, lost]) == [(4,), (2,)]


@pytest.mark.parametrize("level", ["timing", "values"])
def test_they_stay_if_the_rest_is_left_out(tmp_path: Path, level: str) -> None:
    recorder = recorder_at(tmp_path / "r.nscope", level)
    assert recorder.flush(20)
    recorder.lock.acquire()
    try:  # the writer takes nothing
        run(recorder)
        recorder.emit(GraphExtended((), (shaped(8),)))
        assert recorder.last_seq
        recorder.writer._leave_out()
    finally:
        recorder.lock.release()
    recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert recording.executions() == []
        assert sizes_at(recording, [recorder.last_seq]) == [(8,)]


def test_without_an_execution_they_are_written_before_what_follows(tmp_path: Path) -> None:
    recorder = recorder_at(tmp_path / "r.nscope", "timing")
    before = recorder.last_seq
    recorder.emit(GraphExtended((), (shaped(2),)))
    assert recorder.flush(20)
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert sizes_at(recording, [before, recorder.last_seq]) == [(4,), (2,)]
    assert recorder.close()
