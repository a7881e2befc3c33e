"""The page's words for a branch in which no node was rerun."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nodescope.debug.replay.execution_index import ExecutionIndex
from nodescope.events import RunFinished, RunStarted, StepFinished, StepStarted
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope_server.handlers.what_if import _redone
from tests.core.record.runs import RUN, chain, finished


@pytest.mark.parametrize(
    ("over", "words"),
    [
        (False, "Nothing that has run so far in step 2 depends on it. Apply changes the program"),
        (True, "Nothing recorded up to the end of step 2 depends on it"),
    ],
)
def test_in_the_middle_of_a_step_more_nodes_may_follow(
    over: bool, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.nscope"
    recorder, graph = Recorder(path), chain(["x"])
    recorder.emit(RunStarted(RUN, "train.py", (), 7, 1_000))
    recorder.emit(graph)
    for step in (1, 2):
        recorder.emit(StepStarted(step, step))
        recorder.emit(finished(graph.nodes[0], np.ones(3), step=step))
        if over or step == 1:
            recorder.emit(StepFinished(step, step))
    if over:
        recorder.emit(RunFinished(0, "", 9))
    assert recorder.close(20)
    with Recording.open(path) as recording:
        book = ExecutionIndex(recording)
        branch: Any = SimpleNamespace(
            until=recording.last_seq(), same=(), changes=(), blocked=(), step=2
        )
        assert _redone(branch, book).startswith(words)
