"""A stop is reported with its records; many elements are written later, and none is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from nodescope.events import RunFinished, RunStarted
from nodescope.record import shutdown
from nodescope.record.pending_arrays import MOST_BYTES, PendingArrays
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import LATER, WANTED, Dropped
from nodescope.record.writer import Writer
from tests.core.record.runs import RUN, chain, finished

MANY = 40
SIZE = 40_000  # Elements of float64: more bytes than are written before a stop is reported.


class Stepwise:
    """A recorder with queued executions whose writer continues only when released."""

    def __init__(self, path: Path, *, most: int = MANY, **options: int) -> None:
        self.path = path
        self.at = threading.Semaphore(0)  # Released at each commit.
        self.go = threading.Semaphore(0)
        self.recorder = Recorder(path, level="values", on_commit=self._wait, **options)
        self.recorder._record_outputs = None  # Arrays arrive as events instead.
        self.recorder.emit(RunStarted(RUN, "run", ("run.py",), 1, 0))
        assert self.at.acquire(timeout=60)
        graph = chain(["x"])
        self.recorder.emit(graph)
        for number in range(most):
            self.recorder.emit(finished(graph.nodes[0], np.full(SIZE, float(number))))

    def _wait(self, _: int) -> None:
        self.at.release()
        assert self.go.acquire(timeout=60)

    def stop(self) -> None:
        """Wait for the records like a debugger; the writer is blocked once they can be read."""
        hurried = threading.Thread(target=self._once_hurried)
        hurried.start()
        assert self.recorder.flush(20, elements=False)
        hurried.join(60)

    def _once_hurried(self) -> None:
        assert self.recorder.hurry.wait(60)
        self.free()

    def free(self) -> None:
        """Never block the writer again."""
        for _ in range(1000):
            self.go.release()


def test_records_can_be_read_before_their_elements(tmp_path: Path) -> None:
    run = Stepwise(tmp_path / "r.nscope")
    settled = threading.Event()
    settle = run.recorder.writer._settle_some

    def held() -> None:
        assert settled.wait(60)
        settle()

    run.recorder.writer._settle_some = held  # type: ignore[method-assign]
    run.stop()
    with Recording.open(run.path) as recording:
        rows = recording.executions()
        assert len(rows) == MANY
        assert run.recorder.writer.owes
        last = rows[-1]
        assert last.flags & (LATER | WANTED) == LATER
        assert recording.array(1, last.seq) is None
        at = recording.latest_at(1, last.seq)
        assert at is not None
        assert at.summary.mean == MANY - 1  # Statistics are written at once.
    settled.set()
    assert run.recorder.flush(20)
    assert not run.recorder.writer.owes
    with Recording.open(run.path) as recording:
        for number, row in enumerate(recording.executions()):
            assert row.flags & WANTED
            array = recording.array(1, row.seq)
            assert array is not None
            assert (array == number).all()
    assert run.recorder.close()


def test_the_newest_late_elements_are_kept(tmp_path: Path) -> None:
    nbytes = SIZE * 8
    run = Stepwise(tmp_path / "r.nscope", budget_bytes=10 * nbytes)
    run.stop()
    graph = chain(["x"])
    for number in range(MANY, MANY + 3):
        run.recorder.emit(finished(graph.nodes[0], np.full(SIZE, float(number))))
    assert run.recorder.close()
    with Recording.open(run.path) as recording:
        kept = [recording.array(1, row.seq) for row in recording.executions()]
        there = [number for number, array in enumerate(kept) if array is not None]
        assert there == list(range(MANY + 3))[-10:]
        assert recording.dropped().blobs == MANY + 3 - 10


def test_the_queue_accounts_for_no_bytes_at_the_end(tmp_path: Path) -> None:
    run = Stepwise(tmp_path / "r.nscope")
    run.stop()
    assert run.recorder.flush(20)
    assert run.recorder.queued == 0
    assert run.recorder.close()


def test_late_elements_that_a_slow_disk_does_not_take_are_named(tmp_path: Path) -> None:
    run = Stepwise(tmp_path / "r.nscope")
    run.recorder.emit(RunFinished(0, "", 9))
    assert not run.recorder.close(0.01)
    mib = MANY * SIZE * 8 / (1 << 20)
    assert run.recorder.writer.left_out == f"{MANY} executions and {MANY} arrays ({mib:.1f} MiB)"
    run.free()
    run.recorder.writer._thread.join(60)
    assert run.recorder.writer.left_out == f"{MANY} executions and {MANY} arrays ({mib:.1f} MiB)"
    with Recording.open(run.path) as recording:
        assert recording.dropped().executions == MANY
        assert recording.run().status == 0


def test_merging_into_one_file_is_deferred_if_it_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, finish = threading.Event(), Writer.finish

    def slow(writer: Writer) -> None:
        assert go.wait(60)
        finish(writer)

    monkeypatch.setattr(Writer, "finish", slow)
    monkeypatch.setattr(shutdown, "FOLDING_S", 0.05)
    recorder = Recorder(tmp_path / "r.nscope", level="values")
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], np.ones(3)))
    assert recorder.close(0.01)  # Closing succeeds: no record is missing.
    assert recorder.writer.written
    with Recording.open(recorder.path) as recording:
        assert len(recording.executions()) == 1
    go.set()
    recorder.writer._thread.join(60)


def test_a_large_array_is_progress(tmp_path: Path) -> None:
    """A single batch may take longer than the wait for a disk that makes no progress."""
    recorder = Recorder(tmp_path / "r.nscope", level="values")
    seen = set()
    insert = recorder.writer.file.insert

    def looked(*args: object, **options: object) -> None:
        seen.add(recorder.writer._gets_on())
        insert(*args, **options)  # type: ignore[arg-type]

    recorder.writer.file.insert = looked  # type: ignore[method-assign]
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], np.ones(4 << 20)))  # 32 MiB.
    assert recorder.close()
    assert len(seen) >= 8  # The array is written in parts.


def test_a_retry_is_not_progress(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "r.nscope", budget_bytes=1 << 20)
    seen = []
    for _ in range(3):
        writer.begin()
        writer.insert("log", [(1, 0, 0, "stdout", "x")])
        seen.append(writer.moves)
        writer.roll_back()
    assert len(set(seen)) == 1
    writer.begin()
    writer.insert("log", [(1, 0, 0, "stdout", "x")])
    writer.commit(1, 0, Dropped())
    assert writer.moves > seen[0]
    writer.finish()


def test_what_is_written_at_once_is_bounded() -> None:
    owed = PendingArrays()
    first = np.zeros(MOST_BYTES // 16)  # Half of the limit.
    owed.add([(1, seq, first) for seq in range(9)], ours=True)
    assert len(owed.first()) == 3
    assert all(item is first for item in owed.paid(3))
    assert (owed.many, owed.nbytes) == (6, 6 * first.nbytes)
    owed.add([(2, 9, np.zeros(MOST_BYTES))], ours=False)
    assert owed.drop() == 7
    assert (owed.many, owed.nbytes) == (0, 0)
