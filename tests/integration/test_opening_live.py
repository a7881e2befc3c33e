"""A recording that is opened while it is written keeps growing for its reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nodescope.errors import RecordingError
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.wal_checkpoint import fold
from nodescope.record.writer import Writer
from tests.core.record.runs import chain, finished

MANY = 400


@pytest.mark.parametrize("level", ["graph", "values"])
def test_an_open_recording_grows_with_its_writer(tmp_path: Path, level: str) -> None:
    path = tmp_path / "run.nscope"
    recorder = Recorder(path, level=level)  # type: ignore[arg-type]
    with Recording.open(path) as early:
        assert early.last_seq() == 0
        graph = chain(("loss/add",))
        recorder.emit(graph)
        for _ in range(3):  # Long enough for several checkpoints, each of which may empty the log.
            for step in range(MANY):
                recorder.emit(finished(graph.nodes[0], np.zeros((64, 64), np.float32), step=step))
            assert recorder.flush(20.0)
            with Recording.open(path) as late:
                assert late.last_seq() == early.last_seq() == recorder.last_seq
        assert recorder.close(20.0)
    assert fold(path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.nscope"]
    with Recording.open(path) as whole:
        assert whole.last_seq() == recorder.last_seq


def test_a_living_writer_is_not_folded(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    recorder = Recorder(path)
    assert not fold(path)
    recorder.emit(chain(("add",)))
    assert recorder.flush(20.0)
    assert recorder.close(20.0)
    assert not recorder.writer.fault


def test_a_new_recording_without_its_log_is_reported_as_empty(tmp_path: Path) -> None:
    full = tmp_path / "full.nscope"
    writer = Writer(full, budget_bytes=0)
    # The main file before the first checkpoint, without the log that holds the rest.
    bare = tmp_path / "bare.nscope"
    bare.write_bytes(full.read_bytes())
    writer.finish()
    with pytest.raises(RecordingError, match=r"is still empty"):
        Recording.open(bare)


def test_anything_but_a_recording_is_not_folded(tmp_path: Path) -> None:
    path = tmp_path / "run.nscope"
    path.write_bytes(b"something else")
    log = tmp_path / "run.nscope-wal"
    log.write_bytes(b"kept")
    assert not fold(path)
    assert log.read_bytes() == b"kept"
