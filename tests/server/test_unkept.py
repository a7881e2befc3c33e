"""Why a value is not there: the true reason and one thing to do, for each way to lose it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodescope.events import StepStarted
from nodescope.record.newest import NewestRecorder
from nodescope.record.recording import Recording
from nodescope.record.rows import BEHIND, WANTED, Execution, Keeping
from nodescope_server.unkept import _told, why_not_kept
from tests.core.record.runs import chain, finished

DEFAULT = Keeping("summary", limit=2.0, newest_steps=2, newest_bytes=64 << 20,
                  budget_bytes=256 << 20, chosen=False)  # fmt: skip


def written(path: Path, arrays: list[Any], **options: Any) -> tuple[int, ...]:
    """Record one value several times, each in a step of its own; the seqs."""
    recorder = NewestRecorder(path, **options)
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
        (DEFAULT, 0, "to stay below 2× slower; the newest steps are whole. Pin it to keep it"),
        (DEFAULT, BEHIND, "the recorder fell behind, and dropped older values for newer ones"),
        (DEFAULT, WANTED, "newer values took its place in the budget of 256 MiB. Raise --budget."),
        (changed(newest_steps=0), 0, "to stay below 2× slower. Raise --max-slowdown."),
        (changed(level="timing", newest_steps=0, limit=None), 0, "at level timing; run with"),
        (None, 0, "at level summary; run with --level values."),
    ],
)
def test_each_reason_is_its_own(keeping: Keeping | None, flags: int, reason: str) -> None:
    assert reason in _told(keeping, "summary", None, ran(flags))


def test_an_older_recording_blames_nobody() -> None:
    said = _told(None, "values", None, ran(0))
    assert said == "Not kept: the byte budget was used up, or the recorder fell behind."
