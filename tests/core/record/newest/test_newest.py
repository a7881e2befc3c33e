"""The newest values are kept: the last steps whole at any level; what is not kept is counted."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nodescope as ns
from nodescope.api import Run
from nodescope.events import Level, NodeFinished, RunStarted, StepFinished, StepStarted
from nodescope.record.newest.held_values import Held, HeldValues
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import BEHIND, HAS_NAN, HAS_SUMMARY, WANTED, Keeping
from tests.core.record.runs import RUN, chain, finished, record


def keeping(path: Path) -> Keeping:
    with Recording.open(path) as recording:
        result = recording.keeping()
    assert result is not None
    return result


def whole_steps(path: Path) -> set[int]:
    with Recording.open(path) as recording:
        return recording.steps_with_arrays()


@pytest.mark.parametrize("level", ["timing", "summary"])
def test_the_last_steps_are_whole_at_the_end(level: Level, tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level=level, newest=True)
    record(recorder, steps=5)
    assert recorder.close()
    assert whole_steps(path) == {4, 5}
    with Recording.open(path) as recording:
        state = recording.state_at(recording.last_seq())
        assert [item.flags for item, _ in state] == [HAS_SUMMARY | WANTED] * 2
        at = recording.latest_at(2)
        assert at is not None
        assert (at.step, at.summary.min, at.summary.blob) == (5, 502, True)
        array = recording.array(2, at.seq)
        assert array is not None
        np.testing.assert_array_equal(array, np.full((2, 3), 502, dtype=np.float32))
        total, rows, points = recording.history(1)
        assert [row.flags for row in rows[:3]] == [HAS_SUMMARY * (level == "summary")] * 3
        assert total == 5
        assert [point is not None for point in points[:3]] == [level == "summary"] * 3
    assert keeping(path).newest_steps == 2


def test_a_stop_finds_the_step_so_far_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="timing", newest=True)
    graph = chain(["x", "y"])
    recorder.emit(graph)
    for step in range(1, 5):
        recorder.emit(StepStarted(step, step))
        recorder.emit(finished(graph.nodes[0], np.full(3, float(step)), step=step))
        if step < 4:
            recorder.emit(finished(graph.nodes[1], np.full(3, np.nan), step=step))
    here = recorder.thread_seq()
    assert recorder.flush()
    assert recorder.thread_seq() == here  # Records written for a stop do not count as the thread's.
    with Recording.open(path) as recording:
        # A NaN is found when it is written; the values of step 2 may be written then as well.
        assert {3, 4} <= recording.steps_with_arrays() <= {2, 3, 4}
        at = recording.latest_at(1, here)
        assert at is not None
        assert (at.seq, at.summary.blob) == (here, True)
        flags = [execution.flags for execution in recording.executions(node=2)]
        assert (flags[0], flags[-1]) == (0, HAS_SUMMARY | HAS_NAN | WANTED)
    assert recorder.flush()
    assert recorder.close()


def test_layout_and_attributes_come_along(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="timing", newest=True)
    graph = chain(["x"])
    recorder.emit(graph)
    array = np.arange(6.0).reshape(2, 3).T
    event = NodeFinished(graph.nodes[0], (), (array,), 0, 1, 0, 1, {"x2": 3.5})
    recorder.emit(event)
    seq = recorder.thread_seq()
    assert recorder.close()
    with Recording.open(path) as recording:
        assert recording.strides(1, seq) == array.strides
        assert recording.calls() == {seq: {"x2": 3.5}}
        result = recording.array(1, seq)
        assert result is not None
        np.testing.assert_array_equal(result, array)


def test_a_value_that_a_watch_kept_is_not_kept_twice(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="timing", newest=True)
    graph = chain(["x"])
    recorder.emit(graph)
    array = np.ones(4)
    for _ in range(2):
        recorder.emit(finished(graph.nodes[0], array))
        seq = recorder.thread_seq()
        recorder.keep(graph.nodes[0], 1, array, seq)
    assert recorder.flush()
    recorder._kept.clear()
    recorder.keep(graph.nodes[0], 1, array, seq)
    assert recorder.close()
    assert not recorder.writer.fault
    with Recording.open(path) as recording:
        assert recording._all("SELECT count(*) FROM blob") == [(2,)]
        assert recording._all("SELECT count(*) FROM summary") == [(2,)]


def test_what_waits_is_bounded_and_the_oldest_makes_room() -> None:
    returned: list[Any] = []
    recent = HeldValues(10_000, returned.append)
    arrays = [np.zeros(100) for _ in range(20)]
    for seq, array in enumerate(arrays):
        recent.add(Held(seq, 0, ((1, array),), array.nbytes))
        assert recent.nbytes <= 10_000
    assert not recent.fits(10_000)
    kept = [item.seq for item in recent.take().items]
    assert kept == list(range(20 - len(kept), 20))
    assert recent.made_room == len(returned) == 20 - len(kept)
    assert recent.too_large == 1
    assert recent.take().items == ()


def test_the_table_of_separately_kept_values_is_bounded() -> None:
    recent = HeldValues(10_000, lambda array: None)
    for seq in range(50_000):
        recent.add(Held(seq, 0, ((1, np.zeros(100)),), 800))
        assert recent.kept(1, seq)
        assert not recent.kept(1, seq)
    assert len(recent._apart) < 20_000
    assert all(item.outputs == () for item in recent.take().items)


def test_everything_can_be_requested_while_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="timing", newest=True)
    graph = chain(["x", "y"])
    recorder.emit(graph)
    for step in range(1, 9):
        recorder.emit(StepStarted(step, step))
        if step in (3, 5):
            recorder.keep_whole(everything=step == 3, nodes=frozenset({2}))
        for node in graph.nodes:
            recorder.emit(finished(node, np.ones(3), step=step))
        recorder.emit(StepFinished(step, step))
    assert recorder.close()
    with Recording.open(path) as recording:
        whole = recording._all(
            "SELECT b.value, s.step FROM blob AS b JOIN summary AS s "
            "ON s.value = b.value AND s.seq = b.seq"
        )
    assert {step for value, step in whole if value == 1} == {3, 4, 7, 8}
    assert {step for value, step in whole if value == 2} == {3, 4, 5, 6, 7, 8}
    assert keeping(path).nodes == (2,)


def test_a_writer_that_is_behind_gives_up_the_oldest_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go = threading.Event(), threading.Event()

    def block(_: int) -> None:
        reached.set()
        assert go.wait(60)

    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="values", queue_bytes=2_000_000, on_commit=block)
    # The writer stands still: giving way to it would only take time.
    monkeypatch.setattr(recorder, "_give_way", lambda moments=1: None)
    graph = chain(["x"])
    recorder.emit(RunStarted(RUN, "train.py", (), 7, 1_000))
    assert reached.wait(60)
    recorder.emit(graph)
    for number in range(1000):
        recorder.emit(finished(graph.nodes[0], np.full(1000, float(number))))
    go.set()
    assert recorder.close(20)
    told = keeping(path)
    with Recording.open(path) as recording:
        assert recording.dropped().executions == 0
        _, rows, points = recording.history(1, limit=1000)
        whole = [point is not None and point.summary.blob for point in points]
        assert all(whole[-100:])
        assert not any(whole[:500])
        assert [point.summary.max for point in points if point] == list(range(1000))
        for row, kept in zip(rows, whole, strict=True):
            assert row.flags & (WANTED | BEHIND) == (WANTED if kept else BEHIND)
    assert told.behind == whole.count(False) == recording_dropped(path)
    assert told.over_budget == 0


def recording_dropped(path: Path) -> int:
    with Recording.open(path) as recording:
        return recording.dropped().blobs


def test_each_reason_is_counted_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="values", budget_bytes=3 * 800)
    graph = chain(["x"])
    recorder.emit(graph)
    for number in range(10):
        recorder.emit(finished(graph.nodes[0], np.full(100, float(number))))
    recorder.emit(finished(graph.nodes[0], np.zeros(1000)))
    assert recorder.flush()
    assert recorder.close()
    told = keeping(path)
    assert (told.over_budget, told.too_large, told.behind) == (7, 1, 0)


def test_copies_are_returned_when_all_holders_have_released_them(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="summary", newest=True)
    graph = chain(["x"])
    recorder.emit(graph)
    for step in range(1, 9):
        recorder.emit(StepStarted(step, step))
        recorder.emit(finished(graph.nodes[0], np.full(20_000, float(step)), step=step))
        Recorder.flush(recorder) if step % 2 else recorder._share()
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        for row in recording.executions(node=1):
            array = recording.array(1, row.seq)
            assert array is None or np.all(array == row.step)
            at = recording.latest_at(1, row.seq)
            assert at is not None
            assert at.summary.min == at.summary.max == row.step


def test_the_last_observed_steps_are_whole_by_default(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    observed = Run(
        path, level="summary", newest=True, max_slowdown=2.0, explicit=False, say=lambda _: None
    )
    observed.start()
    x = ns.tensor(np.ones((8, 8)))
    for _ in ns.steps(range(40)):
        for _ in range(5):
            x = np.tanh(x @ x) + 0.1
    observed.finish()
    with Recording.open(path) as recording:
        seen = [step.step for step in recording.steps() if step.observed]
        last = set(seen[-2:])
        assert last <= recording.steps_with_arrays()
        for row in recording.executions():
            if row.step in last:
                assert row.flags & WANTED
    told = keeping(path)
    assert (told.limit, told.newest_steps, told.chosen) == (2.0, 2, False)


def test_the_last_calls_outside_of_steps_are_held_beside_the_last_steps() -> None:
    returned: list[Any] = []
    recent = HeldValues(1 << 20, returned.append)
    seq = 0
    for step in range(1, 5):
        recent.step(step)
        recent.add(Held(seq := seq + 1, step, ((1, np.zeros(100)),), 800))
    for _ in range(5):
        recent.call()
        recent.add(Held(seq := seq + 1, 4, ((1, np.zeros(100)),), 800))
    assert [item.seq for item in recent.take().items] == [3, 4, 8, 9]
    assert len(returned) == 5
    assert recent.made_room == 0
    assert recent.nbytes == 0


def test_calls_outside_of_steps_make_room_after_the_steps() -> None:
    recent = HeldValues(10_000, lambda array: None)
    recent.step(1)
    for seq in range(1, 4):
        recent.add(Held(seq, 1, ((1, np.zeros(100)),), 800))
    recent.call()
    for seq in range(4, 30):
        recent.add(Held(seq, 1, ((1, np.zeros(100)),), 800))
        assert recent.nbytes <= 10_000
    kept = [item.seq for item in recent.take().items]
    assert kept == list(range(30 - len(kept), 30))
    assert recent.made_room == 29 - len(kept)
