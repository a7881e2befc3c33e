"""Why a value is missing: the true reason and one remedy, for each way to lose it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodescope.debug.history.history import History, nothing
from nodescope.events import StepStarted
from nodescope.record.recorder import Recorder
from nodescope.record.recording import Recording
from nodescope.record.rows import BEHIND, CHANGED, LATER, WANTED, Execution, Keeping
from nodescope_server.handlers.missing_values import _told, why_not_kept
from nodescope_server.handlers.values import latest_known
from tests.core.record.runs import chain, finished

DEFAULT = Keeping("summary", limit=2.0, newest_steps=2, newest_bytes=64 << 20,
                  budget_bytes=256 << 20, chosen=False)  # fmt: skip


def written(path: Path, arrays: list[Any], **options: Any) -> tuple[int, ...]:
    """Record one value several times, once per step. Returns the seqs."""
    recorder = Recorder(path, **options)
    graph = chain(["x"])
    recorder.emit(graph)
    seqs = []
    for step, array in enumerate(arrays, 1):
        recorder.emit(StepStarted(step, step))
        recorder.emit(finished(graph.nodes[0], array, step=step))
        seqs.append(recorder.thread_seq())
        recorder.flush()
    assert recorder.close()
    return tuple(seqs)


@pytest.mark.parametrize(
    ("options", "place", "reason"),
    [
        ({"level": "summary"}, 0, "Only statistics were kept, at level summary; run with"),
        ({"level": "timing"}, 0, "Only its time was kept, at level timing; run with"),
        ({"level": "values", "budget_bytes": 2000}, 0, "newer values took its place in the budget"),
        ({"level": "values", "budget_bytes": 500}, 0, "larger than the whole budget"),
    ],
)
def test_a_recording_says_why(
    tmp_path: Path, options: dict[str, Any], place: int, reason: str
) -> None:
    path = tmp_path / "r.nscope"
    seqs = written(path, [np.ones(100) for _ in range(4)], **options)
    with Recording.open(path) as recording:
        said = why_not_kept(recording, options["level"], 1, seqs[place])
        assert recording.array(1, seqs[place]) is None
    assert reason in said
    assert "Raise --budget." in said or "run with --level values." in said


def ran(flags: int) -> list[Execution]:
    return [Execution(1, 1, 1, 1, 0, 1, flags)]


def changed(**change: Any) -> Keeping:
    return msgspec.structs.replace(DEFAULT, **change)


@pytest.mark.parametrize(
    ("keeping", "flags", "reason"),
    [
        (DEFAULT, 0, "to stay below 2× slower; the newest steps and those of the first NaN"),
        (DEFAULT, BEHIND, "the recorder fell behind, and dropped older values for newer ones"),
        (DEFAULT, WANTED, "newer values took its place in the budget of 256 MiB. Raise --budget."),
        (DEFAULT, LATER, "not written yet, or the program ended before they were"),
        (DEFAULT, LATER | WANTED, "newer values took its place in the budget of 256 MiB."),
        (DEFAULT, WANTED | CHANGED, "the program wrote to its array"),
        (changed(newest_steps=0), 0, "to stay below 2× slower. Raise --max-slowdown."),
        (changed(level="timing", newest_steps=0, limit=None), 0, "at level timing; run with"),
        (None, 0, "at level summary; run with --level values."),
    ],
)
def test_each_reason_is_its_own(keeping: Keeping | None, flags: int, reason: str) -> None:
    assert reason in _told(keeping, "summary", None, ran(flags))


def test_an_older_recording_lists_both_causes() -> None:
    reason = _told(None, "values", None, ran(0))
    assert reason == "Not kept: the byte budget was used up, or the recorder fell behind."


def test_an_execution_without_statistics_has_none_of_another(tmp_path: Path) -> None:
    path = tmp_path / "r.nscope"
    seqs = written(path, [np.full(3, step) for step in range(3)], level="summary")
    connection = sqlite3.connect(path)
    with connection:  # The governor leaves such executions.
        connection.execute("DELETE FROM summary WHERE seq > ?", [seqs[0]])
        connection.execute("UPDATE execution SET flags = 0 WHERE seq > ?", [seqs[0]])
    connection.close()
    with Recording.open(path) as recording:
        assert [recording.ran_last(1, seq) for seq in (0, *seqs)] == [0, *seqs]
        first = latest_known(recording, 1, seqs[0])
        assert first is not None
        assert first.seq == seqs[0]
        assert latest_known(recording, 1, seqs[1]) is None
        assert latest_known(recording, 1, None) is None
        reason = why_not_kept(recording, "summary", 1, seqs[1])
        assert reason.startswith("Only its time was kept")
        assert reason.endswith("No statistics of this execution; last known: step 1.")
        history = History(recording)
        history.refresh()
        moment = history.moment(recording.executions(seqs[1] - 1, seqs[1])[0])
        assert moment is not None
        (seen,) = history.outputs(moment, nothing)
        assert seen.summary is None
        assert (seen.step, seen.seq) == (2, seqs[1])
        assert seen.missing == "no statistics of this execution; last known: step 1"
