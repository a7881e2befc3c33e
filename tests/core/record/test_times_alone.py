"""Executions noted by their times alone: numbered late, in the order in which they came."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from nodescope.events import GraphExtended, Logged, RunStarted
from nodescope.ir.graph import Node
from nodescope.record.queued import NotedTimes, Unnumbered
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording

RUN = RunStarted("0" * 16, "train.py", ("train.py",), 7, 1_000)


def recorder_at(path: Path) -> Recorder:
    recorder = Recorder(path, level="timing")
    recorder.emit(RUN)
    recorder.emit(GraphExtended((Node(1, "exp", "exp", "elementwise"),), ()))
    return recorder


def test_they_come_before_what_follows_and_are_known_to_their_thread(tmp_path: Path) -> None:
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
    assert recorder.flush(20)  # a reader finds the last one, too
    with Recording.open(tmp_path / "r.nscope") as recording:
        assert [row.seq for row in recording.executions()] == [
            *range(first + 1, first + 5),
            first + 6,
        ]
        assert [row.seq for row in recording.logs()] == [first + 5]
    assert recorder.close()


def test_threads_note_theirs_side_by_side(tmp_path: Path) -> None:
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
        together.wait()  # an identifier may be given again once a thread has ended

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


def test_a_signal_handler_takes_none_while_they_are_taken() -> None:
    class Interrupted(NotedTimes):
        taken_within: list[Unnumbered] | None = None

        def __getitem__(self, key: Any) -> Any:
            if self.taken_within is None:  # the handler runs a node, too
                self.append((2, 1, 7, 5, 6))
                self.taken_within = self.take()
            return super().__getitem__(key)

    noted = Interrupted([(1, 1, 7, 3, 4)])
    assert noted.take() == [(1, 1, 7, 3, 4), (2, 1, 7, 5, 6)]
    assert noted.taken_within == []
    assert noted == []
