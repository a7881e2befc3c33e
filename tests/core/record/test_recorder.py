"""The recorder at every level, under pressure, and when things break."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nodescope as ns
from nodescope.errors import RecordingError
from nodescope.events import (
    LEVELS,
    GraphExtended,
    Level,
    Logged,
    NodeFailed,
    NodeFinished,
    StepFinished,
    StepStarted,
)
from nodescope.record import queue_writer
from nodescope.record.batch import Batch
from nodescope.record.gathering import Gathering
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import FAILED, HAS_INF, HAS_NAN, HAS_SUMMARY, Dropped
from nodescope.record.writer import Writer
from tests.core.record.runs import RUN, chain, finished, last_acknowledged, record


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_keeps_what_it_says(level: Level, tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.nscope"
    recorder = Recorder(path, level=level)
    record(recorder)
    assert recorder.close()
    assert [p.name for p in path.parent.iterdir()] == ["r.nscope"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with Recording.open(path) as recording:
        info = recording.run()
        assert (info.id, info.level, info.state, info.status) == (RUN, level, "recorded", 0)
        assert [row.node.name for row in recording.nodes()] == ["a/x", "a/y"]
        assert [row.producer for row in recording.values()] == [1, 2]
        assert [step.step for step in recording.steps()] == [1, 2, 3]
        assert [log.text for log in recording.logs()] == ["step 1", "step 2", "step 3"]
        assert recording.source(str(Path(chain.__code__.co_filename))) is not None
        state = recording.state_at(recording.last_seq())
        assert [(event.node, event.step, times) for event, times in state] == [(1, 3, 3), (2, 3, 3)]
        assert len(recording.executions()) == (2 if level == "graph" else 6)
        at = recording.latest_at(2)
        assert (at is not None) == (level in ("summary", "values"))
        if at is not None:
            assert (at.summary.min, at.summary.max) == (302, 302)
            assert at.summary.blob == (level == "values")
            array = recording.array(2, at.seq)
            assert (array is not None) == (level == "values")
            if array is not None:
                np.testing.assert_array_equal(array, np.full((2, 3), 302, dtype=np.float32))
                assert not array.flags.writeable


def test_flags_failures_and_levels_by_scope(tmp_path: Path) -> None:
    graph = chain(["in/x", "out/y"])
    inside, outside = graph.nodes
    recorder = Recorder(tmp_path / "r.nscope", level="timing", levels={"in": "summary"})
    recorder.emit(graph)
    bad = np.array([np.nan, np.inf])
    recorder.emit(finished(inside, bad))
    recorder.emit(finished(outside, bad))
    recorder.emit(NodeFailed(outside, (), 0, 1, 9, "ValueError: no"))
    failed = recorder.thread_seq()
    assert recorder.flush()
    with Recording.open(tmp_path / "r.nscope") as recording:
        flags = [execution.flags for execution in recording.executions()]
        assert flags == [HAS_NAN | HAS_INF | HAS_SUMMARY, 0, FAILED]
        assert recording.failure(failed) == "ValueError: no"
    recorder.close()


def test_overflow_drops_values_first_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, go = threading.Event(), threading.Event()

    def block(_: int) -> None:
        reached.set()
        assert go.wait(60)

    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="values", queue_bytes=200_000, on_commit=block)
    # The writer stands still: giving way to it would only take time.
    monkeypatch.setattr(recorder, "_give_way", lambda moments=1: None)
    graph = chain(["x"])
    recorder.emit(graph)
    assert reached.wait(60)
    array = np.full(1000, np.nan)
    for _ in range(1000):
        recorder.emit(finished(graph.nodes[0], array))
    go.set()
    assert recorder.close(20)
    with Recording.open(path) as recording:
        dropped, kept = recording.dropped(), recording.executions()
        assert recording.last_seq() == 1002  # The last record reports which values were kept.
        assert dropped.executions > 0
        assert len(kept) + dropped.executions == 1000
        # Every kept execution has exact statistics, since arrays are dropped first.
        assert all(item.flags & 15 == HAS_SUMMARY | HAS_NAN for item in kept)
        assert len(kept) + dropped.summaries == 1000
        _, _, points = recording.history(1)
        whole = sum(point is not None and point.summary.blob for point in points)
        assert whole < len(kept)
        assert whole + dropped.blobs == 1000


def test_the_program_gives_way_to_the_writer_before_anything_is_dropped(tmp_path: Path) -> None:
    path, go = tmp_path / "r.nscope", threading.Event()
    recorder = Recorder(path, level="summary", queue_bytes=100_000, on_commit=lambda _: go.wait(60))
    give_way, times = recorder._give_way, 0

    def gives_way(moments: int = 1) -> None:
        nonlocal times
        times += 1
        give_way()
        go.set()
        assert recorder.flush()
        go.clear()

    recorder._give_way = gives_way  # type: ignore[method-assign]
    graph = chain(["x"])
    recorder.emit(graph)
    for _ in range(1000):
        recorder.emit(finished(graph.nodes[0], np.ones(10)))
    go.set()
    assert recorder.close(20)
    assert times > 1
    with Recording.open(path) as recording:
        assert recording.dropped() == Dropped()
        assert len(recording.executions()) == 1000


def test_waits_for_the_writer_get_longer_up_to_a_bound(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="values", queue_bytes=1 << 20)
    waits: list[int] = []

    def noted(moments: int = 1) -> None:
        waits.append(moments)

    recorder._give_way = noted  # type: ignore[method-assign]
    recorder._await_room(2 << 20)
    assert waits[:7] == [1, 2, 4, 8, 16, 16, 16]
    assert len(waits) < 300
    assert 2048 <= sum(waits) <= 2 * 2048 + 16
    waits.clear()
    recorder._await_room(1)  # There is room.
    assert waits == []
    assert recorder.close(20)


def test_a_program_does_not_wait_for_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "r.nscope", level="summary")
    slept: list[float] = []
    monkeypatch.setattr(queue_writer.time, "sleep", slept.append)
    recorder._give_way()
    assert len(slept) == 1
    recorder.writer._room.stuck = True
    recorder._give_way()
    recorder.writer._room.stuck = False
    monkeypatch.undo()
    assert recorder.close(20)
    recorder._give_way()  # The writer has ended, so this does not call `time.sleep`.
    assert len(slept) == 1


def test_the_budget_keeps_the_newest_arrays(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="values", budget_bytes=3 * 800)
    graph = chain(["x"])
    recorder.emit(graph)
    for number in range(10):
        recorder.emit(finished(graph.nodes[0], np.full(100, float(number))))
    recorder.emit(finished(graph.nodes[0], np.zeros(1000)))
    assert recorder.close()
    with Recording.open(path) as recording:
        total, rows, points = recording.history(1)
        kept = [point is not None and point.summary.blob for point in points]
        assert total == 11
        assert kept == [False] * 7 + [True] * 3 + [False]
        assert recording.dropped().blobs == 8
        array = recording.array(1, rows[9].seq)
        assert array is not None
        assert array[0] == 9


def test_a_recording_is_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    recorder = Recorder(path, level="timing")
    graph = chain(["x", "y"])
    recorder.emit(graph)
    assert recorder.flush()
    with Recording.open(path) as recording:
        after = 0
        seen = 0
        for round_ in range(20):
            for node in graph.nodes * 10:
                recorder.emit(finished(node, np.zeros(1), at=round_))
            assert recorder.flush()
            until = recording.last_seq()
            seen += len(recording.executions(after, until))
            after = until
        assert seen == 400
        assert recorder.close()
    with Recording.open(path) as recording:
        assert len(recording.executions()) == 400


def test_threads_keep_their_order(tmp_path: Path) -> None:
    graph = chain(["x"])
    recorder = Recorder(tmp_path / "r.nscope", level="timing")
    recorder.emit(graph)
    seqs: dict[int, list[int]] = {}

    def emit(thread: int) -> None:
        thread_seqs = seqs[thread] = []
        for at in range(200):
            array, here = np.zeros(1), threading.get_ident()
            recorder.emit(NodeFinished(graph.nodes[0], (), (array,), thread, here, at, at + 500))
            thread_seqs.append(recorder.thread_seq())

    threads = [threading.Thread(target=emit, args=(index,)) for index in range(8)]
    for item in threads:
        item.start()
    for item in threads:
        item.join(60)
    assert recorder.close(20)
    with Recording.open(tmp_path / "r.nscope") as recording:
        for thread, thread_seqs in seqs.items():
            rows = [execution for execution in recording.executions() if execution.step == thread]
            assert [row.seq for row in rows] == thread_seqs
            assert [row.start_ns for row in rows] == list(range(200))


def test_a_deleted_file_stops_the_recording_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    faults: list[str] = []
    recorder = Recorder(path, on_fault=faults.append)
    recorder.emit(chain(["x"]))
    assert recorder.flush()
    path.unlink()
    recorder.emit(chain(["x", "y"]))
    recorder.close(20)
    recorder.emit(chain(["x"]))
    assert len(faults) == 1
    assert "deleted" in faults[0]


@pytest.mark.parametrize(("level", "queue"), [
    ("timing", "_queue_noted"), ("summary", "_queue_outputs"), ("values", "_queue_outputs"),
])  # fmt: skip
def test_a_fault_while_noted_executions_are_queued_stops_the_recording_alone(
    level: Level, queue: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def broken(*given: object) -> None:
        raise MemoryError("none left")

    x = ns.tensor(np.ones(4))
    with ns.record(tmp_path / "r.nscope", level=level):
        for step in ns.steps(range(3)):
            if step == 1:
                monkeypatch.setattr(Recorder, queue, broken)
            y = x
            for _ in range(600):  # more than a sink notes at a time
                y = y * 1.0
    assert y.numpy().tolist() == [1.0] * 4
    # One line of the writer's thread, or of the bus if an event comes first, or of both.
    said = capfd.readouterr().err.splitlines()
    assert 1 <= len(said) <= 2
    for line in said:
        assert "your program continues" in line
        assert "MemoryError: none left" in line


@pytest.mark.parametrize("end", [Recorder.close, Recorder.flush])
def test_a_fault_while_the_last_noted_executions_are_queued_is_the_recordings(
    end: Callable[[Recorder, float], bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[str] = []
    recorder = Recorder(tmp_path / "r.nscope", level="timing", on_fault=faults.append)
    recorder.emit(chain(["x"]))
    assert recorder.flush(30)

    def broken(*given: object) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr(Recorder, "_queue_noted", broken)
    recorder._times.asleep = False  # The writer does not take them first.
    note = recorder.times_sink()
    assert note is not None
    note(1, 1, 7, 0, 1)
    assert not end(recorder, 30)
    assert not recorder.close(30)
    assert len(faults) == 1
    assert "none left" in faults[0]


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RecordingError, match="not a recording"):
        Recorder(tmp_path / "file")
    with pytest.raises(RecordingError, match="cannot write"):
        Recorder(tmp_path / "file" / "r.nscope")
    with pytest.raises(RecordingError, match="level"):
        Recorder(tmp_path / "r.nscope", level="all")  # type: ignore[arg-type]
    assert (tmp_path / "file").read_text() == "mine"


KILLED = """
import sys
import numpy as np
from tests.core.record.runs import chain, finished
from nodescope.record.recorder import Recorder
graph = chain(["x", "y"])
recorder = Recorder(sys.argv[1], level="values", on_commit=lambda seq: print(seq, flush=True))
recorder.emit(graph)
while True:
    for node in graph.nodes * 200:
        recorder.emit(finished(node, np.zeros(50)))
    recorder.flush()  # so that the queue never overflows
"""


@pytest.mark.parametrize("commits", [1, 3, 8])
def test_kill_9_loses_nothing_that_was_acknowledged(commits: int, tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    acknowledged = last_acknowledged(KILLED, path, commits)
    with Recording.open(path) as recording:
        last = recording.last_seq()
        assert last >= acknowledged
        assert recording.dropped().executions == 0
        assert len(recording.executions(0, last)) == last - 1


def test_a_forked_child_is_inert(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    root = str(Path(__file__).resolve().parents[3])
    program = """
import os, sys
from tests.core.record.runs import chain
from nodescope.record.recorder import Recorder
recorder = Recorder(sys.argv[1])
recorder.emit(chain(["x"]))
assert recorder.flush()
child = os.fork()
if child == 0:
    recorder.emit(chain(["x", "y"]))
    assert not recorder.flush()
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
recorder.emit(chain(["x", "y", "z"]))
assert recorder.close()
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    subprocess.run(
        [sys.executable, "-c", program, str(path)], env=environment, check=True, timeout=60
    )
    with Recording.open(path) as recording:
        assert [node.node.name for node in recording.nodes()] == ["x", "x", "y", "z"]


def test_structure_is_never_dropped(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.nscope", queue_bytes=1)
    graph: GraphExtended = chain([f"n{index}" for index in range(50)])
    for _ in range(20):
        recorder.emit(graph)
    assert recorder.close()
    with sqlite3.connect(tmp_path / "r.nscope") as database:
        assert database.execute("SELECT count(*) FROM node").fetchone() == (1000,)
    database.close()


def test_many_steps_are_written_in_few_statements(tmp_path: Path) -> None:
    # Each statement releases the interpreter lock, and a busy program keeps it for milliseconds.
    writer = Writer(tmp_path / "run.nscope", budget_bytes=0)
    batch = Batch(writer, level="timing")
    statements: list[str] = []
    writer.connection.set_trace_callback(statements.append)
    seq = iter(range(1, 10_000))
    for step in range(1, 1001):
        batch.event(next(seq), StepStarted(step, step * 10))
        batch.event(next(seq), StepFinished(step, step * 10 + 5))
    batch.event(next(seq), StepStarted(1001, 20_000, observed=False))
    batch.commit(2001, Dropped())
    batch.event(next(seq), StepFinished(1001, 20_005, observed=False))
    batch.commit(2002, Dropped())
    assert len(statements) < 15  # Includes the statements for the sums of step times.
    writer.finish()
    with Recording.open(tmp_path / "run.nscope") as recording:
        steps = recording.steps()
    assert len(steps) == 1001
    assert (steps[0].start_seq, steps[0].end_seq) == (1, 2)
    last = steps[-1]
    assert (last.start_seq, last.end_seq, last.end_ns, last.observed) == (2001, 2002, 20_005, False)


def test_records_that_come_while_others_are_written_gather(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered, done = [], threading.Event()

    def gather(gathering: Gathering) -> None:
        gathered.append(len(gathering._queue.records))

    monkeypatch.setattr(Gathering, "wait", gather)

    def another(seq: int) -> None:
        if seq < 9:
            recorder.emit(Logged("stdout", "line", 0, seq))
        else:
            done.set()

    recorder = Recorder(tmp_path / "r.nscope", on_commit=another)
    recorder.emit(Logged("stdout", "line", 0, 0))
    assert done.wait(60)
    assert recorder.close()
    assert gathered == [1] * 9


def test_where_only_the_newest_is_whole_less_of_it_stays(tmp_path: Path) -> None:
    def budget_of(name: str, given: int | None = None, *, newest: bool) -> tuple[int, int]:
        recorder = Recorder(tmp_path / name, newest=newest, budget_bytes=given)
        try:
            before = recorder.keeping().budget_bytes
            recorder.keep_whole(everything=True, nodes=frozenset())
            return before >> 20, recorder.keeping().budget_bytes >> 20
        finally:
            recorder.close()

    assert budget_of("newest.nscope", newest=True) == (128, 256)
    assert budget_of("values.nscope", newest=False) == (256, 256)
    assert budget_of("given.nscope", 1 << 30, newest=True) == (1024, 1024)
