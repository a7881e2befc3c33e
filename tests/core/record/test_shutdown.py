"""The end of a recording: the wait lasts while the writer makes progress; omissions are counted."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nodescope.events import RunFinished, RunStarted
from nodescope.record import shutdown
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from tests.core.record.runs import RUN, chain, finished


class Blocked:
    """A recorder whose writer is blocked at its first commit, with 1,000 executions queued."""

    def __init__(self, path: Path) -> None:
        reached, self.go = threading.Event(), threading.Event()

        def block(_: int) -> None:
            reached.set()
            assert self.go.wait(60)

        self.path = path
        self.recorder = Recorder(path, level="summary", on_commit=block)
        graph = chain(["x"])
        self.recorder.emit(RunStarted(RUN, "run", ("run.py",), 1, 0))
        assert reached.wait(60)
        self.recorder.emit(graph)
        for _ in range(1000):
            self.recorder.emit(finished(graph.nodes[0], np.ones(10)))
        self.recorder.emit(RunFinished(3, "", 9))

    def left_out(self) -> int:
        """How many executions were dropped; checks that all are counted and the end is recorded."""
        self.go.set()
        self.recorder.writer._thread.join(60)
        with Recording.open(self.path) as recording:
            dropped = recording.dropped().executions
            assert len(recording.executions()) + dropped == 1000
            assert recording.run().status == 3
            assert recording.last_seq() == 1005  # Two of the records report which values were kept.
        return dropped


def test_records_that_a_stalled_disk_does_not_take_are_counted(tmp_path: Path) -> None:
    blocked = Blocked(tmp_path / "r.nscope")
    assert not blocked.recorder.close(0.01)
    assert blocked.left_out() == 1000


def test_ctrl_c_at_the_end_leaves_the_rest_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> bool:
        raise KeyboardInterrupt

    blocked = Blocked(tmp_path / "r.nscope")
    monkeypatch.setattr(shutdown, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        blocked.recorder.close()
    assert blocked.left_out() == 1000


class Writer:
    """Ends after a number of checks; with ``gets_on``, it makes progress until then."""

    def __init__(self, looks: int, gets_on: bool) -> None:
        self.looks, self.gets_on, self.rows = looks, gets_on, 0

    def join(self, timeout_s: float) -> None:
        assert 0 < timeout_s <= shutdown.ANNOUNCED_S
        self.looks -= 1
        self.rows += self.gets_on

    def is_alive(self) -> bool:
        return self.looks > 0


@pytest.mark.parametrize(
    ("looks", "gets_on", "most_s", "ended", "told"),
    [
        (1, False, 60, True, 0),
        (9, True, 60, True, 1),
        (3, False, 60, True, 1),
        (4, False, 60, False, 1),
        (9, True, 0, False, 0),
    ],
)
def test_the_end_waits_for_a_writer_that_makes_progress(
    looks: int, gets_on: bool, most_s: float, ended: bool, told: int
) -> None:
    writer, said = Writer(looks, gets_on), []
    result = shutdown.wait_for(
        writer, lambda: writer.rows, lambda: said.append(1), still_s=5, most_s=most_s
    )
    assert (result, len(said)) == (ended, told)
