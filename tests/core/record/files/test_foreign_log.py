"""A log beside a finished recording does not come from nodescope, and is not used."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.wal_checkpoint import fold
from tests.core.record.runs import chain, finished


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mine.nscope"
    recorder = Recorder(path, level="values")
    graph = chain(["x"])
    recorder.emit(graph)
    recorder.emit(finished(graph.nodes[0], np.ones(3)))
    assert recorder.close()
    return path


def test_a_log_beside_a_finished_recording_is_ignored(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(path, other / "a")
    database = sqlite3.connect(other / "a")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("DELETE FROM node")
    database.commit()
    log = tmp_path / "mine.nscope-wal"
    shutil.copy(other / "a-wal", log)  # As unpacked from an archive.
    database.close()
    content, forged = path.read_bytes(), log.read_bytes()
    assert len(forged) > 1000
    with Recording.open(path) as recording:
        assert [row.node.name for row in recording.nodes()] == ["x"]
    assert not fold(path)
    assert path.read_bytes() == content
    assert log.read_bytes() == forged
