"""Executions noted by their times alone: they are numbered late, in order of arrival."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from nodescope import native
from nodescope.events import GraphExtended, Logged, RunStarted
from nodescope.ir.graph import Node, TensorSpec, Value
from nodescope.record import noted_times
from nodescope.record.noted_times import AT_ONCE, ListedTimes
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording

RUN = RunStarted("0" * 16, "train.py", ("train.py",), 7, 1_000)


def recorder_at(path: Path) -> Recorder:
    recorder = Recorder(path, level="timing")
    recorder.emit(RUN)
    recorder.emit(GraphExtended((Node(1, "exp", "exp", "elementwise"),), ()))
    return recorder


def test_executions_precede_later_records_and_count_for_their_thread(tmp_path: Path) -> None:
    recorder = recorder_at(tmp_path / "r.nscope")
    note, here = recorder.times_sink(), threading.get_ident()
    assert note is not None
    first = recorder.thread_seq()
    for start in range(3):
        note(1, 1, here, start, start + 1)
    assert recorder.thread_seq() == first + 3
    note(1, 1, here, 3, 4)
    recorder.emit(Logged("stdout", "hello", 1, 5))
    assert recorder.thread_seq() == first + 5
    note(1, 1, here, 6, 7)
    assert recorder.flush(20)  # The last execution can be read too.
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert [row.seq for row in recording.executions()] == [
            *range(first + 1, first + 5),
            first + 6,
        ]
        assert [row.seq for row in recording.logs()] == [first + 5]
    assert recorder.close()


def test_a_changed_shape_takes_no_number_whenever_the_writer_looks(tmp_path: Path) -> None:
    recorder = recorder_at(tmp_path / "r.nscope")
    note, here = recorder.times_sink(), threading.get_ident()
    assert note is not None
    first = recorder.last_seq
    for place in range(4):
        recorder.emit(GraphExtended((), (Value(7, TensorSpec((place,), "float32"), "exp"),)))
        if place % 2:
            assert recorder.last_seq == first + place  # As the writer asks.
        note(1, 1, here, place, place + 1)
    assert recorder.last_seq == first + 4
    recorder.emit(GraphExtended((), (Value(7, TensorSpec((9,), "float32"), "exp"),)))
    assert recorder.close()  # Also writes what no execution follows.
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert [row.seq for row in recording.executions()] == [*range(first + 1, first + 5)]
        database = sqlite3.connect(tmp_path / "r.nscope")
        rows = database.execute("SELECT seq, shape FROM value ORDER BY row").fetchall()
        database.close()
    assert rows == [*((first + place + 1, str(place)) for place in range(4)), (first + 5, "9")]


def test_threads_note_executions_concurrently(tmp_path: Path) -> None:
    recorder = recorder_at(tmp_path / "r.nscope")
    note = recorder.times_sink()
    assert note is not None
    many = 3_000
    lasts: dict[int, int] = {}
    together = threading.Barrier(3)

    def run(step: int) -> None:
        here = threading.get_ident()
        together.wait()
        for start in range(many):
            note(1, step, here, start, start)
            if start % 100 == 50:
                recorder.emit(Logged("stdout", str(start), step, start))
        lasts[step] = recorder.thread_seq()
        # Wait for the other threads, because an ended thread's identifier may be reused.
        together.wait()

    threads = [threading.Thread(target=run, args=(step,)) for step in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        rows = recording.executions()
        seqs = [row.seq for row in rows] + [line.seq for line in recording.logs()]
        assert recording.dropped().executions == 0
    assert len(rows) == 3 * many
    assert len(set(seqs)) == len(seqs)
    for step in range(3):
        own = [row for row in rows if row.step == step]
        assert [row.start_ns for row in own] == list(range(many))
        assert own[-1].seq == lasts[step]


def test_a_signal_handler_takes_no_rows_during_a_take() -> None:
    class Interrupted(ListedTimes):
        taken_within: Any = None

        def __getitem__(self, key: Any) -> Any:
            if self.taken_within is None:  # The signal handler runs a node and takes the rows.
                self.append((2, 1, 7, 5, 6))
                self.taken_within, _ = self.take()
            return super().__getitem__(key)

    noted = Interrupted(lambda: None, lambda: None)
    noted(1, 1, 7, 3, 4)
    assert noted.take() == ([(1, 1, 7, 3, 4), (2, 1, 7, 5, 6)], None)
    assert noted.taken_within == []
    assert noted == []


def test_the_native_core_notes_what_python_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.NotedTimes is not None

    def noted_by(core: bool) -> list[object]:
        seen: list[object] = []
        runs: dict[int, int] = {3: 1}

        def full() -> None:
            rows, thread = noted.take()
            assert thread is None
            assert len(noted) == 0
            assert noted_times.count(rows) == AT_ONCE
            seen.append(noted_times.execution_rows(rows, 7, runs))
            seen.append(noted_times.last_of_threads(rows, 7))
            seen.append(noted_times.nodes(rows))

        with monkeypatch.context() as patch:
            if not core:
                patch.setattr(native, "NotedTimes", None)
            noted = noted_times.noted_times(full, lambda: seen.append("woken"))
        assert isinstance(noted, ListedTimes) != core
        for number in range(2 * AT_ONCE + 3):
            if number == 300:
                noted.asleep = True
            noted(number % 5, -number, 1 << 62 | number % 3, number, 1 << 40 | number)
        seen.append([list(row) for row in noted_times.unpacked(noted.take()[0])])
        assert not noted.asleep
        return seen

    assert noted_by(core=True) == noted_by(core=False)
    noted = native.NotedTimes(2, lambda: None, lambda: None)
    with pytest.raises(TypeError, match="float"):
        noted(1, 1, 7, 3, 4.5)
    with pytest.raises(OverflowError):
        noted(1, 1, 7, 3, 1 << 64)
    assert len(noted) == 0
    for number in range(100):  # Rows are not taken meanwhile.
        noted(number, 1, 7, 3, 4)
    rows, thread = noted.take()
    assert noted_times.nodes(rows) == list(range(100))
    assert thread == 7
    assert noted.take() == (b"", None)
    noted(1, 1, 8, 3, 4)
    noted(1, 1, 9, 3, 4)
    assert noted.take()[1] is None
    noted(1, 1, 9, 3, 4)
    assert noted.take()[1] == 9


@pytest.mark.parametrize("core", [True, False])
def test_what_is_lost_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, core: bool
) -> None:
    if not core:
        monkeypatch.setattr(native, "NotedTimes", None)
    recorder = recorder_at(tmp_path / "r.nscope")
    note, here = recorder.times_sink(), threading.get_ident()
    assert note is not None
    before = recorder.last_seq
    recorder.off = True  # As after a writer failure.
    for start in range(AT_ONCE):
        note(1, 1, here, start, start)
    assert recorder.last_seq == before + AT_ONCE
    recorder.off = False
    assert recorder.close()
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert recording.dropped().executions == AT_ONCE
